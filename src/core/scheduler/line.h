// Decides which task of the main queue starts next.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

LineUp Line(const State& state, LineKind kind,
            const std::optional<LineUp::Newcomer>& newcomer = {});
// The tasks of a queue in order. Each task is popped from the LineUp once and cached.
class Order {
 public:
  explicit Order(LineUp line) : line_(std::move(line)) {}
  // The task at this position in the queue, counted from 0. Null if the queue is shorter. Valid
  // until the next call.
  const LineUp::Next* At(std::size_t place);
  bool popped() const { return !popped_.empty(); }
  // The part of the queue that At has not popped yet.
  const LineUp& rest() const { return line_; }

 private:
  LineUp line_;
  std::vector<LineUp::Next> popped_;
};
// The order of the main queue (of tasks with GPUs) during one pass. It is recomputed only when it
// might have changed.
class PassLine {
 public:
  explicit PassLine(const State& state) : state_(state) {}
  Order& Now();
  // The whole queue.
  const LineUp& Whole();

 private:
  const State& state_;
  std::uint64_t made_at_ = 0;  // value of OrderChanges when order_ was computed
  std::optional<Order> order_;
};
std::optional<LimitHit> LimitOn(const State& state, const TaskRecord& task, Time at);
Limits::Wants WantsOf(const State& state, const TaskRecord& task);
Limits::Wants WantsOf(const State& state, const Need& need);
bool IsLimited(const State& state, const TaskRecord& task);
// When the task became a head of its queue. In fair order, the heads alternate. Each keeps its own
// waiting time, which starts over when the task is held.
Time HeadSince(State& state, TaskId id);
// How many other tasks have overtaken the head of the main queue since HeadSince.
int TimesPassed(const State& state);
// Stops counting a head's waiting time while a limit keeps the task from starting, and resumes
// afterwards.
void PauseLimitedHeads(State& state, LineKind kind);
void NoteHead(State& state, PassLine& pass);
// Changes whenever another task might have become the head.
std::uint64_t OrderChanges(const State& state);
NoStartSnapshot LookNow(const State& state, const std::vector<GpuView>& views);
// True if, for the tasks considered in the snapshot, no GPU has become more suitable since then.
bool OpensNothingSince(const State& state, const NoStartSnapshot& look);
// For each GPU, whether it might now take a task that did not fit on any GPU at the time of the
// snapshot.
std::vector<bool> OpenedSince(const State& state, const NoStartSnapshot& look);
// True if a pass would consider the same tasks now as when the snapshot was taken.
bool SameLineSince(const State& state, const NoStartSnapshot& look);
void StartInOrder(State& state, std::vector<GpuView>& views, PassLine& pass);
// Starts tasks beyond the considered part of the queue (backfill), on GPUs that no task ahead of
// them could ever use.
void StartBeside(State& state, std::vector<GpuView>& views, PassLine& pass);
bool HasPlaceBeside(const State& state, const TaskRecord& task, Time at);

}  // namespace carma::core
