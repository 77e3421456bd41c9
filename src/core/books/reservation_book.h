// Which GPUs are reserved for whom and when, as reported by the shell. Tasks still running when a
// reservation begins may finish; no other task is started there.
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

// One period of a reservation.
struct ReservationStatus {
  ReservationId id{};
  Time from{};
  Time to{};
  std::vector<GpuIndex> gpus;  // reserved now or later
  std::vector<TaskId> others;  // tasks of others that run there now, and perhaps still at `from`
};

class ReservationBook {
 public:
  // State of a GPU when a reservation must choose among many.
  struct Standing {
    bool open = true;
    int own = 0;     // tasks that started there during the period, as those of the reservation
    int others = 0;  // tasks that the reservation does not admit
  };
  using Look = std::function<Standing(const ReservedPeriod&, GpuIndex)>;

  // Sets all periods. GPUs already chosen for a period that continues stay chosen.
  void Follow(std::vector<ReservedPeriod> periods);

  // Called before each decision: drops past periods and chooses GPUs for reservations that state
  // only a number of GPUs. At first it chooses those with the highest indexes; `lead` before the
  // beginning, those with the fewest tasks of others; after a restart first those that its tasks
  // already use. These stay chosen unless one is closed while another is open.
  void Settle(Time now, Duration lead, std::span<const GpuInfo> gpus, const Look& look);

  bool empty() const { return slots_.empty(); }
  // Ordered by beginning; valid until the next Follow or Settle.
  std::span<const ReservedPeriod* const> On(GpuIndex gpu) const;
  // The reservations that admit the task, as IsFor tells.
  std::vector<ReservationId> Of(const TaskRequest& request) const;
  // GPUs of the task's own reservations that are in force now, in order.
  std::vector<GpuIndex> GpusFor(std::span<const ReservationId> own, Time now) const;
  // The current state and GPUs of all reservations, without the tasks of others on them.
  std::vector<ReservationStatus> Standings() const;
  const Reservation* Find(ReservationId id) const;  // null: none
  // Whether any reservation is in force at that time.
  bool HoldAt(Time now) const;
  // When the passing of time next changes anything.
  std::optional<Time> NextChange(Time now, Duration lead) const;
  // Changes whenever a GPU is reserved for other users than before.
  std::uint64_t changes() const { return changes_; }

  // The periods with fewer GPUs than they ask for, because there are too few or others have them.
  // After Settle.
  std::vector<ReservedPeriod> TooFew() const;

 private:
  struct Slot {
    ReservedPeriod period;
    std::vector<GpuIndex> gpus;
    bool chosen = false;
    bool near = false;  // chosen within `lead` of the beginning
  };
  // For each name the reservations of the last Follow that admit it: decisions ask for every task.
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
  std::size_t in_force_ = 0;  // at the last Settle
};

}  // namespace carma::core
