#include "core/scheduler/planned_books.h"

#include "core/scheduler/line.h"

namespace carma::core {

PlannedBooks::PlannedBooks(const State& state)
    : limits_(state.limits.ForPlan()), host_(state.machine.books) {
  for (const auto& [id, gpus_of] : state.ledger.Tasks()) {
    const TaskRecord& task = state.tasks.at(id);
    if (task.state == TaskState::kStopping) Leave(task);
  }
}

void PlannedBooks::Leave(const TaskRecord& task) {
  limits_.End(task);
  host_.Release(task.id);
}

bool PlannedBooks::IsLimited(const State& state, const TaskRecord& waiting,
                             const Need& need) const {
  return limits_.AgainstStart(waiting, WantsOf(state, need), state.now).has_value();
}

bool PlannedBooks::Start(const State& state, const TaskRecord& waiting, const Need& need) {
  if (need.host != HostNeed{} && !FitsHost(need.host, host_.View())) return false;
  TaskRecord started{.id = waiting.id, .request = waiting.request};
  Attempt& attempt = started.attempt.Edit();
  attempt.launched = state.now;
  attempt.placement.assign(static_cast<std::size_t>(need.gpus),
                           {.claim_mib = WantsOf(state, need).promised_mib});
  attempt.host = host_.ShareFor(need.host, {});
  limits_.Start(started);
  host_.Take(waiting.id, attempt.host);
  return true;
}

}  // namespace carma::core
