#include "lab/verbs/simulate/policy_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "base/suggest.h"
#include "base/text.h"
#include "base/try.h"
#include "config/keys.h"
#include "estimate/estimator.h"
#include "lab/sim/model_words.h"
#include "lab/verbs/lab.h"

namespace carma::cli {
namespace {

// Configuration sections whose keys affect a simulated server's decisions. kWords lists the
// relevant keys of all other sections.
constexpr std::array kSections{"policy.", "fair.", "limits.", "slots.", "reserve.", "recovery."};

// The settings collected from the keywords.
struct Draft {
  config::Settings settings;
  SimPolicy policy;
  std::string estimator;  // empty if no keyword names one
};

struct Word {
  PolicyWordInfo info;
  // Returns false if the value does not match `type`.
  bool (*set)(Draft&, const std::string& value) = nullptr;
  const char* key = nullptr;  // configuration key that replaces `set` and the type
};

using sim::Set;

// Sets the run option selected by kFind; numbers must be within kRange.
template <auto kFind, int... kRange>
bool Sets(Draft& draft, const std::string& value) {
  return Set(kFind(draft.policy.options), value, kRange...);
}
#define AT(member)             \
  [](auto& options) -> auto& { \
    return options.member;     \
  }

bool SetEstimator(Draft& draft, const std::string& value) {
  draft.estimator = base::ToLower(value);
  return trace::ParseEstimateSource(draft.estimator).has_value() ||
         estimate::FindEstimator(draft.estimator) != nullptr;
}

bool SetHistory(Draft& draft, const std::string& value) {
  if (value != "none" && value != "run" && value != "runs") return false;
  draft.settings.estimate_history = value != "none";
  draft.policy.options.estimates.carries = value == "runs";
  return true;
}

// Falls back to the configured estimator if no keyword selects one. Users of the published system
// specify the memory that their tasks need, so the default is "oracle" under its rules.
void ChooseEstimator(Draft& draft) {
  const config::Settings& settings = draft.settings;
  if (draft.estimator.empty())
    draft.estimator = settings.published ? "oracle" : settings.estimate_method;
  sim::EstimateOptions& estimates = draft.policy.options.estimates;
  if (const Result<std::string_view> source = trace::ParseEstimateSource(draft.estimator)) {
    estimates.source = *source;
  } else {
    estimates.method = draft.estimator;
  }
  estimates.coverage = settings.estimate_coverage;
  estimates.learns = settings.estimate_history;
}

template <class Enum>
bool SetOneOf(Enum& target, const std::string& value,
              std::initializer_list<std::pair<std::string_view, Enum>> words) {
  const auto* found = std::ranges::find(words, value, &std::pair<std::string_view, Enum>::first);
  if (found == words.end()) return false;
  target = found->second;
  return true;
}

bool SetProfiles(Draft& draft, const std::string& value) {
  using Profiles = sim::EstimateOptions::Profiles;
  return SetOneOf(draft.policy.options.estimates.profiles, value,
                  {{"none", Profiles::kNone},
                   {"activity", Profiles::kActivity},
                   {"measured", Profiles::kMeasured}});
}

bool SetCollocation(Draft& draft, const std::string& value) {
  using core::SharingMethod;
  return SetOneOf(draft.policy.options.collocation, base::ToLower(value),
                  {{"exclusive", SharingMethod::kAlone},
                   {"streams", SharingMethod::kStreams},
                   {"mps", SharingMethod::kMps},
                   {"mig", SharingMethod::kMig}});
}

// Slurm does not start MPS, so tasks that share a GPU through shards take turns, unless a later
// keyword changes the sharing method.
bool SetGres(Draft& draft, const std::string& value) {
  if (!Set(draft.policy.options.above.gres, value)) return false;
  if (draft.policy.options.above.gres == sim::Gres::kShard)
    draft.policy.options.collocation = core::SharingMethod::kStreams;
  return true;
}

bool SetSampling(Draft& draft, const std::string& value) {
  using Mode = sim::MonitorOptions::Mode;
  return SetOneOf(
      draft.policy.options.monitor.mode, value,
      {{"on-demand", Mode::kOnDemand}, {"periodic", Mode::kPeriodic}, {"none", Mode::kNone}});
}

constexpr Word kWords[] = {
    {{"label", "text", "name in tables and figures"},
     [](Draft& draft, const std::string& value) {
       draft.policy.label = value;
       return !value.empty() && value.size() <= 200;
     }},
    {{"estimator",
      "none, oracle, a column of the catalogue (horus, faketensor, gpumemnet), auto, history "
      "or (with summaries) any other estimator of `carma estimate`",
      "memory estimator; default: estimate.method"},
     SetEstimator},
    {{"history", "none, run or runs",
      "which finished tasks the estimator learns from: none, those of the same run, or those of "
      "all runs so far; default: run, unless estimate.history is false"},
     SetHistory},
    {.info = {"coverage", "", "share of runs that a promise should cover, like estimate.coverage"},
     .key = "estimate.coverage"},
    {{"estimator_sigma", "number from 0 to 5",
      "random error of estimates: a factor exp(N(bias, sigma))"},
     Sets<AT(estimates.sigma), 0, 5>},
    {{"estimator_bias", "number from -5 to 5",
      "bias of estimates: the mean in exp(N(bias, sigma))"},
     Sets<AT(estimates.bias), -5, 5>},
    {{"estimator_missing", "share from 0 to 1", "share of tasks without an estimate"},
     Sets<AT(estimates.missing_share), 0, 1>},
    {{"estimator_time", "time span", "time needed for an estimate"}, Sets<AT(estimates.takes)>},
    {{"profiles", "none, activity or measured",
      "what is known about tasks' GPU usage before they run: nothing, their SM activity, or their "
      "SM activity and how much they slow each other down; default: none"},
     SetProfiles},
    {{"durations", "true or false", "whether tasks' solo run times are known; default: false"},
     Sets<AT(estimates.durations)>},
    {{"activity_sigma", "number from 0 to 5",
      "random error of the SM activity known through profiles: a factor exp(N(0, sigma))"},
     Sets<AT(estimates.activity_sigma), 0, 5>},
    {{"slowdown_sigma", "number from 0 to 5",
      "random error of the sensitivity and pressure that profiles=measured provides"},
     Sets<AT(estimates.slowdown_sigma), 0, 5>},
    {{"duration_sigma", "number from 0 to 5",
      "random error of the run times that durations=true provides"},
     Sets<AT(estimates.duration_sigma), 0, 5>},
    {{"collocation", "exclusive, streams, mps or mig", "how tasks share a GPU"}, SetCollocation},
    {.info = {"streams_sm_cap", "",
              "SM cap with collocation=streams or share_mig; replaces sm_cap"},
     .key = "collocation.streams_sm_cap"},
    {.info = {"streams_tasks", "",
              "tasks per GPU with collocation=streams or share_mig; replaces max_tasks_per_gpu"},
     .key = "collocation.streams_tasks"},
    {{"mig_instances", "1, 2, 3 or 7", "number of instances per GPU with collocation=mig"},
     Sets<AT(mig_instances), 1, 7>},
    {.info = {"share_mig", "", "allow several tasks per instance with collocation=mig"},
     .key = "collocation.share_mig"},
    {.info = {"mps_memory_limit", "",
              "with collocation=mps: limit each task to its promise plus a margin; default: true"},
     .key = "collocation.mps_memory_limit"},
    {.info = {"mps_servers", "",
              "one MPS server per GPU (tasks on several GPUs then take turns), per user or for all "
              "users"},
     .key = "collocation.mps_servers"},
    {{"cluster", "queue, slurm or asked",
      "which server gets a task: the one with the most idle GPUs, the one that Slurm chooses, or "
      "the one that reports the best fit"},
     Sets<AT(above.placing)>},
    {{"gres", "carma, gpu or shard",
      "what Slurm allocates: carma = GiB of a server's GPU memory (CARMA places the tasks); gpu = "
      "whole GPUs; shard = GiB on each GPU, shared by streams unless a later keyword sets "
      "another method (gpu and shard: Slurm without CARMA)"},
     SetGres},
    {{"spread", "true or false",
      "whether Slurm chooses the least loaded server instead of the first one"},
     Sets<AT(above.spread)>},
    {{"slurm_backfill", "true or false",
      "whether tasks may pass the head of the queue if they do not delay it"},
     Sets<AT(above.backfill)>},
    {{"time_limit", "number from 0.01 to 1e6",
      "time limit as a multiple of the solo run time, for slurm_backfill; not enforced"},
     [](Draft& draft, const std::string& value) {
       return Set(draft.policy.options.above.time_limit, value, 0.01, 1e6);
     }},
    {{"wait", "time span",
      "how long a server may hold a task before it is offered to another server"},
     Sets<AT(above.wait)>},
    {{"wait_requeues", "whole number from 0 to 1000",
      "with cluster=slurm: how many times a task may move to another server"},
     Sets<AT(above.wait_requeues), 0, 1000>},
    {{"requeue_delay", "time span", "delay before Slurm restarts a requeued task"},
     Sets<AT(above.requeue_delay)>},
    {{"report_every", "time span", "with cluster=asked: maximum age of the servers' reports"},
     Sets<AT(above.report_every)>},
    {.info = {"published", "", "use the published system's rules and pauses"},
     .key = "policy.published"},
    {{"max_recoveries", "number from 0 to 1000",
      "maximum number of retries after running out of memory"},
     Sets<AT(max_recoveries), 0, 1000>},
    {.info = {"sample_period", "", "time between samples of each GPU"},
     .key = "monitor.sample_period"},
    {.info = {"window", "", "averaging window for SM activity"}, .key = "monitor.window"},
    {{"sampling", "on-demand, periodic or none", "when the monitor takes samples"}, SetSampling},
    {{"sample_delay", "time span", "delay from a reading to its arrival at the scheduler"},
     Sets<AT(monitor.delay)>},
};
#undef AT

// Finds a keyword by its name or by its configuration key.
const Word* FindWord(std::string_view name) {
  const auto* found = std::ranges::find_if(kWords, [name](const Word& word) {
    return word.info.name == name || (word.key != nullptr && word.key == name);
  });
  return found == std::end(kWords) ? nullptr : found;
}

std::string_view TypeOf(const Word& word) {
  return word.key ? std::string_view(config::FindKey(word.key)->type) : word.info.type;
}

// Finds a configuration key by its name with or without the section.
const config::Key* FindPolicyKey(const std::string& name) {
  for (const char* section : kSections) {
    if (name.starts_with(section)) return config::FindKey(name);
  }
  for (const char* section : kSections) {
    if (const config::Key* key = config::FindKey(section + name)) return key;
  }
  return nullptr;
}

Result<Unit> Apply(const PolicyWord& word, Draft& draft) {
  if (const Word* known = FindWord(word.key)) {
    const bool set = known->key ? config::FindKey(known->key)->set(draft.settings, word.value)
                                : known->set(draft, word.value);
    return set ? Result<Unit>(Unit{}) : Unexpected(word, TypeOf(*known));
  }
  const config::Key* key = FindPolicyKey(word.key);
  if (key == nullptr) {
    const std::optional<std::string> near = base::DidYouMean(word.key, PolicyWordNames(), 3);
    return Invalid("{}: {}: unknown policy keyword{}", word.where, base::Printable(word.key, 80),
                   near ? ", did you mean " + *near + "?" : "");
  }
  if (!key->set(draft.settings, word.value)) {
    const std::string why = key->trouble ? ": " + key->trouble(word.value) : "";
    return Invalid(Unexpected(word, key->type).error().message + why);
  }
  return Unit{};
}

// Applies the SM cap and the maximum number of tasks per GPU to every sharing method, overriding
// the values that config::PolicyFor sets for the method. Shared MIG instances have their own
// keywords for both, which override these.
Result<Unit> ApplyToAnySharing(const std::vector<PolicyWord>& words, Draft& draft) {
  for (PolicyWord word : words) {
    const config::Key* key = FindWord(word.key) ? nullptr : FindPolicyKey(word.key);
    const bool cap = key && key->name == "policy.sm_cap";
    if (!cap && !(key && key->name == "policy.max_tasks_per_gpu")) continue;
    CARMA_TRY(Apply(word, draft));
    word.key = cap ? "streams_sm_cap" : "streams_tasks";
    const auto is_own = [&](const PolicyWord& other) { return other.key == word.key; };
    if (draft.settings.divided && std::ranges::none_of(words, is_own))
      CARMA_TRY(Apply(word, draft));
  }
  return Unit{};
}

// Splits at commas, except inside parentheses such as "min(a, b)" in a rule.
std::vector<std::string_view> SplitOutsideParentheses(std::string_view spec) {
  std::vector<std::string_view> pieces;
  int open = 0;
  std::size_t from = 0;
  for (std::size_t i = 0; i < spec.size(); ++i) {
    if (spec[i] == '(') ++open;
    if (spec[i] == ')') --open;
    if (spec[i] != ',' || open > 0) continue;
    pieces.push_back(spec.substr(from, i - from));
    from = i + 1;
  }
  pieces.push_back(spec.substr(from));
  return pieces;
}

std::string SpecOf(const std::vector<PolicyWord>& words, const std::string& default_mapper) {
  std::string mapper = default_mapper;
  std::string rest;
  for (const auto& [key, value] : LastOf(words)) {
    if (key == "label") continue;
    const bool list = SplitOutsideParentheses(value).size() > 1;
    if (key == "mapper") {
      mapper = value;
    } else {
      rest += fmt::format(",{}={}{}{}", key, list ? "(" : "", value, list ? ")" : "");
    }
  }
  return mapper + rest;
}

// Removes the parentheses around a list such as "(ada=2, bob=3)".
std::string_view WithoutParentheses(std::string_view value) {
  if (!value.starts_with('(') || !value.ends_with(')')) return value;
  int open = 0;
  for (std::size_t i = 0; i + 1 < value.size(); ++i) {
    open += value[i] == '(' ? 1 : value[i] == ')' ? -1 : 0;
    if (open == 0) return value;  // "(a) + (b)" is not a list
  }
  return base::Trim(value.substr(1, value.size() - 2));
}

}  // namespace

Result<std::vector<PolicyWord>> SplitPolicy(std::string_view spec, const std::string& where) {
  std::vector<PolicyWord> words;
  for (const std::string_view piece : SplitOutsideParentheses(spec)) {
    const std::string_view word = base::Trim(piece);
    const std::size_t equals = word.find('=');
    if (word.empty() || equals == 0) {
      return Invalid("{}: expected keywords like 'magm,sm_cap=0.8', not '{}'", where,
                     base::Printable(spec, 80));
    }
    if (equals == std::string_view::npos) {
      words.push_back({"mapper", std::string(word), where});
    } else {
      words.push_back({std::string(base::Trim(word.substr(0, equals))),
                       std::string(WithoutParentheses(base::Trim(word.substr(equals + 1)))),
                       where});
    }
  }
  return words;
}

std::unexpected<base::Error> Unexpected(const PolicyWord& word, std::string_view expected) {
  return Invalid("{}: {}: expected {}, not '{}'", word.where, base::Printable(word.key, 80),
                 expected, base::Printable(word.value, 60));
}

std::vector<std::pair<std::string, std::string>> LastOf(const std::vector<PolicyWord>& words) {
  std::vector<std::pair<std::string, std::string>> last;
  for (const PolicyWord& word : words) {
    const auto found =
        std::ranges::find_if(last, [&](const auto& each) { return each.first == word.key; });
    if (found == last.end()) {
      last.emplace_back(word.key, word.value);
    } else {
      found->second = word.value;
    }
  }
  return last;
}

std::vector<std::vector<PolicyWord>> DefaultPolicies(const std::vector<std::string>& methods,
                                                     bool exclusive) {
  const std::string where = "default policy";
  std::vector<std::vector<PolicyWord>> policies{
      {{"label", "exclusive", where}, {"mapper", "exclusive", where}}};
  for (const std::string& method : methods) {
    policies.push_back(
        {{"label", fmt::format("CARMA ({})", method), where}, {"collocation", method, where}});
    if (exclusive) policies.back().push_back({"mapper", "auto", where});
  }
  return policies;
}

std::vector<PolicyWordInfo> PolicyWords() {
  std::vector<PolicyWordInfo> all;
  for (const Word& word : kWords) all.push_back({word.info.name, TypeOf(word), word.info.meaning});
  return all;
}

std::vector<std::string> PolicyWordNames() {
  std::vector<std::string> names;
  for (const Word& word : kWords) names.emplace_back(word.info.name);
  for (const config::Key& key : config::AllKeys()) {
    for (const char* section : kSections) {
      if (key.name.starts_with(section) && FindWord(key.name) == nullptr)
        names.push_back(key.name.substr(std::string_view(section).size()));
    }
  }
  return names;
}

Result<SimPolicy> MakePolicy(const config::Settings& base, const std::vector<PolicyWord>& words) {
  Draft draft{.settings = base};
  for (const PolicyWord& word : words) CARMA_TRY(Apply(word, draft));
  SimPolicy& policy = draft.policy;
  draft.settings.divided = policy.options.collocation == core::SharingMethod::kMig;
  draft.settings.policy = config::PolicyFor(draft.settings, policy.options.collocation);
  // The published systems had no memory limits, and Slurm alone does not start an MPS server.
  policy.options.mps_memory_limit = draft.settings.mps_memory_limit && !draft.settings.published &&
                                    policy.options.above.WithCarma();
  CARMA_TRY(ApplyToAnySharing(words, draft));
  policy.spec = SpecOf(words, base.mapper);
  if (policy.label.empty()) policy.label = policy.spec;
  ChooseEstimator(draft);
  policy.options.policy = draft.settings.policy;
  policy.options.monitor.period = draft.settings.sample_period;
  policy.options.monitor.window = draft.settings.window;
  const std::string where = words.empty() ? "policy" : words.front().where;
  if (draft.settings.published) {
    Result<sim::RunOptions> published =
        sim::AsPublished(*draft.settings.published, std::move(policy.options));
    if (!published) return std::unexpected(base::Wrap(published.error(), where));
    policy.options = *std::move(published);
  }
  if (Result<Unit> valid = core::Validate(policy.options.policy); !valid)
    return std::unexpected(base::Wrap(valid.error(), where));
  return std::move(policy);
}

Result<Unit> ApplyModel(const std::vector<PolicyWord>& words, SimPolicy& policy) {
  for (const PolicyWord& word : words) {
    if (Result<Unit> set = sim::SetModelWord(policy.options, word.key, word.value); !set)
      return base::Wrap(set.error(), word.where);
  }
  return Unit{};
}

}  // namespace carma::cli
