// Which GPUs are kept for whom and when: the reservations of people, as the shell tells them. What
// runs there when one begins is left to end by itself; nobody else is put there.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/values/gpu.h"
#include "core/values/reservation.h"

namespace carma::core {

// One time that a reservation holds.
struct ReservationStatus {
  ReservationId id{};
  Time from{};
  Time to{};
  std::vector<GpuIndex> gpus;  // those that are kept, or will be
  std::vector<TaskId> others;  // tasks of others that run there now
};

class ReservationBook {
 public:
  // How a GPU stands, for the choice of some of many.
  struct Standing {
    bool open = true;
    int others = 0;  // tasks there that the reservation is not for
  };
  using Look = std::function<Standing(const Reservation&, GpuIndex)>;

  // These are all, by now. What was chosen for one that goes on stays chosen.
  void Follow(std::vector<ReservedPeriod> periods);

  // Before each decision: forgets what is over, and chooses GPUs where a reservation says only how
  // many. The highest numbers at first; `lead` before its beginning those with the fewest tasks of
  // others, which it then keeps unless one is closed and another open.
  void Settle(Time now, Duration lead, std::span<const GpuInfo> gpus, const Look& look);

  bool empty() const { return slots_.empty(); }
  // In order of their beginnings; valid until the next call of the two above.
  std::span<const ReservedPeriod* const> On(GpuIndex gpu) const;
  // Those that the task's are.
  std::vector<ReservationId> Of(const TaskRequest& request) const;
  // Those that hold now and that the task's are: their GPUs, in order.
  std::vector<GpuIndex> GpusFor(std::span<const ReservationId> own, Time now) const;
  // As they stand: which GPUs are kept; without the tasks of others.
  std::vector<ReservationStatus> Standings() const;
  const Reservation* Find(ReservationId id) const;  // null: none
  // Some hold at that time.
  bool HoldAt(Time now) const;
  // When something changes by time alone.
  std::optional<Time> NextChange(Time now, Duration lead) const;
  // Another number whenever a GPU is kept for somebody else than before.
  std::uint64_t changes() const { return changes_; }

  // The first whose period has fewer GPUs than it asks for, because there are not so many or
  // others have them; empty: none. After Settle.
  const ReservedPeriod* TooFew() const;

 private:
  struct Slot {
    ReservedPeriod period;
    std::vector<GpuIndex> gpus;
    bool chosen = false;
    bool near = false;  // chosen when its time was near
  };
  void Choose(Slot& slot, std::span<const GpuInfo> gpus, const Look& look);
  bool IsTaken(GpuIndex gpu, const Slot& by) const;
  void List(std::size_t gpus);

  std::vector<Slot> slots_;  // those that say which GPUs first, then by beginning and number
  std::vector<std::vector<const ReservedPeriod*>> by_gpu_;
  std::uint64_t changes_ = 0;
  bool holds_ = false;  // as of the last look
};

}  // namespace carma::core
