#include "config/keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/text.h"
#include "core/policy.h"
#include "estimate/estimator.h"

namespace carma::config {

using base::Duration;

namespace {

constexpr Duration kMs{1};
constexpr Duration kSecond{1'000};
constexpr Duration kMinute{60'000};
constexpr Duration kHour{3'600'000};
constexpr Duration kDay{86'400'000};
constexpr Duration kYear = 365 * kDay;
constexpr std::int64_t kMaxSizeMib = std::int64_t{1} << 30;  // 1 PiB: more is a slip of the pen

// ---- values as a configuration file writes them ----

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string SizeText(std::int64_t mib) {
  if (mib > 0 && mib % 1024 == 0) return fmt::format("\"{}G\"", mib / 1024);
  return fmt::format("\"{}M\"", mib);
}

std::string SpanText(Duration span) {
  constexpr std::pair<Duration, char> kUnits[] = {
      {kDay, 'd'}, {kHour, 'h'}, {kMinute, 'm'}, {kSecond, 's'}};
  for (const auto& [unit, letter] : kUnits) {
    if (span >= unit && span % unit == Duration::zero())
      return fmt::format("\"{}{}\"", span / unit, letter);
  }
  return span == Duration::zero() ? "\"0s\"" : fmt::format("\"{}ms\"", span.count());
}

// ---- values read ----

// A bare number would be minutes for Slurm's users and seconds for everybody else, so a unit must
// be there.
std::optional<Duration> ReadSpan(std::string_view text) {
  const std::string lower = base::ToLower(base::Trim(text));
  if (lower.ends_with("ms")) {
    const std::optional<std::int64_t> ms =
        base::ParseInt(std::string_view(lower).substr(0, lower.size() - 2));
    if (!ms || *ms < 0 || Duration(*ms) > kYear) return std::nullopt;
    return Duration(*ms);
  }
  if (lower.empty() || std::string_view("smhd").find(lower.back()) == std::string_view::npos)
    return std::nullopt;
  const base::Result<Duration> span = base::ParseSpan(lower);
  return span ? std::optional(*span) : std::nullopt;
}

std::optional<bool> ReadBool(std::string_view text) {
  const std::string lower = base::ToLower(base::Trim(text));
  for (const char* yes : {"true", "on", "yes", "1"}) {
    if (lower == yes) return true;
  }
  for (const char* no : {"false", "off", "no", "0"}) {
    if (lower == no) return false;
  }
  return std::nullopt;
}

bool IsOff(std::string_view text) {
  const std::string lower = base::ToLower(base::Trim(text));
  return lower == "false" || lower == "off";
}

// ---- kinds of keys; `at` finds the member in Settings, const or not ----

struct Named {
  const char* name;
  const char* meaning;
};

template <class At>
Key Flag(Named key, At at) {
  return {key.name,
          "true or false",
          key.meaning,
          kBool,
          [at](Settings& s, std::string_view text) {
            const std::optional<bool> value = ReadBool(text);
            if (value) at(s) = *value;
            return value.has_value();
          },
          [at](const Settings& s) { return std::string(at(s) ? "true" : "false"); }};
}

template <class At>
Key Count(Named key, std::int64_t low, std::int64_t high, At at) {
  return {key.name,
          fmt::format("whole number from {} to {}", low, high),
          key.meaning,
          kNumber,
          [=](Settings& s, std::string_view text) {
            const std::optional<std::int64_t> value = base::ParseInt(base::Trim(text));
            if (!value || *value < low || *value > high) return false;
            at(s) = static_cast<std::remove_reference_t<decltype(at(s))>>(*value);
            return true;
          },
          [at](const Settings& s) { return fmt::format("{}", at(s)); }};
}

template <class At>
Key Size(Named key, At at) {
  return {key.name,
          "memory size like \"2G\" or \"512M\" (a bare number is MiB)",
          key.meaning,
          kText | kNumber,
          [at](Settings& s, std::string_view text) {
            const base::Result<std::int64_t> mib = base::ParseMemoryMib(text);
            if (!mib || *mib > kMaxSizeMib) return false;
            at(s) = *mib;
            return true;
          },
          [at](const Settings& s) { return SizeText(at(s)); }};
}

template <class At>
Key Span(Named key, Duration low, Duration high, At at) {
  const auto bare = [](Duration span) { return std::string(base::Split(SpanText(span), '"')[1]); };
  return {key.name,
          fmt::format("time span with unit, from \"{}\" to \"{}\"", bare(low), bare(high)),
          key.meaning,
          kText,
          [=](Settings& s, std::string_view text) {
            const std::optional<Duration> span = ReadSpan(text);
            if (!span || *span < low || *span > high) return false;
            at(s) = *span;
            return true;
          },
          [at](const Settings& s) { return SpanText(at(s)); }};
}

using Words = std::vector<std::string>;

std::string OneOf(const Words& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
    text += Quoted(words[i]);
  }
  return text;
}

// One of some words, kept as the enumerator at the same place.
template <class Enum, class At>
Key Choice(Named key, const Words& words, std::vector<Enum> values, At at) {
  return {key.name,
          OneOf(words),
          key.meaning,
          kText,
          [=](Settings& s, std::string_view text) {
            const auto found =
                std::find(words.begin(), words.end(), base::ToLower(base::Trim(text)));
            if (found == words.end()) return false;
            at(s) = values[static_cast<std::size_t>(found - words.begin())];
            return true;
          },
          [=](const Settings& s) {
            const auto found = std::find(values.begin(), values.end(), at(s));
            return Quoted(words[static_cast<std::size_t>(found - values.begin())]);
          }};
}

template <class At>
Key Path(Named key, const char* type, std::size_t max_bytes, bool may_be_empty, At at) {
  return {key.name,
          type,
          key.meaning,
          kText,
          [=](Settings& s, std::string_view text) {
            const bool absolute = text.starts_with('/');
            if (!(absolute || (may_be_empty && text.empty()))) return false;
            if (text.size() > max_bytes || text.find('\0') != std::string_view::npos) return false;
            at(s) = std::string(text);
            return true;
          },
          [at](const Settings& s) { return Quoted(at(s)); }};
}

// ---- keys that are like no other ----

Key SocketMode() {
  return {"daemon.socket_mode",
          "file mode in quotes, three octal digits like \"0660\"",
          "Who may connect to the socket. Submitters are told apart by their credentials, so "
          "everybody may.",
          kText,
          [](Settings& s, std::string_view text) {
            if (text.size() < 3 || text.size() > 4 || (text.size() == 4 && text[0] != '0'))
              return false;
            unsigned mode = 0;
            for (const char c : text) {
              if (c < '0' || c > '7') return false;
              mode = mode * 8 + static_cast<unsigned>(c - '0');
            }
            s.socket_mode = mode;
            return true;
          },
          [](const Settings& s) { return fmt::format("\"{:04o}\"", s.socket_mode); }};
}

Key HttpPort() {
  return {
      "daemon.http_port",
      "port from 1 to 65535, or false",
      "Loopback TCP port of the read-only pages and metrics.",
      kNumber | kBool | kText,
      [](Settings& s, std::string_view text) {
        const std::optional<std::int64_t> port = base::ParseInt(base::Trim(text));
        if (!IsOff(text) && !(port && *port >= 1 && *port <= 65'535)) return false;
        s.http_port.reset();
        if (port) s.http_port = static_cast<int>(*port);
        return true;
      },
      [](const Settings& s) { return s.http_port ? fmt::format("{}", *s.http_port) : "false"; }};
}

Key Admins() {
  return {
      "daemon.admins",
      "list of user names like [\"ada\", \"bob\"]",
      "Who may act on everybody's tasks and drain GPUs, besides root and the daemon's own user.",
      kTextList,
      [](Settings& s, std::string_view text) {
        std::vector<std::string> admins;
        if (base::Trim(text).empty()) return s.admins.clear(), true;
        for (const std::string_view piece : base::Split(text, ',')) {
          const std::string_view name = base::Trim(piece);
          if (name.empty() || name.size() > 256 || admins.size() == 1'000 ||
              base::Printable(name, 1'000) != name)
            return false;
          admins.emplace_back(name);
        }
        s.admins = std::move(admins);
        return true;
      },
      [](const Settings& s) {
        std::vector<std::string> quoted;
        for (const std::string& name : s.admins) quoted.push_back(Quoted(name));
        return "[" + base::Join(quoted, ", ") + "]";
      }};
}

Words MapperNames() {
  Words names;
  for (const core::MapperEntry& entry : core::Mappers()) names.emplace_back(entry.name);
  return names;
}

Key Mapper() {
  return {"policy.mapper",
          OneOf(MapperNames()),
          "How one is chosen among the eligible GPUs; the dissertation's abbreviations are taken "
          "too.",
          kText,
          [](Settings& s, std::string_view text) {
            const core::MapperEntry* entry = core::FindMapper(base::ToLower(base::Trim(text)));
            if (entry != nullptr) s.policy.mapper = std::string(entry->name);
            return entry != nullptr;
          },
          [](const Settings& s) { return Quoted(s.policy.mapper); }};
}

Key Published() {
  return {
      "policy.published",
      "\"thesis\", \"v2\", or false",
      "Replace the rules by the original system's, for comparison: as in the dissertation, or as "
      "in its version of November 2025.",
      kText | kBool,
      [](Settings& s, std::string_view text) {
        const std::string era = base::ToLower(base::Trim(text));
        if (!IsOff(era) && era != "thesis" && era != "v2") return false;
        s.published.reset();
        if (!IsOff(era)) s.published = era;
        return true;
      },
      [](const Settings& s) { return s.published ? Quoted(*s.published) : "false"; }};
}

Key SmCap() {
  return {"policy.sm_cap",
          "fraction above 0 and at most 1, or false",
          "A GPU whose mean SM activity over the window is above this takes no further task.",
          kNumber | kBool | kText,
          [](Settings& s, std::string_view text) {
            const std::optional<double> cap = base::ParseDouble(base::Trim(text));
            if (!IsOff(text) && !(cap && *cap > 0 && *cap <= 1)) return false;
            s.policy.sm_cap = cap;
            return true;
          },
          [](const Settings& s) {
            return s.policy.sm_cap ? fmt::format("{}", *s.policy.sm_cap) : "false";
          }};
}

Key DefaultTimeLimit() {
  return {"task.default_time_limit",
          "time span with unit, from \"1s\" to \"365d\", or false",
          "Time limit of tasks that state none.",
          kText | kBool,
          [](Settings& s, std::string_view text) {
            const std::optional<Duration> span = ReadSpan(text);
            if (!IsOff(text) && !(span && *span >= kSecond && *span <= kYear)) return false;
            s.default_time_limit = IsOff(text) ? std::nullopt : span;
            return true;
          },
          [](const Settings& s) {
            return s.default_time_limit ? SpanText(*s.default_time_limit) : "false";
          }};
}

template <class At>
Key NameOrPath(Named key, const char* type, At at) {
  return {key.name,
          type,
          key.meaning,
          kText,
          [at](Settings& s, std::string_view text) {
            const bool path = text.find('/') != std::string_view::npos;
            if (text.empty() || text.size() > 4'095 || (path && text[0] != '/') ||
                text.find('\0') != std::string_view::npos)
              return false;
            at(s) = std::string(text);
            return true;
          },
          [at](const Settings& s) { return Quoted(at(s)); }};
}

Key IgnoredXids() {
  return {"health.ignore_xids",
          "list of numbers like [63, 94]",
          "Xid errors that do not speak against a GPU on this machine.",
          kNumberList | kNumber | kTextList,
          [](Settings& s, std::string_view text) {
            std::vector<int> xids;
            if (base::Trim(text).empty()) return s.health.ignored_xids.clear(), true;
            for (const std::string_view piece : base::Split(text, ',')) {
              const std::optional<std::int64_t> xid = base::ParseInt(base::Trim(piece));
              if (!xid || *xid < 1 || *xid > 999 || xids.size() == 100) return false;
              xids.push_back(static_cast<int>(*xid));
            }
            s.health.ignored_xids = std::move(xids);
            return true;
          },
          [](const Settings& s) {
            return fmt::format("[{}]", fmt::join(s.health.ignored_xids, ", "));
          }};
}

Key IdleAfter() {
  return {"idle.after",
          "time span with unit, from \"1s\" to \"365d\", or false",
          "A task that has not used its GPUs for so long is an idle holder.",
          kText | kBool,
          [](Settings& s, std::string_view text) {
            const std::optional<Duration> span = ReadSpan(text);
            if (!IsOff(text) && !(span && *span >= kSecond && *span <= kYear)) return false;
            s.idle_after = IsOff(text) ? std::nullopt : span;
            return true;
          },
          [](const Settings& s) { return s.idle_after ? SpanText(*s.idle_after) : "false"; }};
}

Key IdleBelow() {
  return {"idle.below",
          "fraction from 0 to 0.5",
          "SM activity that counts as none.",
          kNumber,
          [](Settings& s, std::string_view text) {
            const std::optional<double> below = base::ParseDouble(base::Trim(text));
            if (!below || !(*below >= 0 && *below <= 0.5)) return false;
            s.idle_below = *below;
            return true;
          },
          [](const Settings& s) { return fmt::format("{}", s.idle_below); }};
}

Key IdleNotify() {
  return {"idle.notify",
          "list: a program (absolute path) and its arguments",
          "Program that is run once for each idle holder (docs/operations.md); empty: none.",
          kTextList,
          [](Settings& s, std::string_view text) {
            std::vector<std::string> words;
            if (base::Trim(text).empty()) return s.idle_notify.clear(), true;
            for (const std::string_view piece : base::Split(text, ',')) {
              const std::string_view word = base::Trim(piece);
              if (word.empty() || word.size() > 4'095 || words.size() == 100 ||
                  word.find('\0') != std::string_view::npos)
                return false;
              words.emplace_back(word);
            }
            if (words.front().front() != '/') return false;
            s.idle_notify = std::move(words);
            return true;
          },
          [](const Settings& s) {
            std::vector<std::string> quoted;
            for (const std::string& word : s.idle_notify) quoted.push_back(Quoted(word));
            return "[" + base::Join(quoted, ", ") + "]";
          }};
}

Key EstimateMethod() {
  Words names;
  for (const estimate::EstimatorEntry& entry : estimate::Estimators())
    names.emplace_back(entry.name);
  return {"estimate.method",
          "name of an estimator",
          "How the memory of a task is predicted: \"auto\" takes the best that is possible "
          "(docs/estimators.md).",
          kText,
          [names](Settings& s, std::string_view text) {
            const std::string name = base::ToLower(base::Trim(text));
            if (std::ranges::count(names, name) == 0) return false;
            s.estimate_method = name;
            return true;
          },
          [](const Settings& s) { return Quoted(s.estimate_method); }};
}

Key EstimateCoverage() {
  return {"estimate.coverage",
          "fraction from 0.5 to 0.999, or 0",
          "Share of the tasks that should need no more than they are promised; 0: promise the most "
          "likely value.",
          kNumber,
          [](Settings& s, std::string_view text) {
            const std::optional<double> coverage = base::ParseDouble(base::Trim(text));
            if (!coverage || (*coverage != 0 && (*coverage < 0.5 || *coverage > 0.999)))
              return false;
            s.estimate_coverage = *coverage;
            return true;
          },
          [](const Settings& s) { return fmt::format("{}", s.estimate_coverage); }};
}

// Member of Settings by name, for any constness.
#define AT(member)       \
  [](auto& s) -> auto& { \
    return s.member;     \
  }

void AddDaemonKeys(std::vector<Key>& keys) {
  // sun_path holds 108 bytes with its end.
  keys.push_back(Path({"daemon.socket", "Socket that commands talk to."},
                      "absolute path of at most 107 bytes", 107, false, AT(socket)));
  keys.push_back(Path({"daemon.state_dir", "Folder of the books; one daemon per folder."},
                      "absolute path", 4'000, false, AT(state_dir)));
  keys.push_back(SocketMode());
  keys.push_back(Choice<std::string>({"daemon.log_level", "Least important lines that are logged."},
                                     {"debug", "info", "warn", "error"},
                                     {"debug", "info", "warn", "error"}, AT(log_level)));
  keys.push_back(HttpPort());
  keys.push_back(Count({"daemon.keep_finished_days", "Finished tasks are forgotten after this."}, 1,
                       36'500, AT(keep_finished_days)));
  keys.push_back(Admins());
}

void AddPolicyKeys(std::vector<Key>& keys) {
  keys.push_back(Mapper());
  keys.push_back(Published());
  keys.push_back(SmCap());
  using core::WithoutActivity;
  keys.push_back(Choice<WithoutActivity>(
      {"policy.without_sm_activity",
       "What the cap looks at on a GPU that does not tell its SM activity: the share of time in "
       "which a kernel ran (an upper bound), nothing (memory alone decides), or no task joins "
       "another there."},
      {"utilization", "memory", "never"},
      {WithoutActivity::kUtilization, WithoutActivity::kMemory, WithoutActivity::kNever},
      AT(policy.without_activity)));
  keys.push_back(Size({"policy.margin", "Free memory wanted on top of a task's estimate."},
                      AT(policy.margin_mib)));
  keys.push_back(
      Size({"policy.floor", "Free memory wanted for a task without an estimate; 0: no condition."},
           AT(policy.floor_mib)));
  keys.push_back(Flag(
      {"policy.settle", "Close a GPU after a placement until its window has seen the new task."},
      AT(policy.settle)));
  keys.push_back(Span({"policy.settle_timeout",
                       "A placement that never shows on its GPU stops closing it after this."},
                      Duration{0}, kYear, AT(policy.settle_timeout)));
  keys.push_back(Span({"policy.stale_after", "A GPU whose last sample is older takes no task."},
                      100 * kMs, kYear, AT(policy.stale_after)));
  keys.push_back(Count({"policy.max_tasks_per_gpu", "Most tasks at once on one GPU."}, 1, 48,
                       AT(policy.max_tasks_per_gpu)));
  keys.push_back(Flag({"policy.idle_first",
                       "Idle GPUs before any sharing, whatever the mapper says (as published)."},
                      AT(policy.idle_first)));
  keys.push_back(
      Flag({"policy.use_given_memory", "Let estimates decide; false: only floor and cap do."},
           AT(policy.use_given_memory)));
}

void AddRecoveryKeys(std::vector<Key>& keys) {
  using core::RecoveryMode;
  keys.push_back(Choice<RecoveryMode>({"recovery.mode",
                                       "Where a task that ran out of memory is tried again: idle "
                                       "GPUs only, or where its last claim "
                                       "plus a growing step is free, idle GPUs at last."},
                                      {"exclusive", "escalate"},
                                      {RecoveryMode::kExclusive, RecoveryMode::kEscalate},
                                      AT(policy.recovery)));
  keys.push_back(Size({"recovery.step", "Memory added to the last claim for each retry."},
                      AT(policy.recovery_step_mib)));
  keys.push_back(
      Span({"recovery.backoff",
            "Wait before the first retry; doubled for each further one, at most 10 min."},
           Duration{0}, kDay, AT(policy.recovery_backoff)));
  keys.push_back(
      Span({"recovery.patience", "A task to be recovered that waited longer gets GPUs reserved."},
           Duration{0}, kYear, AT(policy.recovery_patience)));
  keys.push_back(Flag(
      {"recovery.blocks", "No sharing of GPUs while a task waits for recovery (as published)."},
      AT(policy.recovery_blocks)));
  keys.push_back(Flag({"recovery.every_failure_is_oom",
                       "Any abnormal end is tried again like an out-of-memory one (as published)."},
                      AT(policy.every_failure_is_oom)));
  keys.push_back(Count({"recovery.max_launch_failures",
                        "Launches that fail for the machine's fault before a task fails."},
                       0, 1'000, AT(policy.max_launch_failures)));
  keys.push_back(Count(
      {"recovery.max_node_failures", "Restarts of a task that was lost with its machine or GPU."},
      0, 1'000, AT(policy.max_node_failures)));
  keys.push_back(Count({"recovery.max_victim_restarts",
                        "Restarts of a task that was ended by faults of its neighbours under MPS."},
                       0, 1'000, AT(policy.max_victim_restarts)));
}

void AddMachineKeys(std::vector<Key>& keys) {
  using enum CollocationMethod;
  keys.push_back(Choice<CollocationMethod>(
      {"collocation.method",
       "How tasks share a GPU: not at all (sets policy.mapper to exclusive), by time slices, or "
       "through MPS."},
      {"exclusive", "streams", "mps"}, {kExclusive, kStreams, kMps}, AT(collocation)));
  keys.push_back(NameOrPath({"collocation.mps_control", "NVIDIA's program that runs MPS servers."},
                            "program name or absolute path", AT(mps_control)));
  // The pipes are sockets too: their paths must stay short.
  keys.push_back(Path({"collocation.mps_dir", "Folder of the pipes and logs of MPS servers."},
                      "absolute path of at most 60 bytes", 60, false, AT(mps_dir)));
  keys.push_back(Choice<bool>({"collocation.mps_servers",
                               "One MPS server for each GPU of a user, or one per user for all "
                               "whole GPUs, which also serves "
                               "tasks of several GPUs (docs/collocation.md)."},
                              {"gpu", "user"}, {true, false}, AT(mps_server_per_gpu)));
  keys.push_back(Count(
      {"collocation.mps_clients", "An MPS server with so many processes takes no further task."}, 1,
      60, AT(mps_clients)));
  keys.push_back(Flag({"collocation.mps_memory_limit",
                       "Under MPS no process may take more than its task was promised, plus "
                       "policy.margin."},
                      AT(mps_memory_limit)));
  keys.push_back(Span({"collocation.mps_timeout",
                       "An MPS control daemon that takes longer (real time) is given up: the task "
                       "shares by streams."},
                      100 * kMs, kHour, AT(mps_timeout)));
  keys.push_back(Flag({"collocation.share_mig",
                       "Several tasks on one MIG instance, by the rules of a GPU; false: one."},
                      AT(policy.share_mig)));
  keys.push_back(Span({"monitor.sample_period", "Every GPU is read this often."}, 50 * kMs, kMinute,
                      AT(sample_period)));
  keys.push_back(Span({"monitor.window", "SM activity is the mean over this span."}, 100 * kMs,
                      kHour, AT(window)));
  keys.push_back(Span({"monitor.ewma",
                       "Time constant of the exponentially weighted mean that is shown beside the "
                       "plain one."},
                      100 * kMs, kHour, AT(ewma)));
  keys.push_back(Span({"monitor.history", "Single readings are kept in memory for so long."},
                      Duration{0}, kDay, AT(history)));
  keys.push_back(Size({"monitor.unattributed",
                       "GPU memory that no known process explains: more than this raises an "
                       "alert."},
                      AT(unattributed_mib)));
  keys.push_back(Span({"monitor.probe_timeout",
                       "A driver that does not answer for so long (real time) is taken as hung."},
                      100 * kMs, kHour, AT(probe_timeout)));
  keys.push_back(
      NameOrPath({"monitor.nvml_library", "The driver's library that is loaded to read GPUs."},
                 "library name or absolute path", AT(nvml_library)));
  using gpu::ActivitySource;
  keys.push_back(Choice<ActivitySource>(
      {"monitor.source",
       "Who counts SM activity: the driver where it can and else DCGM, the driver or nobody, or "
       "DCGM for every GPU (docs/gpus.md)."},
      {"auto", "nvml", "dcgm"},
      {ActivitySource::kAuto, ActivitySource::kNvml, ActivitySource::kDcgm}, AT(activity_source)));
}

void AddHealthKeys(std::vector<Key>& keys) {
  keys.push_back(Flag({"health.drain",
                       "A GPU whose errors or condition speak against it takes no further task; "
                       "false: that is only told."},
                      AT(health.drain)));
  keys.push_back(
      Flag({"health.resume",
            "Such a GPU is opened again once the cause is gone; false: by `carma resume` "
            "alone."},
           AT(health.resume_when_cleared)));
  keys.push_back(IgnoredXids());
  keys.push_back(IdleAfter());
  keys.push_back(IdleBelow());
  using core::IdleAction;
  keys.push_back(Choice<IdleAction>({"idle.action",
                                     "What follows for a task that holds GPUs without using them: "
                                     "it is only told, others may join "
                                     "it although it is exclusive, or it is ended."},
                                    {"tell", "share", "end"},
                                    {IdleAction::kTell, IdleAction::kShare, IdleAction::kEnd},
                                    AT(policy.idle_action)));
  keys.push_back(IdleNotify());
}

void AddEstimateKeys(std::vector<Key>& keys) {
  keys.push_back(EstimateMethod());
  keys.push_back(EstimateCoverage());
  keys.push_back(Span(
      {"estimate.time_limit", "A task whose estimate takes longer (real time) queues without one."},
      100 * kMs, kHour, AT(estimate_time_limit)));
  keys.push_back(
      Flag({"estimate.history",
            "Learn from finished tasks: what they needed, and how far predictions are off."},
           AT(estimate_history)));
  keys.push_back(Flag({"estimate.prefer_given",
                       "Memory that a user states is believed; false: only where nothing else is "
                       "known."},
                      AT(estimate_prefer_given)));
}

void AddTaskKeys(std::vector<Key>& keys) {
  keys.push_back(Span({"task.kill_grace", "Time between the request to end and the kill."},
                      Duration{0}, kDay, AT(kill_grace)));
  keys.push_back(Size({"task.max_output", "Size at which an output file is rotated; 0: never."},
                      AT(max_output_mib)));
  keys.push_back(Count({"task.output_rotations", "Older output files kept beside the current one."},
                       0, 100, AT(output_rotations)));
  keys.push_back(DefaultTimeLimit());
  keys.push_back(Count({"task.max_queued", "Unfinished tasks the daemon accepts."}, 1, 10'000'000,
                       AT(max_queued_tasks)));
  keys.push_back(
      Count({"task.max_batch", "Most tasks of one submission."}, 1, 10'000'000, AT(max_batch)));
  keys.push_back(
      Flag({"task.cgroups", "One cgroup per task where cgroup v2 allows it."}, AT(cgroups)));
  keys.push_back(Path({"simulation.state", "State file of a simulated server; empty: real GPUs."},
                      "absolute path, or empty", 4'000, true, AT(simgpu_state)));
}
#undef AT

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, changed}));
    }
  }
  return row.back();
}

}  // namespace

std::string Key::Variable() const {
  std::string variable = "CARMA_";
  for (const char c : name) {
    variable += c == '.' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return variable;
}

const std::vector<Key>& AllKeys() {
  static const std::vector<Key> kKeys = [] {
    std::vector<Key> keys;
    AddDaemonKeys(keys);
    AddPolicyKeys(keys);
    AddRecoveryKeys(keys);
    AddMachineKeys(keys);
    AddHealthKeys(keys);
    AddEstimateKeys(keys);
    AddTaskKeys(keys);
    return keys;
  }();
  return kKeys;
}

const Key* FindKey(std::string_view name) {
  for (const Key& key : AllKeys()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

std::optional<std::string> DidYouMean(std::string_view word, const std::vector<std::string>& known,
                                      std::size_t near) {
  if (word.size() > 100) return std::nullopt;
  std::optional<std::string> nearest;
  std::size_t least = near + 1;
  for (const std::string& each : known) {
    const std::size_t distance = EditDistance(word, each);
    if (distance < least && distance < each.size() / 2 + 1) {
      least = distance;
      nearest = each;
    }
  }
  return nearest;
}

}  // namespace carma::config
