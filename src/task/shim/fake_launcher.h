// A Launcher that starts nothing. It records the calls and delivers events that the test queues.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "task/shim/launcher.h"

namespace carma::task {

class FakeLauncher : public Launcher {
 public:
  struct Call {
    core::TaskId id{};
    int attempt = 0;
    std::string attempt_dir;  // empty for stops and warnings
    friend bool operator==(const Call&, const Call&) = default;
  };

  void Start(LaunchOrder order) override;
  void Stop(core::TaskId id, int attempt, const std::string& why) override;
  void Warn(core::TaskId id, int attempt) override;
  void AskToSave(core::TaskId id, int attempt, base::Time leaves_by) override;
  void Confine(core::TaskId id, int attempt, const std::string& cores) override;
  bool LimitMemory(core::TaskId id, int attempt, const std::vector<std::string>& limits) override;
  void Adopt(const KnownAttempt& attempt) override;
  void Forget(core::TaskId id, int attempt, const std::string& attempt_dir) override;
  std::optional<core::TaskId> TaskOfShim(const base::ProcessId& process) const override {
    const auto found = shims.find(process.pid);
    return found == shims.end() ? std::nullopt : std::optional(found->second);
  }
  int PollFd() const override { return -1; }
  // As in the real launcher, events caused by the sink are delivered by the next call.
  void Poll(const Sink& sink) override;

  // Queues an event for the next Poll().
  void Emit(ShimEvent event) { pending_.push_back(std::move(event)); }
  void EmitStarted(core::TaskId id, int attempt, base::ProcessId process = {});
  void EmitFailed(core::TaskId id, int attempt, std::string text, bool retryable);
  void EmitExited(core::TaskId id, int attempt, int exit_code, std::string stderr_tail = "");

  // Arguments of the calls to Start(), oldest first.
  std::vector<LaunchOrder> started;
  std::vector<Call> stopped;
  std::vector<std::string> stop_reasons;
  std::vector<Call> warned;
  std::vector<base::Time> asked_to_save;                       // the deadlines
  std::vector<std::pair<core::TaskId, std::string>> confined;  // with the cores
  std::vector<std::pair<core::TaskId, std::vector<std::string>>> limited;
  std::vector<KnownAttempt> adopted;
  std::vector<Call> forgotten;
  bool can_limit = true;                // the result of LimitMemory()
  std::map<pid_t, core::TaskId> shims;  // the results of TaskOfShim(), by pid

 private:
  std::deque<ShimEvent> pending_;
};

}  // namespace carma::task
