// Which task of the main queue goes next.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

LineUp Line(const State& state, LineKind kind,
            const std::optional<LineUp::Newcomer>& newcomer = {});
// Line(state, kWithGpus) for the steps of one pass. Computed again only after the queue changed.
class PassLine {
 public:
  explicit PassLine(const State& state) : state_(state) {}
  // Copy it before a Pop.
  const LineUp& Now();

 private:
  const State& state_;
  std::uint64_t made_at_ = 0;  // Queue::changes
  std::optional<LineUp> line_;
};
std::optional<LimitHit> LimitOn(const State& state, const TaskRecord& task, Time at);
Limits::Wants WantsOf(const State& state, const TaskRecord& task);
Limits::Wants WantsOf(const State& state, const Need& need);
bool IsLimited(const State& state, const TaskRecord& task);
void NoteHead(State& state, PassLine& pass);
NoStartSnapshot LookNow(const State& state, const std::vector<GpuView>& views);
// Whether no GPU has become better since the snapshot for the tasks considered in it.
bool OpensNothingSince(const State& state, const NoStartSnapshot& look);
// For each GPU whether it may now take a task that fitted on no GPU in the snapshot.
std::vector<bool> OpenedSince(const State& state, const NoStartSnapshot& look);
// Whether the same tasks are considered as in the snapshot.
bool SameLineSince(const State& state, const NoStartSnapshot& look);
void StartInOrder(State& state, std::vector<GpuView>& views, PassLine& pass);
// Starts tasks behind those considered, on GPUs that none of the tasks before could ever take.
void StartBeside(State& state, std::vector<GpuView>& views, PassLine& pass);
bool HasPlaceBeside(const State& state, const TaskRecord& task, Time at);

}  // namespace carma::core
