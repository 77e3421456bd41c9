// Adds up the usage of attempts by user, account, class and time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "api/usage_view.h"
#include "base/result.h"
#include "store/store.h"

namespace carma::daemon {

// The columns by which usage is grouped.
struct UsageBy {
  bool user = false;
  bool account = false;
  bool qos = false;
  enum class Period { kAll, kMonth, kDay };
  Period period = Period::kAll;
};
// Parses a comma-separated list of user, account, class (or qos), and month or day, each optional.
// Returns kInvalid for anything else.
Result<UsageBy> ParseUsageBy(std::string_view text);

// Add all attempts first, in any order, then the GPU usage in chronological order. Times are summed
// in whole milliseconds, so all groupings have the same total.
class UsageSums {
 public:
  // Counts only the time in [from, to). An attempt that spans several periods is split among them.
  // Its start and waiting time count in the period in which it started. An out-of-memory failure
  // counts in the period in which the attempt ended.
  UsageSums(const UsageBy& by, core::Time from, core::Time to) : by_(by), from_(from), to_(to) {}

  // For a running attempt, the end time must be the current time and `exit` must be empty.
  void Add(const store::EndedAttempt& attempt);
  // Must be called after all attempts have been added.
  void Add(const store::GpuUsage& usage);

  // The rows, sorted by user, account, class and period.
  std::vector<api::UsageView> Rows() const;

 private:
  using Key = std::tuple<std::string, std::string, std::string, std::string>;
  struct Sum {
    std::set<std::uint64_t> tasks;
    std::int64_t attempts = 0;
    std::int64_t gpu_ms = 0;
    double share_s = 0;
    std::int64_t waiting_ms = 0;
    std::optional<double> energy_j;
    std::int64_t ooms = 0;
    std::int64_t promised_mib_ms = 0;
    std::int64_t unused_mib_ms = 0;
  };
  struct Piece {
    core::Time from{};
    core::Time to{};
    Sum* of = nullptr;
  };
  // The attempts on one GPU. Add(GpuUsage) moves through them in chronological order.
  struct Gpu {
    std::vector<Piece> pieces;
    std::size_t next = 0;  // all pieces before this index have been added to `there`
    bool sorted = false;
    std::vector<Piece> there;
  };
  std::string PeriodOf(core::Time at) const;
  core::Time PeriodEnd(core::Time at) const;
  void AddPiece(const store::EndedAttempt& attempt, core::Time from, core::Time to);

  UsageBy by_;
  core::Time from_, to_;
  std::map<Key, Sum> sums_;                    // elements must not move
  std::unordered_map<std::string, Gpu> gpus_;  // by UUID; for lookup only
};

}  // namespace carma::daemon
