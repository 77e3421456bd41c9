// Records which GPUs are reserved, when, and for whom. Tasks still running when a reservation
// begins may finish, but from then on only tasks of the reservation start on its GPUs.
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
  std::vector<TaskId> others;  // running tasks without access that might still be running at `from`
};

class ReservationBook {
 public:
  // State of a GPU, for choosing the GPUs of a reservation.
  struct Standing {
    bool open = true;
    int own = 0;     // tasks of the reservation that started there during the period
    int others = 0;  // running tasks that the reservation does not admit
  };
  using Look = std::function<Standing(const ReservedPeriod&, GpuIndex)>;

  // Sets all periods. A period that continues keeps the GPUs already chosen for it.
  void Follow(std::vector<ReservedPeriod> periods);

  // Called before each decision. Drops past periods and chooses GPUs for reservations that specify
  // a GPU count, at first those with the highest indexes. When only `lead` remains until the start,
  // it chooses again and prefers GPUs where tasks of the reservation started during the period (so
  // that a restart does not change the choice), then GPUs with the fewest other tasks. After that,
  // a GPU is replaced only if it is closed or another reservation takes it.
  void Settle(Time now, Duration lead, std::span<const GpuInfo> gpus, const Look& look);

  bool empty() const { return slots_.empty(); }
  // The periods on that GPU, ordered by start time. Valid until the next Follow or Settle.
  std::span<const ReservedPeriod* const> On(GpuIndex gpu) const;
  // The reservations that admit the task (IsFor).
  std::vector<ReservationId> Of(const TaskRequest& request) const;
  // The GPUs held at `now` by the reservations in `own`, in ascending order.
  std::vector<GpuIndex> GpusFor(std::span<const ReservationId> own, Time now) const;
  // The state of all periods. ReservationStatus::others is left empty.
  std::vector<ReservationStatus> Standings() const;
  const Reservation* Find(ReservationId id) const;  // null if unknown
  // True if any reservation is in force at that time.
  bool HoldAt(Time now) const;
  // The next time at which a reservation begins, ends or must choose its GPUs.
  std::optional<Time> NextChange(Time now, Duration lead) const;
  // Incremented whenever a GPU becomes reserved for different users.
  std::uint64_t changes() const { return changes_; }

  // The periods that got fewer GPUs than requested, because the server has too few or other periods
  // have reserved them. Valid after Settle.
  std::vector<ReservedPeriod> TooFew() const;

 private:
  struct Slot {
    ReservedPeriod period;
    std::vector<GpuIndex> gpus;
    bool chosen = false;
    bool near = false;  // chosen within `lead` of the start
  };
  // Maps users, accounts and classes to the reservations that admit them, because decisions look up
  // the reservations of every task.
  struct Admitted {
    using ByName = std::map<std::string, std::set<ReservationId>>;
    ByName users, accounts, classes;
  };
  void Choose(Slot& slot, bool keep, std::span<const GpuInfo> gpus, const Look& look);
  // True if one of the first `among` slots belongs to another reservation and holds the GPU at some
  // time during by.period.
  bool IsTaken(GpuIndex gpu, const Slot& by, std::size_t among) const;
  void List(std::size_t gpus);

  std::vector<Slot> slots_;  // those with named GPUs first, then by start
  std::vector<std::vector<const ReservedPeriod*>> by_gpu_;
  Admitted admitted_;
  std::uint64_t changes_ = 0;
  std::size_t in_force_ = 0;  // periods in force at the last Settle
};

}  // namespace carma::core
