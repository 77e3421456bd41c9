#include "core/values/reservation.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "core/values/entitlement.h"

namespace carma::core {
namespace {

bool Lists(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

bool IsFor(const Reservation& booking, const TaskRequest& request) {
  return Lists(booking.users, UserOf(request)) ||
         (request.account && Lists(booking.accounts, *request.account)) ||
         Lists(booking.classes, QosOf(request));
}

std::string WhomFor(const Reservation& booking) {
  std::vector<std::string> whom = booking.users;
  for (const std::string& each : booking.accounts) whom.push_back("account " + each);
  for (const std::string& each : booking.classes) whom.push_back("class " + each);
  return whom.empty() ? "nobody" : base::Join(whom, ", ");
}

std::string WhichOf(const Reservation& booking) {
  std::string which = base::Join(booking.on_gpus, ", ");
  if (booking.gpu_type) which += (which.empty() ? "" : " of type ") + *booking.gpu_type;
  if (booking.count) {
    return which.empty() ? base::Counted(*booking.count, "GPU")
                         : fmt::format("{} of {}", *booking.count, which);
  }
  return which.empty() ? "all GPUs" : which;
}

const ReservedPeriod* RunsInto(std::span<const ReservedPeriod* const> periods,
                               const BookedStart& start) {
  for (const ReservedPeriod* period : periods) {
    if (period->from >= start.to) break;
    if (period->to <= start.from) continue;
    if (std::ranges::find(start.own, period->booking.id) == start.own.end()) return period;
  }
  return nullptr;
}

}  // namespace carma::core
