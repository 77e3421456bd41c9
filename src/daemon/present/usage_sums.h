// Who had what: sums of attempts by user, account, class and time.
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

// By what the rows are told apart.
struct UsageBy {
  bool user = false;
  bool account = false;
  bool qos = false;
  enum class Period { kAll, kMonth, kDay };
  Period period = Period::kAll;
};
// "user,account,qos,month" or "day", any of them. Errors: kInvalid.
base::Result<UsageBy> ParseUsageBy(std::string_view text);

// Fed with attempts in any order, then with the use of the GPUs by time. Sums are exact to the
// millisecond: the rows of any way to tell them apart add up to the same.
class UsageSums {
 public:
  // Only what lies in [from, to) counts. Counts and waiting are those of the attempts that begin
  // in a row's period, crashes and unused memory those of the attempts that have any time in it.
  UsageSums(const UsageBy& by, core::Time from, core::Time to) : by_(by), from_(from), to_(to) {}

  // One that still runs has its end at the moment of the question, and no exit.
  void Add(const store::EndedAttempt& attempt);
  // After the last attempt.
  void Add(const store::GpuUsage& usage);

  // By user, account, class and period.
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
  // One GPU, read along time.
  struct Gpu {
    std::vector<Piece> pieces;
    std::size_t next = 0;  // 0 until they are sorted
    bool sorted = false;
    std::vector<Piece> there;
  };
  std::string PeriodOf(core::Time at) const;
  core::Time PeriodEnd(core::Time at) const;
  void AddPiece(const store::EndedAttempt& attempt, core::Time from, core::Time to);

  UsageBy by_;
  core::Time from_, to_;
  std::map<Key, Sum> sums_;                    // which stay where they are
  std::unordered_map<std::string, Gpu> gpus_;  // by UUID; for look-up only
};

}  // namespace carma::daemon
