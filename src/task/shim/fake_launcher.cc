#include "task/shim/fake_launcher.h"

#include <utility>

namespace carma::task {
namespace {

ShimEvent EventOf(ShimEventKind kind, core::TaskId id, int attempt) {
  ShimEvent event;
  event.kind = kind;
  event.id = id;
  event.attempt = attempt;
  return event;
}

}  // namespace

void FakeLauncher::Start(LaunchOrder order) {
  started.push_back(std::move(order));
}

void FakeLauncher::Stop(core::TaskId id, int attempt, const std::string& why) {
  stop_reasons.push_back(why);
  stopped.push_back({id, attempt, {}});
}

void FakeLauncher::Warn(core::TaskId id, int attempt) {
  warned.push_back({id, attempt, {}});
}

void FakeLauncher::AskToSave(core::TaskId, int, base::Time leaves_by) {
  asked_to_save.push_back(leaves_by);
}

void FakeLauncher::Confine(core::TaskId id, int, const std::string& cores) {
  confined.emplace_back(id, cores);
}

bool FakeLauncher::LimitMemory(core::TaskId id, int, const std::vector<std::string>& limits) {
  if (can_limit) limited.emplace_back(id, limits);
  return can_limit;
}

void FakeLauncher::Adopt(const KnownAttempt& attempt) {
  adopted.push_back(attempt);
}

void FakeLauncher::Forget(core::TaskId id, int attempt, const std::string& attempt_dir) {
  forgotten.push_back({id, attempt, attempt_dir});
}

void FakeLauncher::Poll(const Sink& sink) {
  for (const ShimEvent& event : std::exchange(pending_, {})) sink(event);
}

void FakeLauncher::EmitStarted(core::TaskId id, int attempt, base::ProcessId process) {
  ShimEvent event = EventOf(ShimEventKind::kStarted, id, attempt);
  event.process = process;
  Emit(std::move(event));
}

void FakeLauncher::EmitFailed(core::TaskId id, int attempt, std::string text, bool retryable) {
  ShimEvent event = EventOf(ShimEventKind::kLaunchFailed, id, attempt);
  event.text = std::move(text);
  event.retryable = retryable;
  Emit(std::move(event));
}

void FakeLauncher::EmitExited(core::TaskId id, int attempt, int exit_code,
                              std::string stderr_tail) {
  ShimEvent event = EventOf(ShimEventKind::kExited, id, attempt);
  event.exit_code = exit_code;
  event.stderr_tail = std::move(stderr_tail);
  Emit(std::move(event));
}

}  // namespace carma::task
