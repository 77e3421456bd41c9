#include "daemon/loop/housekeeping.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/try.h"

namespace carma::daemon {
namespace {

constexpr std::chrono::nanoseconds kPause = std::chrono::hours(1);
// Number of tasks deleted at a time. Other calls are served in between.
constexpr std::int64_t kMostPruned = 500;
constexpr std::chrono::nanoseconds kNextPrune = std::chrono::milliseconds(200);
constexpr base::Duration kRequestsKept{std::chrono::hours(24)};

}  // namespace

Housekeeping::Housekeeping(boost::asio::io_context& loop, LoopMeter& meter, store::Store& store,
                           base::Clock& clock, std::function<int()> keep_days)
    : meter_(meter), store_(store), clock_(clock), keep_days_(std::move(keep_days)), again_(loop) {}

void Housekeeping::Start() {
  again_.Set(kPause, [this] { Run(); });
}

void Housekeeping::Run() {
  meter_.Look();
  const Result<std::int64_t> pruned = Prune();
  if (!pruned) base::LogWarn("prune_failed", {{"why", pruned.error().message}});
  if (pruned && *pruned > 0) base::LogInfo("pruned", {{"tasks", *pruned}});
  again_.Set(pruned == kMostPruned ? kNextPrune : kPause, [this] { Run(); });
}

Result<std::int64_t> Housekeeping::Prune() {
  const base::Time now = clock_.Now() + std::min(base::Duration(0), clock_.WallStep());
  CARMA_TRY(store_.Begin());
  Result<std::int64_t> pruned =
      store_.Prune(now - std::chrono::hours(24) * keep_days_(), kMostPruned);
  Result<Unit> ok =
      pruned ? store_.ForgetRequests(now - kRequestsKept) : std::unexpected(pruned.error());
  if (ok) ok = store_.Commit();
  if (ok) return pruned;
  store_.Rollback();
  return std::unexpected(ok.error());
}

}  // namespace carma::daemon
