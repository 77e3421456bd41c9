#include "task/describe/option_values.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <set>

#include "base/calendar.h"
#include "base/text.h"
#include "base/try.h"
#include "core/values/gpu_choice.h"
#include "task/describe/shell_words.h"
#include "task/describe/spec.h"

namespace carma::task {
namespace {

using base::Duration;
using base::ParseInt;
using base::Time;

constexpr std::string_view kBeginForms =
    "a time like 14:05, 2026-03-01T14:05, now+1hour, tomorrow or +30m";

// Parses a number of at most two digits and at most `high`.
std::optional<int> TwoDigits(std::string_view text, int high) {
  if (text.empty() || text.size() > 2) return std::nullopt;
  const std::optional<std::int64_t> number = ParseInt(text);
  if (!number || *number < 0 || *number > high) return std::nullopt;
  return static_cast<int>(*number);
}

struct ClockTime {
  int hour = 0, minute = 0, second = 0;
};

std::optional<ClockTime> ParseClock(std::string_view text) {
  if (text == "midnight") return ClockTime{};
  if (text == "noon") return ClockTime{12, 0, 0};
  const std::vector<std::string_view> pieces = base::Split(text, ':');
  if (pieces.size() < 2 || pieces.size() > 3) return std::nullopt;
  const std::optional<int> hour = TwoDigits(pieces[0], 23), minute = TwoDigits(pieces[1], 59);
  const std::optional<int> second = pieces.size() == 3 ? TwoDigits(pieces[2], 59) : 0;
  if (!hour || !minute || !second) return std::nullopt;
  return ClockTime{*hour, *minute, *second};
}

// Combines the date in `parts` with the time of day in `clock`.
Time FromTm(std::tm parts, const ClockTime& clock, bool utc) {
  parts.tm_hour = clock.hour;
  parts.tm_min = clock.minute;
  parts.tm_sec = clock.second;
  parts.tm_isdst = -1;  // lets mktime decide whether daylight saving time applies
  const std::time_t seconds = utc ? ::timegm(&parts) : ::mktime(&parts);
  return base::FromMs(static_cast<std::int64_t>(seconds) * 1000);
}

// Returns the time of day `clock` in local time, `days` days from today.
Time LocalDayTime(Time now, const ClockTime& clock, int days) {
  std::tm parts = base::PartsOf(now, /*utc=*/false);
  parts.tm_mday += days;
  return FromTm(parts, clock, /*utc=*/false);
}

// Parses "2026-03-01", "2026-03-01T14:05:30Z".
std::optional<Time> ParseDate(std::string_view text) {
  const bool utc = text.ends_with('Z');
  if (utc) text.remove_suffix(1);
  if (text.size() < 10 || text[4] != '-' || text[7] != '-') return std::nullopt;
  const std::optional<std::int64_t> year = ParseInt(text.substr(0, 4));
  const std::optional<int> month = TwoDigits(text.substr(5, 2), 12);
  const std::optional<int> day = TwoDigits(text.substr(8, 2), 31);
  if (!year || *year < 1970 || *year > 2199 || !month || !day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(*year)),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  std::optional<ClockTime> clock = ClockTime{};
  if (text.size() > 10) {
    if (text[10] != 'T' && text[10] != ' ') return std::nullopt;
    clock = ParseClock(text.substr(11));
    if (!clock) return std::nullopt;
  }
  std::tm parts{};
  parts.tm_year = static_cast<int>(*year) - 1900;
  parts.tm_mon = *month - 1;
  parts.tm_mday = *day;
  return FromTm(parts, *clock, utc);
}

// Parses the text after "now+": "90", "1hour", "2 days", "1h30m".
std::optional<Duration> ParseOffset(std::string_view text) {
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  const std::string_view unit = base::Trim(text.substr(digits));
  struct TimeUnit {
    std::string_view name;
    std::int64_t seconds;
  };
  constexpr std::array<TimeUnit, 12> kUnits{{{"", 1},
                                             {"second", 1},
                                             {"seconds", 1},
                                             {"minute", 60},
                                             {"minutes", 60},
                                             {"hour", 3600},
                                             {"hours", 3600},
                                             {"day", 86400},
                                             {"days", 86400},
                                             {"w", 604800},
                                             {"week", 604800},
                                             {"weeks", 604800}}};
  const std::optional<std::int64_t> number = ParseInt(text.substr(0, digits));
  for (const TimeUnit& known : kUnits) {
    if (number && *number <= 1'000'000'000 && unit == known.name)
      return Duration(std::chrono::seconds(*number * known.seconds));
  }
  const Result<Duration> span = base::ParseSpan(text);
  if (!span) return std::nullopt;
  return *span;
}

// Returns true if sites commonly use this node feature as the name of a GPU type. Any other feature
// may mean something else, such as a rack.
bool IsKnownGpuType(std::string_view word) {
  constexpr std::string_view kModels[] = {
      "a2",   "a10",  "a16",  "a30",   "a40",  "a100", "a800", "a4000", "a4500", "a5000", "a6000",
      "b100", "b200", "b300", "h100",  "h200", "h800", "h20",  "gh200", "gb200", "l4",    "l20",
      "l40",  "l40s", "v100", "v100s", "p4",   "p40",  "p100", "t4",    "k80",   "m40",   "m60"};
  constexpr std::string_view kFamilies[] = {"rtx", "gtx", "titan", "quadro", "tesla"};
  if (word.size() > 64 || !core::IsGpuTypeWord(word)) return false;
  const std::string lower = base::ToLower(word);
  return std::ranges::any_of(kFamilies,
                             [&](std::string_view each) { return lower.starts_with(each); }) ||
         std::ranges::any_of(kModels,
                             [&](std::string_view each) { return core::NamesType(each, word); });
}

constexpr std::string_view kArrayForms = "indices like '0-15', '1,3,7-9' or '0-15:4%2'";

// Adds one piece "a", "a-b" or "a-b:step" to the set.
Result<Unit> AddIndices(std::string_view piece, std::set<std::int64_t>& indices) {
  std::string_view range = piece, step_text = "1";
  if (const std::size_t colon = piece.find(':'); colon != std::string_view::npos) {
    range = piece.substr(0, colon);
    step_text = piece.substr(colon + 1);
  }
  const std::size_t dash = range.find('-');
  const std::optional<std::int64_t> first = ParseInt(range.substr(0, dash));
  const std::optional<std::int64_t> last =
      dash == std::string_view::npos ? first : ParseInt(range.substr(dash + 1));
  const std::optional<std::int64_t> step = ParseInt(step_text);
  if (!first || !last || !step || *first < 0 || *last < *first || *step < 1)
    return Expected(kArrayForms, piece);
  if (*last > core::kMaxArrayIndex) {
    return Invalid("array index " + std::to_string(*last) + " is above " +
                   std::to_string(core::kMaxArrayIndex));
  }
  // Check the count before adding the indices, because a range may contain millions.
  const auto count = static_cast<std::size_t>((*last - *first) / *step) + 1;
  if (indices.size() + count > kMaxArrayTasks)
    return Invalid("an array may have at most " + std::to_string(kMaxArrayTasks) + " tasks");
  for (std::int64_t index = *first; index <= *last; index += *step) indices.insert(index);
  return Unit{};
}

}  // namespace

std::unexpected<base::Error> Expected(std::string_view expected, std::string_view text) {
  return Invalid("expected " + std::string(expected) + ", not '" + base::Printable(text, 60) + "'");
}

Result<Time> ParseBegin(std::string_view text, Time now) {
  const std::string lower = base::ToLower(base::Trim(text));
  std::optional<Time> begin;
  if (lower.empty() || lower.size() > 60) return Expected(kBeginForms, text);
  if (lower == "now") return now;
  if (lower == "tomorrow") return LocalDayTime(now, ClockTime{}, 1);
  if (lower.starts_with("now+")) {
    if (const auto offset = ParseOffset(base::Trim(std::string_view(lower).substr(4))))
      begin = now + *offset;
  } else if (lower.starts_with('+')) {
    if (const Result<Duration> span = base::ParseSpan(std::string_view(lower).substr(1)))
      begin = now + *span;
  } else if (const std::optional<ClockTime> clock = ParseClock(lower)) {
    const Time today = LocalDayTime(now, *clock, 0);
    begin = today > now ? today : LocalDayTime(now, *clock, 1);
  } else {
    begin = ParseDate(base::Trim(text));
  }
  if (!begin || base::ToMs(*begin) < 0 || base::ToMs(*begin) > core::kMaxBeginMs)
    return Expected(kBeginForms, text);
  return *begin;
}

Result<ArrayPlan> ParseArray(std::string_view text) {
  ArrayPlan plan;
  std::string_view list = text;
  if (const std::size_t percent = text.find('%'); percent != std::string_view::npos) {
    list = text.substr(0, percent);
    plan.limit = ParseInt(text.substr(percent + 1));
    if (!plan.limit || *plan.limit < 1 || *plan.limit > core::kMaxArrayIndex)
      return Expected("a limit of at least one task after '%'", text);
  }
  std::set<std::int64_t> indices;
  for (std::string_view piece : base::Split(list, ',')) CARMA_TRY(AddIndices(piece, indices));
  plan.indices.assign(indices.begin(), indices.end());
  return plan;
}

Result<std::vector<core::Dependency>> ParseDependencies(std::string_view text) {
  constexpr std::string_view kForms = "afterok:ID[:ID…], afterany:ID or afternotok:ID";
  std::vector<core::Dependency> dependencies;
  if (base::ToLower(text) == "none") return dependencies;
  for (std::string_view piece : base::Split(text, ',')) {
    const std::vector<std::string_view> words = base::Split(piece, ':');
    const auto kind = base::FromWord<core::DependencyKind>(words[0]);
    if (!kind || words.size() == 1) return Expected(kForms, piece);
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::optional<std::int64_t> id = ParseInt(words[i]);
      if (!id || *id < 1) return Expected(kForms, piece);
      if (dependencies.size() == core::kMaxDependencies)
        return Invalid("more than " + std::to_string(core::kMaxDependencies) + " dependencies");
      dependencies.push_back(
          {.task = core::TaskId{static_cast<std::uint64_t>(*id)}, .kind = *kind});
    }
  }
  return dependencies;
}

Result<GpuCount> ParseGpus(std::string_view text) {
  GpuCount count;
  std::string_view number = text;
  if (const std::size_t colon = text.rfind(':'); colon != std::string_view::npos) {
    number = text.substr(colon + 1);
    const Result<std::optional<std::string>> type = ParseGpuType(text.substr(0, colon));
    if (!type) return Expected("N or TYPE:N with a single type, such as 2 or a100:2", text);
    count.type = *type;
  }
  const std::optional<std::int64_t> gpus = ParseInt(number);
  if (!gpus || *gpus < 0 || *gpus > core::kMaxGpus)
    return Expected("a number of GPUs from 0 to " + std::to_string(core::kMaxGpus), text);
  count.gpus = static_cast<int>(*gpus);
  return count;
}

Result<GpuCount> ParseGres(std::string_view text) {
  std::optional<GpuCount> found;
  bool shares = false;
  std::vector<std::string> remarks;
  for (std::string_view piece : base::Split(text, ',')) {
    if (piece.starts_with("gres:")) piece.remove_prefix(5);
    const std::string_view kind = piece.substr(0, piece.find(':'));
    if (piece == "gpu") {
      found = GpuCount{};
    } else if (kind == "gpu") {
      const std::string_view rest = piece.substr(4);
      // "gpu:a100" means one GPU of that type.
      found = CARMA_TRY(!rest.empty() && !rest.contains(':') && !ParseInt(rest)
                            ? ParseGpus(std::string(rest) + ":1")
                            : ParseGpus(rest));
    } else if (base::ToLower(piece) == "none") {
      found = GpuCount{.gpus = 0};
    } else if (kind == "shard" || kind == "mps") {
      shares = true;
      remarks.push_back(
          "'" + base::Printable(piece, 40) +
          "' means one shared GPU, regardless of the count; specify its memory with --gpu-mem");
    } else if (piece.empty()) {
      return Expected("gpu:N", text);
    } else {
      remarks.push_back("'" + base::Printable(piece, 40) + "' is ignored");
    }
  }
  if (!found) found = shares ? GpuCount{} : GpuCount{.counted = false};
  found->remarks.insert(found->remarks.end(), remarks.begin(), remarks.end());
  return *found;
}

Result<std::vector<std::string>> ParseGpuNames(std::string_view text) {
  std::vector<std::string> names;
  for (const std::string_view piece : base::Split(text, ',')) {
    const std::string name(base::Trim(piece));
    if (!core::IsGpuName(name) || name.size() > core::kGpuNames.max_bytes)
      return Expected("GPU indices or UUIDs such as '2,3'", text);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  if (names.size() > static_cast<std::size_t>(core::kMaxGpus))
    return Invalid("more than " + std::to_string(core::kMaxGpus) + " GPUs");
  return names;
}

Result<std::optional<std::string>> ParseGpuType(std::string_view text) {
  const std::string type(base::Trim(text));
  if (base::ToLower(type) == "any") return std::nullopt;
  if (type.empty() || type.size() > 64 || !core::IsGpuTypeWord(type))
    return Expected("part of a GPU name such as a100, or any", text);
  return type;
}

Constraint ParseConstraint(std::string_view text) {
  Constraint constraint;
  const bool alternatives = text.find_first_of("|[]*()") != std::string_view::npos;
  for (const std::string_view part : base::Split(text, '&')) {
    for (const std::string_view piece : base::Split(part, ',')) {
      const std::string word(base::Trim(piece));
      if (!alternatives && !constraint.gpu_type && IsKnownGpuType(word)) {
        constraint.gpu_type = word;
      } else if (!word.empty()) {
        constraint.others.push_back(word);
      }
    }
  }
  return constraint;
}

Result<double> ParseShare(std::string_view text) {
  const bool percent = text.ends_with('%');
  const std::optional<double> number =
      base::ParseDouble(percent ? text.substr(0, text.size() - 1) : text);
  const double share = number.value_or(0) / (percent ? 100 : 1);
  // Rejects "30", which could mean 30 % or 30 GPUs, and any other number above 1.
  if (!(share >= core::kMinSmShare && share <= 1)) return Expected("a share like 30% or 0.3", text);
  return share;
}

Result<ExportPlan> ParseExport(std::string_view text) {
  ExportPlan plan{.all = false, .variables = {}};
  if (text == "NONE" || text == "NIL") return plan;
  for (std::string_view piece : base::Split(text, ',')) {
    if (piece == "ALL") {
      plan.all = true;
      continue;
    }
    const std::size_t equals = piece.find('=');
    const std::string_view name = piece.substr(0, equals);
    if (!IsVariableName(name)) return Expected("ALL, NONE or NAME[=value],…", piece);
    std::optional<std::string> value;
    if (equals != std::string_view::npos) value = std::string(piece.substr(equals + 1));
    plan.variables.emplace_back(std::string(name), std::move(value));
  }
  return plan;
}

}  // namespace carma::task
