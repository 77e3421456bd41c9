// `carma lease`: waits for GPUs, then runs the command in its own process.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "api/lease_view.h"
#include "base/json.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/calls.h"
#include "cli/client/describe.h"
#include "cli/client/task_words.h"
#include "cli/client/verbs.h"

namespace carma::cli {
namespace {

using base::Json;

constexpr int kFirstPollS = 1;  // short, so that the reason for waiting appears soon
constexpr int kLeasePollS = 30;
constexpr std::chrono::seconds kAskAgain{1};
// Gives up after the daemon has been unreachable for this long. By then it has probably removed
// this lease from the queue.
constexpr std::chrono::minutes kPatience{10};
// The daemon may be restarting during the first call.
constexpr std::chrono::seconds kFirstPatience{30};

std::string RandomName() {
  std::random_device chance;
  return fmt::format("lease-{:08x}{:08x}{:08x}", chance(), chance(), chance());
}

class Asker {
 public:
  explicit Asker(Context& context) : context_(context) {}

  // Calls the daemon, and repeats the call while the daemon restarts. Returns the daemon's error,
  // or kUnavailable if it does not answer in time.
  Result<Json> Call(const std::string& method, const std::string& target,
                    const std::string& body = "") {
    std::chrono::steady_clock::duration away_for{};
    for (;;) {
      const auto asked = std::chrono::steady_clock::now();
      const Result<std::string> answer =
          context_.client().Call(method, target, body, kLeasePollS + kAnswerS);
      if (answer) return base::ParseJson(*answer);
      const std::chrono::seconds patience = connected_ ? kPatience : kFirstPatience;
      if (answer.error().code != ErrorCode::kUnavailable || away_for >= patience)
        return std::unexpected(answer.error());
      Tell(answer.error().message + "; waiting for it");
      std::this_thread::sleep_for(kAskAgain);
      // Each call counts for at most kLeasePollS, because this process may have been stopped during
      // it.
      away_for += std::min<std::chrono::steady_clock::duration>(
          std::chrono::steady_clock::now() - asked, std::chrono::seconds(kLeasePollS));
    }
  }

  Result<api::LeaseView> Lease(const std::string& method, const std::string& target,
                               const std::string& body = "") {
    const Json json = CARMA_TRY(Call(method, target, body));
    connected_ = true;
    return api::FromJson<api::LeaseView>(json);
  }

  void Tell(const std::string& line) {
    if (std::exchange(told_, line) != line) std::fprintf(context_.err, "carma: %s\n", line.c_str());
  }

 private:
  Context& context_;
  bool connected_ = false;  // the daemon has answered before
  std::string told_;
};

Result<api::LeaseView> AwaitGrant(Asker& asker, api::LeaseView lease) {
  for (int poll_s = kFirstPollS; lease.state == "waiting"; poll_s = kLeasePollS) {
    if (lease.task_state == "queued" && !lease.reason.empty())
      asker.Tell(fmt::format("lease {} waits ({}): {}", lease.id, lease.reason,
                             base::Printable(base::LocalTimes(lease.reason_text), 500)));
    lease = CARMA_TRY(asker.Lease("GET", fmt::format("/v1/leases/{}?wait_s={}", lease.id, poll_s)));
  }
  if (lease.state != "ended") return lease;
  return Unavailable("lease {} has ended ({}): {}", lease.id, lease.reason,
                     base::Printable(base::LocalTimes(lease.reason_text), 500));
}

Result<Unit> Adopt(Asker& asker, std::uint64_t id) {
  const Json answer = CARMA_TRY(asker.Call("POST", fmt::format("/v1/leases/{}/adopt", id)));
  base::JsonReader in(answer, "");
  const Json* environment = in.Raw("environment");
  if (environment == nullptr || !environment->is_object())
    return Fail(ErrorCode::kIo, "carmad's response contains no environment");
  for (const auto& [name, value] : environment->items()) {
    if (value.is_string()) ::setenv(name.c_str(), value.get<std::string>().c_str(), 1);
  }
  return Unit{};
}

// Adopts the granted GPUs. If a grant is not adopted in time, for example because this process was
// stopped, it is withdrawn and another grant follows.
Result<api::LeaseView> TakeGrant(Asker& asker, api::LeaseView asked) {
  for (;;) {
    Result<api::LeaseView> lease = AwaitGrant(asker, std::move(asked));
    if (!lease) return lease;
    const Result<Unit> adopted = Adopt(asker, lease->id);
    if (adopted) return lease;
    lease = asker.Lease("GET", fmt::format("/v1/leases/{}", lease->id));
    if (!lease || lease->state != "waiting") return std::unexpected(adopted.error());
    asked = *std::move(lease);
  }
}

}  // namespace

bool IsForLease(std::string_view option) {
  constexpr std::array<std::string_view, 10> kOfStart{
      "container", "container-mount", "conda-env", "chdir",    "export",
      "output",    "error",           "open-mode", "progress", "retries"};
  return std::ranges::find(kOfStart, option) == kOfStart.end();
}

Result<Unit> RunLease(Context& context, SubmitFlags flags) {
  for (const auto& [option, value] : flags.settings) {
    if (IsForLease(option)) continue;
    return Invalid(
        "--{}: carmad does not start a lease's process; use carma run or carma submit instead",
        option);
  }
  if (context.words.empty()) return Invalid("expected a command (see carma lease --help)");
  context.literal = true;  // the command runs unchanged, even if it is a script
  flags.lease = true;
  flags.settings.insert(flags.settings.begin(), {"output", "/dev/null"});
  const Described described = CARMA_TRY(DescribeWords(context, flags));
  if (!described.specs.empty() || !described.indices.empty())
    return Invalid("a lease is a single task; arrays and sweeps are not supported");
  Asker asker(context);
  api::LeaseView lease = CARMA_TRY(
      asker.Lease("POST", "/v1/leases",
                  fmt::format("{{\"spec\":{},\"request\":\"{}\"}}", described.spec, RandomName())));
  for (const std::string& warning : lease.warnings) Warn(context, warning);
  CARMA_TRY(TakeGrant(asker, std::move(lease)));
  const std::vector<char*> words = base::Argv(context.words);
  ::execvp(words[0], words.data());
  context.Fail(FailErrno(errno, context.words[0]).error());
  context.exit_code = errno == ENOENT ? 127 : 126;
  return Unit{};
}

}  // namespace carma::cli
