// Who would have to leave the GPUs so that a waiting task can start. Pure: a picture of the server
// in which tasks are taken away and put in, by the same guards as everywhere.
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
  bool exclusive = false;  // keeps others out
  double sm_share = 0;
  Neighbour load;
  std::uint32_t uid = 0;
};

class PreemptionPlan {
 public:
  explicit PreemptionPlan(const PolicyConfig& config) : config_(config) {}  // which outlives it
  PreemptionPlan(const PreemptionPlan& other);
  PreemptionPlan& operator=(const PreemptionPlan&) = delete;

  // The next GPU, by index. tasks: those there, in the order of view.residents, which strangers
  // follow. Settling is not asked of it: what waits for that waits for nobody to leave.
  void Add(const GpuView& view, std::vector<PlannedTask> tasks);

  void Leave(TaskId task);
  // Puts the task in where it fits, the emptiest GPUs first; false: not on enough of them.
  bool Take(const Need& need);
  // The same for one that did not fit when NoteLooked was called: it looks at GPUs where something
  // has come free since before it looks at all.
  bool TakeIfOpened(const Need& need);
  void NoteLooked();
  // Which of the candidates must leave so that it fits, the first of them rather than later ones,
  // and none that need not; none at all where it fits. Empty: it would not fit if all left.
  std::optional<std::vector<TaskId>> WhoMustLeave(const Need& need,
                                                  std::span<const TaskId> candidates) const;
  // Of each task that is there, how many times as long as alone on a GPU of pace 1 it takes on its
  // slowest one.
  std::map<TaskId, double> Slowdowns() const;
  // Nobody else is put on the GPUs that RecoveryHold would choose for it, until they are kept for
  // another or let go.
  void KeepFor(const Need& need);
  void LetGo(TaskId kept_for);

 private:
  struct Gpu {
    GpuView view;  // as it was told
    std::vector<PlannedTask> tasks;
    std::vector<Neighbour> strangers;
    bool opened = true;  // something has come free since it was looked at
    // Of the tasks that are there now.
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
