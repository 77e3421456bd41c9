#include "core/books/reservation_book.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/values/entitlement.h"
#include "core/values/gpu_choice.h"

namespace carma::core {
namespace {

bool Meet(const ReservedPeriod& a, const ReservedPeriod& b) {
  return a.from < b.to && b.from < a.to;
}

// The GPUs that the reservation can choose from.
std::vector<GpuIndex> GpusOf(const Reservation& booking, std::span<const GpuInfo> gpus) {
  const GpuChoice choice({.gpu_type = booking.gpu_type, .on_gpus = booking.on_gpus}, gpus);
  std::vector<GpuIndex> found;
  for (std::uint32_t i = 0; i < gpus.size(); ++i) {
    if (choice.Allows(GpuIndex{i})) found.push_back(GpuIndex{i});
  }
  return found;
}

}  // namespace

void ReservationBook::Follow(std::vector<ReservedPeriod> periods) {
  std::vector<Slot> slots;
  for (ReservedPeriod& each : periods) {
    const auto before = std::ranges::find(slots_, each, &Slot::period);
    slots.push_back(before == slots_.end() ? Slot{.period = std::move(each)} : std::move(*before));
  }
  std::ranges::stable_sort(slots, {}, [](const Slot& slot) {
    return std::tuple(slot.period.booking.count.has_value(), slot.period.from,
                      slot.period.booking.id);
  });
  slots_ = std::move(slots);
  by_gpu_.clear();
  ++changes_;
  admitted_ = {};
  for (const Slot& each : slots_) {
    const Reservation& booking = each.period.booking;
    for (const std::string& name : booking.users) admitted_.users[name].insert(booking.id);
    for (const std::string& name : booking.accounts) admitted_.accounts[name].insert(booking.id);
    for (const std::string& name : booking.classes) admitted_.classes[name].insert(booking.id);
  }
}

bool ReservationBook::IsTaken(GpuIndex gpu, const Slot& by, std::size_t among) const {
  return std::ranges::any_of(std::span(slots_).first(among), [&](const Slot& each) {
    // Periods of the same reservation never conflict. Two of them can overlap on a day when the
    // clocks change.
    return each.period.booking.id != by.period.booking.id && each.chosen &&
           Meet(each.period, by.period) && std::ranges::find(each.gpus, gpu) != each.gpus.end();
  });
}

// keep: prefer the GPUs already chosen, unless they are closed or taken.
void ReservationBook::Choose(Slot& slot, bool keep, std::span<const GpuInfo> gpus,
                             const Look& look) {
  const Reservation& booking = slot.period.booking;
  std::vector<GpuIndex> found = GpusOf(booking, gpus);
  if (booking.count) {
    std::erase_if(found, [&](GpuIndex gpu) { return IsTaken(gpu, slot, slots_.size()); });
    std::ranges::sort(found, {}, [&](GpuIndex gpu) {
      const Standing standing = look(slot.period, gpu);
      const bool other = !keep || std::ranges::find(slot.gpus, gpu) == slot.gpus.end();
      return std::tuple(!standing.open, other, slot.near ? -standing.own : 0,
                        slot.near ? standing.others : 0, -static_cast<std::int64_t>(Number(gpu)));
    });
    const auto most = static_cast<std::size_t>(*booking.count);
    if (found.size() > most) found.resize(most);
    std::ranges::sort(found);
  }
  if (slot.chosen && found == slot.gpus) return;
  slot.gpus = std::move(found);
  slot.chosen = true;
  by_gpu_.clear();
  ++changes_;
}

void ReservationBook::Settle(Time now, Duration lead, std::span<const GpuInfo> gpus,
                             const Look& look) {
  if (slots_.empty()) return;
  if (std::erase_if(slots_, [now](const Slot& each) { return each.period.to <= now; }) > 0) {
    by_gpu_.clear();
    ++changes_;
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    const bool near = slot.period.from - lead <= now;
    const bool lost =
        slot.period.booking.count && std::ranges::any_of(slot.gpus, [&](GpuIndex gpu) {
          return !look(slot.period, gpu).open || IsTaken(gpu, slot, i);
        });
    if (slot.chosen && near == slot.near && !lost) continue;
    const bool keep = near == std::exchange(slot.near, near);
    Choose(slot, keep, gpus, look);
  }
  if (by_gpu_.size() != gpus.size()) List(gpus.size());
  // The start of a period counts as a change, because from then on only tasks of the reservation
  // may start on its GPUs.
  const auto in_force = static_cast<std::size_t>(
      std::ranges::count_if(slots_, [now](const Slot& each) { return each.period.from <= now; }));
  if (std::exchange(in_force_, in_force) != in_force) ++changes_;
}

void ReservationBook::List(std::size_t gpus) {
  by_gpu_.assign(gpus, {});
  for (const Slot& slot : slots_) {
    for (const GpuIndex gpu : slot.gpus) by_gpu_[Number(gpu)].push_back(&slot.period);
  }
  for (std::vector<const ReservedPeriod*>& each : by_gpu_)
    std::ranges::stable_sort(each, {}, &ReservedPeriod::from);
}

std::span<const ReservedPeriod* const> ReservationBook::On(GpuIndex gpu) const {
  if (Number(gpu) >= by_gpu_.size()) return {};
  return by_gpu_[Number(gpu)];
}

std::vector<ReservationId> ReservationBook::Of(const TaskRequest& request) const {
  std::set<ReservationId> own;
  const auto add = [&own](const Admitted::ByName& names, const std::string& name) {
    if (const auto at = names.find(name); at != names.end())
      own.insert(at->second.begin(), at->second.end());
  };
  add(admitted_.users, UserOf(request));
  if (request.account) add(admitted_.accounts, *request.account);
  add(admitted_.classes, QosOf(request));
  return {own.begin(), own.end()};
}

std::vector<GpuIndex> ReservationBook::GpusFor(std::span<const ReservationId> own, Time now) const {
  std::vector<GpuIndex> gpus;
  for (const Slot& each : slots_) {
    if (each.period.from > now || now >= each.period.to) continue;
    if (std::ranges::find(own, each.period.booking.id) != own.end())
      gpus.insert(gpus.end(), each.gpus.begin(), each.gpus.end());
  }
  std::ranges::sort(gpus);
  const auto twice = std::ranges::unique(gpus);
  gpus.erase(twice.begin(), twice.end());
  return gpus;
}

std::vector<ReservationStatus> ReservationBook::Standings() const {
  std::vector<ReservationStatus> standings;
  for (const Slot& each : slots_) {
    standings.push_back({.id = each.period.booking.id,
                         .from = each.period.from,
                         .to = each.period.to,
                         .gpus = each.gpus});
  }
  std::ranges::stable_sort(standings, {}, &ReservationStatus::from);
  return standings;
}

const Reservation* ReservationBook::Find(ReservationId id) const {
  const auto at =
      std::ranges::find_if(slots_, [id](const Slot& each) { return each.period.booking.id == id; });
  return at == slots_.end() ? nullptr : &at->period.booking;
}

bool ReservationBook::HoldAt(Time now) const {
  return std::ranges::any_of(
      slots_, [now](const Slot& each) { return each.period.from <= now && now < each.period.to; });
}

std::optional<Time> ReservationBook::NextChange(Time now, Duration lead) const {
  std::optional<Time> next;
  for (const Slot& each : slots_) {
    for (const Time when : {each.period.from - lead, each.period.from, each.period.to}) {
      if (when > now) next = std::min(next.value_or(when), when);
    }
  }
  return next;
}

std::vector<ReservedPeriod> ReservationBook::TooFew() const {
  std::vector<ReservedPeriod> found;
  for (const Slot& slot : slots_) {
    const Reservation& booking = slot.period.booking;
    const bool few = booking.count && slot.gpus.size() < static_cast<std::size_t>(*booking.count);
    const bool shared = !booking.count && std::ranges::any_of(slot.gpus, [&](GpuIndex gpu) {
      return IsTaken(gpu, slot, slots_.size());
    });
    if (few || shared || slot.gpus.empty()) found.push_back(slot.period);
  }
  return found;
}

}  // namespace carma::core
