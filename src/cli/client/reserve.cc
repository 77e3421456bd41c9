// `carma reserve`: reserves GPUs for certain users for a period.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "api/gpu_standing.h"
#include "base/calendar.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/calls.h"
#include "cli/client/task_words.h"
#include "cli/client/verbs.h"
#include "cli/table.h"
#include "core/values/reservation.h"
#include "task/describe/option_values.h"

namespace carma::cli {
namespace {

struct ReserveFlags {
  std::vector<std::string> whom;  // users who may use the GPUs, or "nobody"
  std::vector<std::string> accounts;
  std::vector<std::string> classes;
  std::vector<std::string> gpus;
  std::string type;
  int count = 0;
  std::string from = "now";
  std::string to;
  std::string length;
  std::string repeat;
  std::string until;
  std::string why;
};

void AddWords(const std::vector<std::string>& lists, std::vector<std::string>& words) {
  for (const std::string& list : lists) {
    for (const std::string_view each : base::Split(list, ','))
      if (!each.empty()) words.emplace_back(each);
  }
}

Result<Unit> ReadWhom(const ReserveFlags& flags, core::Reservation& booking) {
  AddWords(flags.whom, booking.users);
  AddWords(flags.accounts, booking.accounts);
  AddWords(flags.classes, booking.classes);
  const bool nobody = std::erase(booking.users, "nobody") > 0;
  const bool named =
      !booking.users.empty() || !booking.accounts.empty() || !booking.classes.empty();
  if (nobody == named)
    return Invalid("expected --for USER, --account or --class, or just --for nobody");
  return Unit{};
}

Result<Unit> ReadWhich(const ReserveFlags& flags, core::Reservation& booking) {
  std::vector<std::string> names;
  AddWords(flags.gpus, names);
  if (!names.empty() && names != std::vector<std::string>{"all"})
    booking.on_gpus = CARMA_TRY(base::Wrap(task::ParseGpuNames(base::Join(names, ",")), "--gpus"));
  if (!flags.type.empty())
    booking.gpu_type = CARMA_TRY(base::Wrap(task::ParseGpuType(flags.type), "--type"));
  if (flags.count > 0) booking.count = flags.count;
  if (names.empty() && !booking.gpu_type && !booking.count)
    return Invalid("expected --gpus (such as 0,1 or all), --count N or --type NAME");
  return Unit{};
}

// Reads the end of a reservation. "+3h" and a time of day are relative to its start; "now" and
// "tomorrow" are relative to the current time.
Result<base::Time> ReadEnd(const std::string& text, base::Time from, base::Time now) {
  const std::string lower = base::ToLower(base::Trim(text));
  const bool of_caller = lower.starts_with("now") || lower == "tomorrow";
  const base::Time to =
      CARMA_TRY(base::Wrap(task::ParseBegin(text, of_caller ? now : from), "--to"));
  if (to > from) return to;
  return Invalid("--to: expected a time after --from ({}), got {} ({}); +2h counts from --from",
                 Minute(base::ToMs(from)), base::Printable(text, 40), Minute(base::ToMs(to)));
}

Result<Unit> ReadWhen(const ReserveFlags& flags, base::Time now, core::Reservation& booking) {
  booking.from = CARMA_TRY(base::Wrap(task::ParseBegin(flags.from, now), "--from"));
  if (flags.to.empty() == flags.length.empty())
    return Invalid("expected either --to TIME or --for-time SPAN");
  if (!flags.to.empty()) {
    booking.length = CARMA_TRY(ReadEnd(flags.to, booking.from, now)) - booking.from;
  } else {
    booking.length = CARMA_TRY(base::Wrap(base::ParseSpan(flags.length), "--for-time"));
  }
  if (!flags.repeat.empty()) {
    const auto repeat = base::FromWord<core::Repeat>(flags.repeat);
    if (!repeat)
      return Invalid("--repeat: expected once, daily, weekdays or weekly, not '{}'",
                     base::Printable(flags.repeat, 40));
    booking.repeat = *repeat;
  }
  if (!flags.to.empty() && booking.repeat != core::Repeat::kOnce) {
    // All periods end at the time of day of --to, even if daylight saving time begins or ends
    // during the first one.
    const auto local = base::Calendar::OfServer();
    booking.length +=
        local.AheadOfUtc(booking.from + booking.length) - local.AheadOfUtc(booking.from);
  }
  if (booking.length < core::kLeastBooked || booking.length > core::kMostBooked)
    return Invalid("{}: expected a duration from 1m to 366d",
                   flags.to.empty() ? "--for-time" : "--to");
  if (!flags.until.empty())
    booking.until = CARMA_TRY(base::Wrap(task::ParseBegin(flags.until, now), "--until"));
  return Unit{};
}

std::string WhomText(const api::ReservationView& view) {
  std::vector<std::string> whom = view.users;
  for (const std::string& each : view.accounts) whom.push_back("account " + each);
  for (const std::string& each : view.classes) whom.push_back("class " + each);
  return whom.empty() ? "nobody" : base::Printable(base::Join(whom, ", "), 200);
}

std::string GpusText(const api::ReservationView& view) {
  std::string text = fmt::format("{}", fmt::join(view.gpu_indices, ","));
  for (const std::string& uuid : view.missing_gpus) {
    if (!view.count) text += (text.empty() ? "" : ",") + base::Printable(uuid, 60) + " (missing)";
  }
  if (!view.count && view.gpus.empty() && view.gpu_type.empty()) text = "all";
  const std::string from = !view.gpus.empty()      ? "those named"
                           : view.gpu_type.empty() ? "any"
                                                   : base::Printable(view.gpu_type, 40);
  if (view.count)
    return fmt::format("{} ({} of {})", text.empty() ? "none" : text, *view.count, from);
  return text.empty() ? "none of " + from : text;
}

// "task 1", "tasks 1, 4".
std::string OthersText(const api::ReservationView& view) {
  return fmt::format("task{} {}", view.others.size() == 1 ? "" : "s", fmt::join(view.others, ", "));
}

std::string StateText(const api::ReservationView& view) {
  if (!view.holds) return "upcoming";
  if (view.others.empty()) return "holds";
  return "active; still in use by " + OthersText(view);
}

void WarnOfDrained(Context& context, const api::ReservationView& made) {
  const auto gpus = ListGpus(context.client());
  for (std::size_t i = 0; gpus && i < gpus->value.size(); ++i) {
    const api::GpuView& gpu = gpus->value[i];
    const auto standing = api::StandingOf(gpu);
    const bool drained =
        standing == api::GpuStanding::kDrained || standing == api::GpuStanding::kDraining;
    if (drained && std::ranges::find(made.gpu_indices, gpu.index) != made.gpu_indices.end())
      Warn(
          context,
          fmt::format("GPU {0} is drained: no task will start there until you run carma resume {0}",
                      gpu.index));
  }
}

void RunMake(Context& context, const ReserveFlags& flags) {
  const auto status = GetStatus(context.client());
  if (!status) return context.Fail(status.error());
  core::Reservation booking;
  booking.why = flags.why;
  for (const Result<Unit>& read : {ReadWhom(flags, booking), ReadWhich(flags, booking),
                                   ReadWhen(flags, base::FromMs(status->value.now_ms), booking)}) {
    if (!read) return context.Fail(base::Wrap(read.error(), "reserve").error());
  }
  const auto answer = Reserve(context.client(), booking);
  if (!answer) return context.Fail(answer.error());
  for (const std::string& user : booking.users) WarnIfNoUser(context, user);
  if (context.json) return Print(context, answer->text + "\n");
  const api::ReservationView& made = answer->value;
  Print(context, fmt::format("Reservation {}: GPU {} for {}, {} to {}{}\n", made.id, GpusText(made),
                             WhomText(made), Minute(made.next_from_ms.value_or(made.from_ms)),
                             Minute(made.next_to_ms.value_or(made.from_ms)),
                             made.repeat == "once" ? "" : ", " + base::Printable(made.repeat, 20)));
  if (!made.others.empty()) {
    const char* const run = !made.holds               ? "may still be running there when it begins,"
                            : made.others.size() == 1 ? "is still running there"
                                                      : "are still running there";
    Warn(context,
         fmt::format("{} of other users {} and will be allowed to finish", OthersText(made), run));
  }
  WarnOfDrained(context, made);
}

void RunList(Context& context) {
  const auto listed = ListReservations(context.client());
  if (!listed) return context.Fail(listed.error());
  if (context.json) return Print(context, listed->text + "\n");
  Table table({{"ID", true},
               {"GPUS"},
               {"FOR", false, 6},
               {"FROM"},
               {"TO"},
               {"REPEAT"},
               {"STATE"},
               {"WHY", false, 8}});
  for (const api::ReservationView& view : listed->value) {
    table.Add({{std::to_string(view.id)},
               {GpusText(view)},
               {WhomText(view)},
               {Minute(view.next_from_ms.value_or(view.from_ms))},
               {Minute(view.next_to_ms.value_or(view.from_ms))},
               {base::Printable(view.repeat, 20)},
               {StateText(view)},
               {base::Printable(view.why, 200)}});
  }
  Print(context, table.Text(ScreenOf(context.out)));
}

}  // namespace

void AddReserveCommand(Syntax app, Context& context) {
  auto flags = std::make_shared<ReserveFlags>();
  const Syntax verb =
      app.AddVerb("reserve", "Reserve GPUs for users or accounts for a period (administrators)");
  verb.Footer(
      "  carma reserve --for ada --gpus 0,1 --from 14:00 --to 18:00 --why demo\n"
      "  carma reserve --account vision --count 2 --type a100 --from tomorrow --for-time 2d\n"
      "  carma reserve --for ada --count 1 --from +1h --to +2h    # ends three hours from now\n"
      "  carma reserve --for nobody --gpus 0 --from 09:00 --to 18:00 --repeat weekdays\n"
      "  carma reserve list\n"
      "  carma reserve remove 3\n"
      "Tasks already running on the GPUs may finish. No other task starts there if its time\n"
      "limit extends into the reservation; one without a limit must start at least\n"
      "reserve.lead before it.\n"
      "Every verb also takes --json and --socket PATH.");
  verb.AddOption("--for", "USER", flags->whom,
                 "users whose tasks may run there; nobody: keep the GPUs free");
  verb.AddOption("--account", "NAME", flags->accounts, "accounts whose tasks may run there");
  verb.AddOption("--class", "NAME", flags->classes, "classes (--qos) whose tasks may run there");
  verb.AddOption("--gpus", "LIST", flags->gpus, "which GPUs: indices, UUIDs or all");
  verb.AddOption("--type", "NAME", flags->type, "GPU model, such as a100");
  verb.AddOption("--count", "N", flags->count, "number of GPUs; free ones are chosen first")
      .Range(1, core::kMaxGpus);
  verb.AddOption("--from", "TIME", flags->from,
                 "start: 14:00, 2026-03-01T14:00, tomorrow, +30m (default: now)");
  verb.AddOption("--to", "TIME", flags->to,
                 "end, in the same formats, except that +2h counts from the start");
  verb.AddOption("--for-time", "SPAN", flags->length,
                 "duration, such as 4h or 2d, instead of --to");
  verb.AddOption("--repeat", "HOW", flags->repeat, "once (default), daily, weekdays, weekly");
  verb.AddOption("--until", "TIME", flags->until, "last time at which a repetition may begin");
  verb.AddOption("--why", "TEXT", flags->why, "reason shown to waiting tasks");
  verb.OnRun([&context, flags, verb] {
    if (!verb.VerbGiven()) RunMake(context, *flags);
  });
  const Syntax list = verb.AddVerb("list", "List active and upcoming reservations");
  list.OnRun([&context] { RunList(context); });
  auto ids = std::make_shared<std::vector<std::string>>();
  const Syntax remove = verb.AddVerb("remove", "Remove reservations immediately");
  remove.AddOption("ids", "", *ids, "reservation numbers, as shown by list").Required();
  remove.OnRun([&context, ids] { EndEach(context, *ids, "Reservation", "remove"); });
  verb.TakesVerb();
}

}  // namespace carma::cli
