#include "tests/scenario/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <span>

#include "base/cpu_list.h"
#include "base/file.h"
#include "base/text.h"
#include "core/scheduler/published_rules.h"
#include "tests/scenario/clause.h"

namespace carma::sim {
namespace {

constexpr std::size_t kMaxScenarioBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxGpus = 64;
constexpr std::int64_t kMaxGpuMib = std::int64_t{1} << 24;

// A verb and the words that may follow it. Words in `flags` have no value, and words in `options`
// have one. "t" in `options` stands for any task.
struct VerbEntry {
  std::string_view verb;
  std::size_t words;  // number of words, not counting flags
  std::string_view flags;
  std::string_view options;
};
constexpr std::array kHappens{
    VerbEntry{"submit", 1, "exclusive held predicted own_cpus no_slots linked",
              "gpus need_mib likely_mib kind priority begin afterok afterany afternotok time_limit "
              "signal_before max_recoveries requeue estimate sm_share max_slowdown sm_active "
              "sensitivity pressure grain others alone by user account qos cpus busy_cpus host_mib "
              "checkpoint type "
              "min_mib on "
              "not_on"},
    VerbEntry{"estimate", 1, "", "need_mib"},
    VerbEntry{"started", 1, "", "use_mib"},
    VerbEntry{"use", 0, "", "gpu t sm util foreign_mib foreign_processes attributed"},
    VerbEntry{"cores", 0, "", "all used t"},  // the machine's busy cores, in total and by task
    VerbEntry{"silent", 0, "", "gpu"},
    VerbEntry{"speaks", 0, "", "gpu"},
    VerbEntry{"health", 0, "lost", "gpu healthy text"},
    VerbEntry{"launch_failed", 1, "retryable exhausted", ""},
    VerbEntry{"sharing", 2, "", "limit_mib threads note"},
    VerbEntry{"idle", 1, "", "since"},
    VerbEntry{"busy", 1, "", ""},
    VerbEntry{"exit", 2, "", "code signal detail tried_mib"},
    VerbEntry{"cancel", 1, "", ""},
    VerbEntry{"hold", 1, "", ""},
    VerbEntry{"release", 1, "", ""},
    VerbEntry{"requeue", 1, "", ""},
    VerbEntry{"priority", 2, "", ""},
    VerbEntry{
        "edit", 1, "exclusive",
        "gpus need_mib priority time_limit signal_before begin qos afterok cpus host_mib type "
        "min_mib on not_on"},
    VerbEntry{"drain", 0, "rule upgrade", "gpu why by"},
    VerbEntry{"resume", 0, "rule", "gpu"},
    VerbEntry{"close", 0, "", "why by"},  // the machine will shut down
    VerbEntry{"open", 0, "", ""},
    // The first word of `reserve` and `unreserve` is the reservation's number.
    VerbEntry{"reserve", 1, "", "for account class on type count from to why"},
    VerbEntry{"unreserve", 1, "", ""},
    VerbEntry{"policy", 1, "", ""},        // word: the mapper; options: see PolicyOptions()
    VerbEntry{"host", 0, "", "cpus mib"},  // applies from this line on
    VerbEntry{"restart", 0, "", ""},
};
constexpr std::array kExpects{
    VerbEntry{"start", 1, "alone shared", "gpu claim_mib attempt at"},
    VerbEntry{"stop", 1, "", "cause at"},
    VerbEntry{"warn", 1, "", "at"},
    VerbEntry{"ask", 1, "", "at by cause"},
    VerbEntry{"queue", 1, "main recovery exclusive", "reason free_mib at"},
    VerbEntry{"reject", 1, "", "reason"},
    VerbEntry{"end", 2, "", "reason at ooms"},
    VerbEntry{"nothing", 0, "", ""},
    VerbEntry{"wake", 1, "", ""},
    VerbEntry{"reason", 2, "", "gpu text"},
    VerbEntry{"state", 2, "", ""},
    // Words: a task; then its latest (or likely) start, or `unknown`.
    VerbEntry{"latest", 2, "", ""},
    VerbEntry{"likely", 2, "", ""},
    VerbEntry{"sharing", 2, "", "limit_mib threads note"},
    VerbEntry{"idle", 1, "", "since"},
    VerbEntry{"busy", 1, "", ""},
    VerbEntry{"free", 0, "", "gpu mib"},
    // Cores and host memory promised to a running task.
    VerbEntry{"promised", 1, "", "cpus mib cores"},
    VerbEntry{"unpromised", 0, "", "cpus mib"},  // promised to no task
    VerbEntry{"reserved", 0, "nobody", "gpu for"},
};

bool Lists(std::string_view words, std::string_view word) {
  const std::vector<std::string_view> all = base::SplitWords(words);
  return std::find(all.begin(), all.end(), word) != all.end();
}

struct PolicyOption {
  std::string_view name;
  std::function<void(core::PolicyConfig&, ClauseReader&, const std::string&)> set;
};

PolicyOption Mib(std::string_view name, std::int64_t core::PolicyConfig::*field) {
  return {name, [field](core::PolicyConfig& policy, ClauseReader& in, const std::string& option) {
            policy.*field = in.Int(option, 0, kMaxGpuMib, 0);
          }};
}
PolicyOption Count(std::string_view name, int core::PolicyConfig::*field) {
  return {name, [field](core::PolicyConfig& policy, ClauseReader& in, const std::string& option) {
            policy.*field = static_cast<int>(in.Int(option, 0, 100'000, 0));
          }};
}
PolicyOption Switch(std::string_view name, bool core::PolicyConfig::*field) {
  return {name, [field](core::PolicyConfig& policy, ClauseReader& in, const std::string& option) {
            policy.*field = in.YesNo(option, false);
          }};
}
PolicyOption Rule(std::string_view name, std::optional<core::GpuRule> core::PolicyConfig::*field) {
  return {name, [field](core::PolicyConfig& policy, ClauseReader& in, const std::string& option) {
            base::Result<core::GpuRule> rule = core::GpuRule::Parse(in.Text(option));
            if (!rule) return in.Complain(option + ": " + rule.error().message);
            policy.*field = *std::move(rule);
          }};
}
PolicyOption SpanOf(std::string_view name, base::Duration core::PolicyConfig::*field) {
  return {name, [field](core::PolicyConfig& policy, ClauseReader& in, const std::string& option) {
            policy.*field = in.Span(option).value_or(base::Duration{0});
          }};
}

template <class Enum>
PolicyOption WordOf(std::string_view name, Enum core::PolicyConfig::*field,
                    std::vector<std::pair<std::string_view, Enum>> words) {
  return {name, [=](core::PolicyConfig& policy, ClauseReader& in, const std::string& option) {
            const std::string word = in.Text(option);
            std::vector<std::string> known;
            for (const auto& [each, value] : words) {
              if (each == word) return static_cast<void>(policy.*field = value);
              known.emplace_back(each);
            }
            in.Complain(std::string(name) + ": expected " + base::Join(known, ", "));
          }};
}

const std::vector<PolicyOption>& PolicyOptions() {
  using Policy = core::PolicyConfig;
  static const std::vector<PolicyOption> options{
      {"sm_cap", [](Policy& policy, ClauseReader& in,
                    const std::string& option) { policy.sm_cap = in.Fraction(option); }},
      WordOf("recovery", &Policy::recovery,
             {{"exclusive", core::RecoveryMode::kExclusive},
              {"escalate", core::RecoveryMode::kEscalate}}),
      WordOf("idle_action", &Policy::idle_action,
             {{"tell", core::IdleAction::kTell},
              {"share", core::IdleAction::kShare},
              {"end", core::IdleAction::kEnd}}),
      WordOf("without_activity", &Policy::without_activity,
             {{"utilization", core::WithoutActivity::kUtilization},
              {"memory", core::WithoutActivity::kMemory},
              {"never", core::WithoutActivity::kNever}}),
      WordOf("sharing", &Policy::sharing,
             {{"mps", core::SharingMethod::kMps}, {"streams", core::SharingMethod::kStreams}}),
      WordOf("order", &Policy::order,
             {{"fifo", core::QueueOrder::kFifo}, {"fair", core::QueueOrder::kFair}}),
      {"half_life",
       [](Policy& policy, ClauseReader& in, const std::string& option) {
         policy.fair.half_life = in.Span(option).value_or(base::Duration{0});
       }},
      {"patience",
       [](Policy& policy, ClauseReader& in, const std::string& option) {
         policy.fair.patience = in.Span(option).value_or(base::Duration{0});
       }},
      {"slot", [](Policy& policy, ClauseReader& in,
                  const std::string& option) { policy.slots.length = in.Span(option); }},
      {"notice",
       [](Policy& policy, ClauseReader& in, const std::string& option) {
         policy.slots.notice = in.Span(option).value_or(base::Duration{0});
       }},
      {"preempt_notice",
       [](Policy& policy, ClauseReader& in, const std::string& option) {
         policy.slots.preempt_notice = in.Span(option).value_or(base::Duration{0});
       }},
      {"without_checkpoint",
       [](Policy& policy, ClauseReader& in, const std::string& option) {
         const auto rule = base::FromWord<core::WithoutCheckpoint>(in.Text(option));
         if (!rule) return in.Complain("without_checkpoint: expected never, once or end");
         policy.slots.without_checkpoint = *rule;
       }},
      Mib("margin_mib", &Policy::margin_mib),
      Mib("floor_mib", &Policy::floor_mib),
      Mib("recovery_step_mib", &Policy::recovery_step_mib),
      Count("cpus_per_gpu", &Policy::cpus_per_gpu),
      Mib("host_memory_per_gpu_mib", &Policy::host_memory_per_gpu_mib),
      {"plateau_after", [](Policy& policy, ClauseReader& in,
                           const std::string& option) { policy.plateau_after = in.Span(option); }},
      {"min_gain", [](Policy& policy, ClauseReader& in,
                      const std::string& option) { policy.min_gain = in.Fraction(option); }},
      {"max_slowdown",
       [](Policy& policy, ClauseReader& in, const std::string& option) {
         policy.max_slowdown = in.Fraction(option);
       }},
      Rule("score", &Policy::score),
      Rule("require", &Policy::require),
      Count("lookahead", &Policy::lookahead),
      {"pass_limit", [](Policy& policy, ClauseReader& in,
                        const std::string& option) { policy.pass_limit = in.Span(option); }},
      Count("backfill", &Policy::backfill),
      SpanOf("booking_lead", &Policy::booking_lead),
      SpanOf("settle_timeout", &Policy::settle_timeout),
      SpanOf("stale_after", &Policy::stale_after),
      SpanOf("recovery_backoff", &Policy::recovery_backoff),
      SpanOf("recovery_patience", &Policy::recovery_patience),
      Switch("settle", &Policy::settle),
      Switch("users_take_turns", &Policy::users_take_turns),
      Switch("idle_first", &Policy::idle_first),
      Switch("recovery_blocks", &Policy::recovery_blocks),
      Switch("every_failure_is_oom", &Policy::every_failure_is_oom),
      Switch("use_given_memory", &Policy::use_given_memory),
      Switch("share_mig", &Policy::share_mig),
      Count("max_tasks_per_gpu", &Policy::max_tasks_per_gpu),
      Count("max_launch_failures", &Policy::max_launch_failures),
      Count("max_node_failures", &Policy::max_node_failures),
      Count("max_victim_restarts", &Policy::max_victim_restarts),
  };
  return options;
}

const PolicyOption* FindPolicyOption(std::string_view name) {
  const auto option = std::ranges::find(PolicyOptions(), name, &PolicyOption::name);
  return option == PolicyOptions().end() ? nullptr : &*option;
}

// Splits a line into words and drops its comment; ';' is a separate word.
std::vector<std::string> Words(std::string_view line) {
  std::string spaced;
  for (const char c : line.substr(0, line.find('#'))) {
    if (c == ';') {
      spaced += " ; ";
    } else {
      spaced += c;
    }
  }
  const std::vector<std::string_view> pieces = base::SplitWords(base::Trim(spaced));
  return {pieces.begin(), pieces.end()};
}

class Parser {
 public:
  Parser(std::string_view text, std::string file) : text_(text) {
    scenario_.file = std::move(file);
  }

  base::Result<Scenario> Parse() {
    for (const std::string_view line : base::Split(text_, '\n')) {
      ++number_;
      const std::vector<std::string> words = Words(line);
      if (words.empty()) continue;
      if (base::Result<base::Unit> read = Line(words); !read) {
        return std::unexpected(read.error());
      }
    }
    if (scenario_.gpus.empty()) return Bad("expected a line 'gpus N x MIB mib'");
    if (base::Result<base::Unit> valid = core::Validate(scenario_.policy); !valid) {
      return base::Wrap(valid.error(), scenario_.file);
    }
    return std::move(scenario_);
  }

 private:
  std::unexpected<base::Error> Bad(std::string_view what) const {
    return base::Fail(ErrorCode::kInvalid, fmt::format("{}:{}: {}", scenario_.file, number_, what));
  }

  base::Result<base::Unit> Line(const std::vector<std::string>& words) {
    if (words[0] == "gpus") return Gpus(words);
    if (words[0] == "host") return Host(words);
    if (words[0] == "policy") return Policy(words);
    if (words[0] == "samples") return Samples(words);
    if (words[0] == "limit")
      return Entitlement(words, scenario_.policy.limits, &core::ParseLimitRule);
    if (words[0] == "weight")
      return Entitlement(words, scenario_.policy.fair.weights, &core::ParseShareWeight);
    if (words[0] == "class")
      return Entitlement(words, scenario_.policy.classes, &core::ParseQosClass);
    if (words[0] == "at") return At(words);
    if (words[0] == "expect") {
      if (scenario_.lines.empty()) return Bad("'expect' before the first 'at'");
      // An expectation keeps its own line number for error messages, but shares the time of the
      // previous line.
      scenario_.lines.push_back(
          {.number = number_, .at = scenario_.lines.back().at, .continues = true});
      return Clauses(words, 0);
    }
    return Bad(
        fmt::format("'{}': expected gpus, host, policy, limit, weight, class, samples, at or "
                    "expect",
                    base::Printable(words[0], 40)));
  }

  // Parses a line such as `host 8 cpus 64000 mib`.
  base::Result<base::Unit> Host(const std::vector<std::string>& words) {
    const auto bad = [this] { return Bad("expected 'host N cpus MIB mib'"); };
    if (words.size() != 5 || words[2] != "cpus" || words[4] != "mib") return bad();
    const std::optional<std::int64_t> cpus = base::ParseInt(words[1]);
    const std::optional<std::int64_t> mib = base::ParseInt(words[3]);
    if (!cpus || *cpus < 1 || *cpus > core::kMaxCpus || !mib || *mib < 1) return bad();
    scenario_.host = HostOf(static_cast<int>(*cpus), *mib);
    return base::Unit{};
  }

  // Parses a line of this form:
  //   gpus 2 x 40000 mib [mig] [reserved 500] [type A100] [near 0-3] [sevenths 3] [speed 2.6]
  base::Result<base::Unit> Gpus(const std::vector<std::string>& words) {
    const auto bad = [this] {
      return Bad(
          "expected 'gpus N x MIB mib [mig] [reserved MIB] [type NAME] [near CPUS] [sevenths N] "
          "[speed X] [linked NUMBERS]'");
    };
    if (words.size() < 5 || words[2] != "x" || words[4] != "mib") return bad();
    const std::optional<std::int64_t> count = base::ParseInt(words[1]);
    const std::optional<std::int64_t> total = base::ParseInt(words[3]);
    if (!count || *count < 1 || !total || *total < 1 || *total > kMaxGpuMib) return bad();
    if (scenario_.gpus.size() + static_cast<std::size_t>(*count) > kMaxGpus) {
      return Bad(fmt::format("more than {} GPUs", kMaxGpus));
    }
    core::GpuInfo info{.type = "GPU", .total_mib = *total};
    info.mig = words.size() > 5 && words[5] == "mig";
    for (std::size_t i = info.mig ? 6 : 5; i < words.size(); i += 2) {
      if (i + 1 == words.size()) return bad();
      const std::optional<std::int64_t> reserved = base::ParseInt(words[i + 1]);
      const std::optional<double> speed = base::ParseDouble(words[i + 1]);
      if (words[i] == "type") {
        info.type = words[i + 1];
      } else if (words[i] == "linked") {
        for (const std::string_view each : base::Split(words[i + 1], ','))
          info.linked_to.push_back(fmt::format("GPU-{}", each));
      } else if (words[i] == "speed" && speed && *speed > 0) {
        info.speed = *speed;
      } else if (words[i] == "near" && base::ParseCpuList(words[i + 1])) {
        info.near_cpus = *base::ParseCpuList(words[i + 1]);
      } else if (words[i] == "reserved" && reserved && *reserved >= 0 && *reserved < *total) {
        info.reserved_mib = *reserved;
      } else if (words[i] == "sevenths" && reserved && *reserved >= 1 && *reserved <= 7) {
        info.compute = static_cast<double>(*reserved) / 7;  // number of the instance's slices
      } else {
        return bad();
      }
    }
    for (std::int64_t i = 0; i < *count; ++i) {
      info.uuid = fmt::format("GPU-{}", scenario_.gpus.size());
      scenario_.gpus.push_back(info);
    }
    return base::Unit{};
  }

  // Parses a line such as `policy magm margin_mib=1000 [published=thesis]`. With own_values=yes,
  // the mapper's own defaults apply.
  base::Result<base::Unit> Policy(const std::vector<std::string>& words) {
    if (words.size() < 2 || core::FindMapper(words[1]) == nullptr) {
      return Bad("expected 'policy MAPPER [option=value]'");
    }
    scenario_.policy.mapper = words[1];
    Clause clause{.verb = "policy"};
    for (std::size_t i = 2; i < words.size(); ++i) {
      const std::size_t equals = words[i].find('=');
      if (equals == std::string::npos) return Bad("'" + words[i] + "': expected option=value");
      clause.options[words[i].substr(0, equals)] = words[i].substr(equals + 1);
    }
    ClauseReader in(clause);
    std::string published;
    if (in.YesNo("own_values", false)) core::UseMapperValues(scenario_.policy);
    for (const auto& [name, value] : clause.options) {
      if (name == "published") published = value;
      if (name == "published" || name == "own_values") continue;
      const PolicyOption* option = FindPolicyOption(name);
      if (option == nullptr) return Bad("'" + name + "': no such policy option");
      option->set(scenario_.policy, in, name);
    }
    if (in.error()) return Bad(*in.error());
    if (published.empty()) return base::Unit{};
    base::Result<core::PolicyConfig> rules = core::AsPublished(published, scenario_.policy);
    if (!rules) return Bad(rules.error().message);
    scenario_.policy = *std::move(rules);
    return base::Unit{};
  }

  // Parses a line such as `limit user=* running=2`, `weight ada=3` or `class urgent priority=50`.
  template <class T>
  base::Result<base::Unit> Entitlement(const std::vector<std::string>& words, std::vector<T>& all,
                                       base::Result<T> (*parse)(std::string_view)) {
    const std::vector<std::string> rest(words.begin() + 1, words.end());
    base::Result<T> read = parse(base::Join(rest, " "));
    if (!read) return Bad(read.error().message);
    all.push_back(*std::move(read));
    return base::Unit{};
  }

  // samples every=1s window=60s
  base::Result<base::Unit> Samples(const std::vector<std::string>& words) {
    Clause clause{.verb = "samples"};
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::size_t equals = words[i].find('=');
      const std::string name = words[i].substr(0, equals);
      if (equals == std::string::npos || !Lists("every window", name)) {
        return Bad("expected 'samples every=SPAN window=SPAN'");
      }
      clause.options[name] = words[i].substr(equals + 1);
    }
    ClauseReader in(clause);
    scenario_.sample_period = in.Span("every").value_or(scenario_.sample_period);
    scenario_.window = in.Span("window").value_or(scenario_.window);
    if (in.error()) return Bad(*in.error());
    if (scenario_.sample_period < base::Duration{1}) return Bad("every: expected at least 1ms");
    return base::Unit{};
  }

  base::Result<base::Unit> At(const std::vector<std::string>& words) {
    const std::optional<base::Duration> when =
        words.size() < 2 ? std::nullopt : ParseScenarioSpan(words[1]);
    if (!when) return Bad("expected 'at TIME' with a time like 95s, 1500ms, 10m, 2h");
    const core::Time at{*when};
    if (!scenario_.lines.empty() && at < scenario_.lines.back().at) {
      return Bad("lines must be in chronological order");
    }
    scenario_.lines.push_back({.number = number_, .at = at});
    return Clauses(words, 2);
  }

  // Parses `verb … ; verb … expect verb … expect verb …`, starting at word `from`.
  base::Result<base::Unit> Clauses(const std::vector<std::string>& words, std::size_t from) {
    std::vector<Clause>* into = &scenario_.lines.back().happens;
    bool begins = true;
    for (std::size_t i = from; i < words.size(); ++i) {
      if (words[i] == ";" || words[i] == "expect") {
        if (words[i] == "expect") into = &scenario_.lines.back().expects;
        begins = true;
        continue;
      }
      if (begins) into->push_back({.verb = words[i]});
      if (!begins) Take(into->back(), words[i]);
      begins = false;
    }
    for (const Clause& clause : scenario_.lines.back().happens) {
      if (auto checked = Check(clause, kHappens); !checked) return checked;
    }
    for (const Clause& clause : scenario_.lines.back().expects) {
      if (auto checked = Check(clause, kExpects); !checked) return checked;
    }
    return base::Unit{};
  }

  static void Take(Clause& clause, const std::string& word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) {
      clause.words.push_back(word);
    } else {
      clause.options[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }

  base::Result<base::Unit> Check(const Clause& clause, std::span<const VerbEntry> verbs) const {
    const auto verb = std::find_if(verbs.begin(), verbs.end(),
                                   [&](const VerbEntry& each) { return each.verb == clause.verb; });
    if (verb == verbs.end()) {
      std::string known;
      for (const VerbEntry& each : verbs) known += fmt::format(" {}", each.verb);
      return Bad(fmt::format("'{}': expected one of{}", base::Printable(clause.verb, 40), known));
    }
    std::size_t words = 0;
    for (const std::string& word : clause.words) words += Lists(verb->flags, word) ? 0 : 1;
    if (words != verb->words) {
      return Bad(fmt::format("'{}' takes {} words, got {}", clause.verb, verb->words, words));
    }
    for (const auto& [option, value] : clause.options) {
      const bool task = Lists(verb->options, "t") && ParseTaskName(option);
      const bool rule = clause.verb == "policy" && FindPolicyOption(option) != nullptr;
      if (!task && !rule && (option == "t" || !Lists(verb->options, option))) {
        return Bad(
            fmt::format("'{}' has no option '{}'", clause.verb, base::Printable(option, 40)));
      }
    }
    return base::Unit{};
  }

  std::string_view text_;
  Scenario scenario_;
  int number_ = 0;
};

}  // namespace

core::PolicyConfig ChangedPolicy(core::PolicyConfig policy, ClauseReader& in,
                                 const Clause& clause) {
  policy.mapper = in.Word(0);
  for (const auto& [name, value] : clause.options) {
    if (const PolicyOption* option = FindPolicyOption(name)) option->set(policy, in, name);
  }
  if (const auto valid = core::Validate(policy); !valid) in.Complain(valid.error().message);
  return policy;
}

base::Result<Scenario> ParseScenario(std::string_view text, std::string file) {
  return Parser(text, std::move(file)).Parse();
}

core::HostInfo HostOf(int cpus, std::int64_t memory_mib) {
  core::HostInfo host{.cpus = cpus, .memory_mib = memory_mib};
  for (int cpu = 0; cpu < cpus; ++cpu) host.cores.push_back(cpu);
  return host;
}

base::Result<base::Unit> RunScenarioFile(const std::string& path, ScenarioShell& shell) {
  const base::Result<std::string> text = base::ReadFile(path, kMaxScenarioBytes);
  if (!text) return std::unexpected(text.error());
  const base::Result<Scenario> scenario = ParseScenario(*text, path);
  if (!scenario) return std::unexpected(scenario.error());
  return RunScenario(*scenario, shell);
}

}  // namespace carma::sim
