// Decides which task of the main queue goes next.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

LineUp Line(const State& state, LineKind kind,
            const std::optional<LineUp::Newcomer>& newcomer = {});
// The tasks of a queue in order. Each task is popped from the LineUp once and then cached.
class Order {
 public:
  explicit Order(LineUp line) : line_(std::move(line)) {}
  // The task at this position in the queue, counted from 0; null: the queue is shorter. Valid until
  // the next call.
  const LineUp::Next* At(std::size_t place);
  bool popped() const { return !popped_.empty(); }
  // The queue without the tasks that At has popped.
  const LineUp& rest() const { return line_; }

 private:
  LineUp line_;
  std::vector<LineUp::Next> popped_;
};
// The order of Line(state, kWithGpus) for the steps of one pass. Computed again only after it may
// have changed.
class PassLine {
 public:
  explicit PassLine(const State& state) : state_(state) {}
  Order& Now();
  // The whole queue.
  const LineUp& Whole();

 private:
  const State& state_;
  std::uint64_t made_at_ = 0;  // OrderChanges
  std::optional<Order> order_;
};
std::optional<LimitHit> LimitOn(const State& state, const TaskRecord& task, Time at);
Limits::Wants WantsOf(const State& state, const TaskRecord& task);
Limits::Wants WantsOf(const State& state, const Need& need);
bool IsLimited(const State& state, const TaskRecord& task);
// Since when the task has waited as a head of its queue. In fair order heads alternate, and each
// keeps its own time, but none from before it was held.
Time HeadSince(State& state, TaskId id);
// How many other tasks have started before the head of the main queue since HeadSince.
int TimesPassed(const State& state);
// Time during which a limit keeps a task from starting does not count as its wait as a head.
void PauseLimitedHeads(State& state, LineKind kind);
void NoteHead(State& state, PassLine& pass);
// A counter that changes whenever another task may have become the head.
std::uint64_t OrderChanges(const State& state);
NoStartSnapshot LookNow(const State& state, const std::vector<GpuView>& views);
// Whether no GPU has become more suitable since the snapshot for the tasks that were considered
// then.
bool OpensNothingSince(const State& state, const NoStartSnapshot& look);
// For each GPU, whether it may now take a task that fitted on no GPU at the snapshot.
std::vector<bool> OpenedSince(const State& state, const NoStartSnapshot& look);
// Whether the same tasks are considered as at the snapshot.
bool SameLineSince(const State& state, const NoStartSnapshot& look);
void StartInOrder(State& state, std::vector<GpuView>& views, PassLine& pass);
// Starts tasks behind the considered ones, on GPUs that no task before them could ever use.
void StartBeside(State& state, std::vector<GpuView>& views, PassLine& pass);
bool HasPlaceBeside(const State& state, const TaskRecord& task, Time at);

}  // namespace carma::core
