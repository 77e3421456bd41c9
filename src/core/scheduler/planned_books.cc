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

bool PlannedBooks::Start(const State& state, const TaskRecord& waiting, const Need& need) {
  const Limits::Wants wants = WantsOf(state, need);
  if (limits_.AgainstStart(waiting, wants, state.now)) return false;
  if (need.host != HostNeed{} && !FitsHost(need.host, host_.View())) return false;
  TaskRecord started{.id = waiting.id, .request = waiting.request};
  Attempt& attempt = started.attempt.Edit();
  attempt.launched = state.now;
  attempt.placement.assign(static_cast<std::size_t>(need.gpus), {.claim_mib = wants.promised_mib});
  attempt.host = host_.ShareFor(need.host, {});
  limits_.Start(started);
  host_.Take(waiting.id, attempt.host);
  return true;
}

}  // namespace carma::core
