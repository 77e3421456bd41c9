// Decides which tasks must leave so that a waiting task can start. Pure: removes tasks from a copy
// of the server's state until the usual guards admit the waiting task.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "core/policy/gpu_links.h"
#include "core/policy/policy.h"

namespace carma::core {

// A task on a GPU.
struct PlannedTask {
  TaskId task{};
  std::int64_t promised_mib = 0;
  bool exclusive = false;  // no other task may join it
  double sm_share = 0;
  Neighbour load;
  std::uint32_t uid = 0;
};

class PreemptionPlan {
 public:
  // `config` and `links` must outlive the plan.
  PreemptionPlan(const PolicyConfig& config, const GpuLinks& links)
      : config_(config), links_(links) {}
  PreemptionPlan(const PreemptionPlan& other);
  PreemptionPlan& operator=(const PreemptionPlan&) = delete;

  // Adds the GPU with the next index. tasks: in the order of view.residents, which lists foreign
  // processes last. Settling is ignored: a task that only waits for a GPU to settle does not need
  // other tasks to leave.
  void Add(const GpuView& view, std::vector<PlannedTask> tasks);

  void Leave(TaskId task);
  // Places the task where it fits, on the emptiest GPUs first (linked ones if it requires them).
  // Returns false if too few GPUs can take it.
  bool Take(const Need& need);
  // Like Take, but for a task that did not fit at the last NoteLooked. Returns false at once unless
  // the task fits on a GPU where something has been freed since then.
  bool TakeIfOpened(const Need& need);
  void NoteLooked();
  // Returns the candidates that must leave to make the task fit, and no more than necessary.
  // Prefers those at the front of the list. Returns an empty list if the task already fits, and
  // nullopt if it would not fit even if all candidates left.
  std::optional<std::vector<TaskId>> WhoMustLeave(const Need& need,
                                                  std::span<const TaskId> candidates) const;
  // The slowdown of each placed task, relative to running alone on a GPU of pace 1. If a task has
  // several GPUs, the slowest one counts.
  std::map<TaskId, double> Slowdowns() const;
  // Keeps other tasks off the GPUs that RecoveryHold would choose for this need, until the next
  // call to KeepFor or LetGo.
  void KeepFor(const Need& need);
  void LetGo(TaskId kept_for);

 private:
  struct Gpu {
    GpuView view;  // as passed to Add
    std::vector<PlannedTask> tasks;
    std::vector<Neighbour> strangers;
    bool opened = true;  // something has been freed since NoteLooked
    // The tasks on the GPU in the plan's current state.
    std::vector<Neighbour> residents;
    std::vector<std::uint32_t> users;
  };
  void Refresh(Gpu& gpu) const;
  std::vector<const Gpu*> Fitting(const Need& need) const;
  // The GPUs, best first, reduced to those that the task would take. Empty if there are too few.
  std::vector<const Gpu*> Chosen(const Need& need, std::vector<const Gpu*> sorted) const;
  std::vector<TaskId> LeaversOf(const Need& need, const std::vector<const Gpu*>& fitting,
                                const std::vector<TaskId>& leaving) const;
  bool FitsWithout(const Need& need, std::span<const TaskId> gone) const;
  bool Fits(const Need& need) const { return !Chosen(need, Fitting(need)).empty(); }

  const PolicyConfig& config_;
  const GpuLinks& links_;
  std::vector<Gpu> gpus_;
};

}  // namespace carma::core
