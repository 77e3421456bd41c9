// Decides which tasks must leave so that a waiting task can start. Pure: works on a copy of the
// server's state, from which it removes tasks and in which the usual guards place the waiting task.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

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
  // `config` must outlive the plan.
  explicit PreemptionPlan(const PolicyConfig& config) : config_(config) {}
  PreemptionPlan(const PreemptionPlan& other);
  PreemptionPlan& operator=(const PreemptionPlan&) = delete;

  // Adds the next GPU in order of index. tasks: its tasks, in the order of view.residents, which
  // lists foreign processes after them. Settling is ignored, because a task that only waits until a
  // GPU has settled needs no other task to leave.
  void Add(const GpuView& view, std::vector<PlannedTask> tasks);

  void Leave(TaskId task);
  // Places the task where it fits, on the emptiest GPUs first. Returns false if too few GPUs take
  // it.
  bool Take(const Need& need);
  // Take for a task that did not fit at the last NoteLooked: first checks whether it fits on a GPU
  // where something was freed since then.
  bool TakeIfOpened(const Need& need);
  void NoteLooked();
  // The smallest set of candidates that must leave so that the task fits; earlier candidates are
  // preferred. An empty list if the task fits already, an empty optional if it would not fit even
  // without all candidates.
  std::optional<std::vector<TaskId>> WhoMustLeave(const Need& need,
                                                  std::span<const TaskId> candidates) const;
  // The slowdown of each placed task: its run time on its slowest GPU, relative to running alone on
  // a GPU of pace 1.
  std::map<TaskId, double> Slowdowns() const;
  // Keeps the GPUs that RecoveryHold would choose for this need free of other tasks, until the next
  // call of KeepFor or LetGo.
  void KeepFor(const Need& need);
  void LetGo(TaskId kept_for);

 private:
  struct Gpu {
    GpuView view;  // as passed to Add
    std::vector<PlannedTask> tasks;
    std::vector<Neighbour> strangers;
    bool opened = true;  // something was freed since NoteLooked
    // The tasks that are on the GPU in the plan's current state.
    std::vector<Neighbour> residents;
    std::vector<std::uint32_t> users;
  };
  void Refresh(Gpu& gpu) const;
  std::vector<Gpu*> Fitting(const Need& need);
  std::vector<TaskId> LeaversOf(const Need& need, const std::vector<Gpu*>& fitting,
                                const std::vector<TaskId>& leaving) const;
  bool FitsWithout(const Need& need, std::span<const TaskId> gone) const;
  bool Fits(const Need& need) {
    return Fitting(need).size() >= static_cast<std::size_t>(need.gpus);
  }

  const PolicyConfig& config_;
  std::vector<Gpu> gpus_;
};

}  // namespace carma::core
