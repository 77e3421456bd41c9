#include "daemon/http/endpoints/handlers.h"

#include <algorithm>
#include <iterator>

#include "api/reservation_view.h"
#include "api/views.h"
#include "base/fields_json.h"
#include "base/json.h"
#include "base/suggest.h"
#include "base/text.h"
#include "base/try.h"
#include "daemon/http/endpoints/parameters.h"
#include "daemon/http/endpoints/tasks.h"

namespace carma::daemon {
namespace {

using base::Json;

api::ReservationView PresentBooking(const SharedServices& services,
                                    const core::Reservation& booking, base::Time now) {
  api::ReservationView view;
  view.id = core::Number(booking.id);
  view.made_by = booking.made_by;
  view.users = booking.users;
  view.accounts = booking.accounts;
  view.classes = booking.classes;
  view.gpus = booking.on_gpus;
  view.gpu_type = booking.gpu_type.value_or("");
  view.count = booking.count;
  view.from_ms = base::ToMs(booking.from);
  view.length_s = base::Seconds(booking.length);
  view.repeat = base::WordOf(booking.repeat);
  if (booking.until) view.until_ms = base::ToMs(*booking.until);
  view.why = booking.why;
  const std::vector<core::GpuInfo>& gpus = services->engine.scheduler().GpuInfos();
  std::ranges::copy_if(view.gpus, std::back_inserter(view.missing_gpus), [&](const auto& uuid) {
    return std::ranges::find(gpus, uuid, &core::GpuInfo::uuid) == gpus.end();
  });
  const std::optional<core::ReservedPeriod> next =
      services->engine.reservations().NextOf(booking, now);
  if (!next) return view;
  view.next_from_ms = base::ToMs(next->from);
  view.next_to_ms = base::ToMs(next->to);
  view.holds = next->from <= now;
  for (const core::ReservationStatus& each : services->engine.scheduler().ReservationsNow()) {
    if (each.id != booking.id || each.from != next->from) continue;
    for (const core::GpuIndex gpu : each.gpus) view.gpu_indices.push_back(core::Number(gpu));
    for (const core::TaskId task : each.others) view.others.push_back(core::Number(task));
  }
  return view;
}

Result<Unit> MayReserve(const SharedServices& services, const Caller& caller) {
  if (std::ranges::find(services->settings.reservation_makers, caller.user) !=
      services->settings.reservation_makers.end())
    return Unit{};
  return OnlyAdministrators(caller, "reserve GPUs, unless reserve.makers lists the user");
}

// rules: the configured accounts or classes. what: the word for them in messages, such as
// "account".
template <typename Rule>
Result<Unit> CheckNames(const std::vector<std::string>& names, const std::vector<Rule>& rules,
                        std::string_view what, std::string_view key) {
  std::vector<std::string> known;
  for (const Rule& rule : rules) known.push_back(rule.name);
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) != known.end()) continue;
    return Invalid("there is no {} '{}' ({}){}", what, base::Printable(name, 60), key,
                   base::Suggestion(name, known));
  }
  return Unit{};
}

}  // namespace

Answer ListReservations(const SharedServices& services, const Call&) {
  const base::Time now = services->clock.Now();
  Json list = Json::array();
  for (const auto& [id, booking] : services->engine.reservations().all()) {
    const api::ReservationView view = PresentBooking(services, booking, now);
    if (view.next_from_ms) list.push_back(ToJson(view));
  }
  return JsonAnswer({{"reservations", std::move(list)}});
}

Result<Unit> MakeReservation(const SharedServices& services, const Call& call,
                             const api::Responder& reply) {
  CARMA_TRY(MayReserve(services, call.caller));
  const Json json = CARMA_TRY(ReadBody(call));
  core::Reservation booking =
      CARMA_TRY(base::FieldsFromJson<core::Reservation>(json, "", base::Unknown::kRefused));
  const core::PolicyConfig& config = services->engine.scheduler().config();
  CARMA_TRY(CheckNames(booking.accounts, config.accounts, "account", "fair.accounts"));
  CARMA_TRY(CheckNames(booking.classes, config.classes, "class", "fair.classes"));
  booking.made_by = call.caller.user;
  booking.why = base::Printable(booking.why, 500);
  // The response looks up the reservation by number, because the reservation may have been removed
  // in the meantime.
  const auto made = std::make_shared<core::ReservationId>();
  const auto answer = [services, made, caller = call.caller, reply](const Result<Unit>& done) {
    LogAsked("reserved", {{"reservation", core::Number(*made)}}, caller, done);
    if (!done) return reply(std::unexpected(done.error()));
    const core::Reservation* kept = services->engine.reservations().Find(*made);
    if (kept == nullptr) return reply(JsonAnswer(Json::object()));
    reply(JsonAnswer(ToJson(PresentBooking(services, *kept, services->clock.Now())), 201));
  };
  const core::ReservationId id = CARMA_TRY(services->engine.Book(std::move(booking), answer));
  *made = id;
  return Unit{};
}

Result<Unit> RemoveReservation(const SharedServices& services, const Call& call,
                               const api::Responder& reply) {
  CARMA_TRY(MayReserve(services, call.caller));
  const std::optional<std::int64_t> number = base::ParseInt(call.id);
  if (!number || *number < 1)
    return Invalid("'{}' is not a reservation number", base::Printable(call.id, 40));
  const core::ReservationId id{static_cast<std::uint64_t>(*number)};
  const core::Reservation* known = services->engine.reservations().Find(id);
  if (known != nullptr && !call.caller.admin && known->made_by != call.caller.user)
    return Denied("only {} or an administrator may remove reservation {}", known->made_by, id);
  return services->engine.Unbook(
      id, call.caller.user, [reply, caller = call.caller, id](const Result<Unit>& done) {
        LogAsked("unreserved", {{"reservation", core::Number(id)}}, caller, done);
        if (!done) return reply(std::unexpected(done.error()));
        reply(JsonAnswer(Json::object()));
      });
}

Result<Unit> CheckReservations(const core::TaskRecord& record, const core::TaskRequest& edited,
                               const core::Scheduler& core, base::Time now) {
  const std::optional<core::Duration>& before = record.request->time_limit;
  const std::optional<core::Duration>& after = edited.time_limit;
  if (!core::HoldsGpus(record.state) || !before || (after && *after <= *before)) return Unit{};
  // A task without a time limit is assumed to run for booking_lead from now. The same is assumed
  // when such a task starts.
  const base::Time ends =
      after ? record.attempt->started.value_or(now) + *after : now + core.config().booking_lead;
  for (const core::GpuView& gpu : core.Gpus(now)) {
    if (std::ranges::find(record.attempt->placement, gpu.index, &core::Placement::gpu) ==
        record.attempt->placement.end())
      continue;
    for (const core::ReservedPeriod* period : gpu.booked) {
      if (period->from >= ends || core::IsFor(period->booking, edited)) continue;
      return Conflict(
          "task {} could run until {}, but GPU {} is reserved for {} from {} (reservation {}); "
          "only an administrator can extend it into the reservation",
          record.id, base::FormatTime(ends), gpu.index, core::WhomFor(period->booking),
          base::FormatTime(period->from), period->booking.id);
    }
  }
  return Unit{};
}

}  // namespace carma::daemon
