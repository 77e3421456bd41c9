// Records when GPUs are reserved, and for which tasks, as reported by the shell. Tasks still
// running when a reservation begins may finish, but no other tasks are started on its GPUs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/values/gpu.h"
#include "core/values/reservation.h"

namespace carma::core {

// The state of one period of a reservation.
struct ReservationStatus {
  ReservationId id{};
  Time from{};
  Time to{};
  std::vector<GpuIndex> gpus;  // reserved now or later
  std::vector<TaskId> others;  // running tasks without access that may still run at `from`
};

class ReservationBook {
 public:
  // The state of a GPU for a reservation that must choose its GPUs.
  struct Standing {
    bool open = true;
    int own = 0;     // tasks of the reservation that started there during the period
    int others = 0;  // running tasks that the reservation does not admit
  };
  using Look = std::function<Standing(const ReservedPeriod&, GpuIndex)>;

  // Sets all periods. GPUs already chosen for a period that continues stay chosen.
  void Follow(std::vector<ReservedPeriod> periods);

  // Called before each decision: drops past periods and chooses GPUs for reservations that state
  // only a number of GPUs. The first choice is the GPUs with the highest indexes. When the
  // beginning is only `lead` away, the final choice is the GPUs on which tasks of the reservation
  // started during the period (so a restart makes the same choice), then those with the fewest
  // other tasks. The final choice changes only if one of its GPUs is closed while another is open.
  void Settle(Time now, Duration lead, std::span<const GpuInfo> gpus, const Look& look);

  bool empty() const { return slots_.empty(); }
  // The periods on that GPU, ordered by beginning. Valid until the next Follow or Settle.
  std::span<const ReservedPeriod* const> On(GpuIndex gpu) const;
  // The reservations that admit the task (IsFor).
  std::vector<ReservationId> Of(const TaskRequest& request) const;
  // The GPUs of the reservations in `own` that are in force now, in order.
  std::vector<GpuIndex> GpusFor(std::span<const ReservationId> own, Time now) const;
  // The state of all periods, without ReservationStatus::others.
  std::vector<ReservationStatus> Standings() const;
  const Reservation* Find(ReservationId id) const;  // null: unknown
  // Whether any reservation is in force at that time.
  bool HoldAt(Time now) const;
  // When the passing of time next changes a reservation.
  std::optional<Time> NextChange(Time now, Duration lead) const;
  // A counter that changes whenever a GPU is reserved for other users than before.
  std::uint64_t changes() const { return changes_; }

  // The periods that got fewer GPUs than requested, because there are too few or other periods have
  // them. Valid after Settle.
  std::vector<ReservedPeriod> TooFew() const;

 private:
  struct Slot {
    ReservedPeriod period;
    std::vector<GpuIndex> gpus;
    bool chosen = false;
    bool near = false;  // chosen within `lead` of the beginning
  };
  // The reservations from the last Follow(), indexed by the users, accounts and classes that they
  // admit. Every decision looks them up for every task.
  struct Admitted {
    using ByName = std::map<std::string, std::set<ReservationId>>;
    ByName users, accounts, classes;
  };
  void Choose(Slot& slot, bool keep, std::span<const GpuInfo> gpus, const Look& look);
  // Whether another reservation among the first `among` slots has the GPU.
  bool IsTaken(GpuIndex gpu, const Slot& by, std::size_t among) const;
  void List(std::size_t gpus);

  std::vector<Slot> slots_;  // named GPUs first, then by beginning
  std::vector<std::vector<const ReservedPeriod*>> by_gpu_;
  Admitted admitted_;
  std::uint64_t changes_ = 0;
  std::size_t in_force_ = 0;  // periods in force at the last Settle
};

}  // namespace carma::core
