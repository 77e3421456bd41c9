#include "lab/verbs/simulate/experiment.h"

#include <fmt/format.h>

#include <optional>

#include "base/text.h"
#include "base/try.h"
#include "cli/shell_quote.h"
#include "config/keys.h"
#include "config/toml_text.h"
#include "lab/sim/model_words.h"

namespace carma::cli {
namespace {

Result<Unit> ReadLoadKey(const config::Entry& entry, const std::string& where, SimLoad& load) {
  const auto expected = [&](std::string_view what) {
    return Unexpected({entry.name, entry.text, where}, what);
  };
  const auto number = [&](auto& target, auto low, auto high) -> Result<Unit> {
    if (sim::Set(target, entry.text, low, high)) return Unit{};
    return expected(fmt::format("a number from {} to {}", low, high));
  };
  for (const auto& [name, value] : kSimTexts) {
    if (entry.name != name) continue;
    if (entry.form != config::kText || entry.text.empty()) return expected("text in quotes");
    load.*value = entry.text;
    return Unit{};
  }
  if (entry.name == "reserve") {
    if (entry.items.empty()) return expected("a list of strings");
    load.reserve = entry.items;
    return Unit{};
  }
  if (entry.name == "runs") return number(load.runs, 1, kMaxSimRuns);
  if (entry.name == "noise") return number(load.noise, 0, 1);
  if (entry.name == "slowdown_limit") return number(load.slowdown_limit, 1, kMaxSlowdownLimit);
  if (entry.name == "seed") {
    const std::optional<std::int64_t> seed = base::ParseInt(entry.text);
    if (!seed || *seed < 0) return expected("a whole number, 0 or more");
    load.seed = static_cast<std::uint64_t>(*seed);
    return Unit{};
  }
  return Invalid(
      "{}: unknown key '{}'; expected trace, workloads, summaries, server, config, runs, noise, "
      "seed, slowdown_limit, reserve, [model], [common], [run.NAME] or [matrix]",
      where, base::Printable(entry.name, 80));
}

// The key without its first `depth` parts: "monitor.window" for [run.x.monitor] window.
std::string KeyBelow(const config::Entry& entry, std::size_t depth) {
  return base::Join({entry.path.begin() + static_cast<std::ptrdiff_t>(depth), entry.path.end()},
                    ".");
}

Result<std::vector<std::vector<PolicyWord>>> Combinations(
    const std::vector<std::vector<PolicyWord>>& axes, const std::string& path) {
  std::vector<std::vector<PolicyWord>> all{{}};
  for (const std::vector<PolicyWord>& axis : axes) {
    if (all.size() * axis.size() > kMaxSimPolicies)
      return Invalid("{}: [matrix] produces more than {} policies", path, kMaxSimPolicies);
    std::vector<std::vector<PolicyWord>> longer;
    for (const std::vector<PolicyWord>& words : all) {
      for (const PolicyWord& word : axis) {
        longer.push_back(words);
        longer.back().push_back(word);
      }
    }
    all = std::move(longer);
  }
  return all;
}

// The policy's keywords, followed by label=… if the label can be written as a keyword.
std::string WordsOf(const SimPolicy& policy) {
  if (policy.label.empty() || policy.label == policy.spec) return policy.spec;
  for (const std::string& label : {policy.label, "(" + policy.label + ")"}) {
    std::string text = policy.spec + ",label=" + label;
    const auto words = SplitPolicy(text, "");
    if (words && words->back().key == "label" && words->back().value == policy.label) return text;
  }
  return policy.spec;
}

}  // namespace

Result<Unit> ReadExperiment(const std::string& path, std::string_view text,
                            Experiment& experiment) {
  const std::vector<config::Entry> entries = CARMA_TRY(config::ParseToml(path, text));
  std::vector<std::vector<PolicyWord>> axes;
  std::string open;  // label of the [run] section that is being read
  for (const config::Entry& entry : entries) {
    const std::string where = fmt::format("{}:{}", path, entry.line);
    const std::string& section = entry.path.front();
    if (section == "run" && entry.path.size() == 2 && entry.form != 0)
      return Unexpected({entry.name, entry.text, where}, "a section such as [run.magm]");
    if (section == "common" && entry.path.size() > 1) {
      experiment.common.push_back({KeyBelow(entry, 1), entry.text, where});
    } else if (section == "model" && entry.path.size() > 1) {
      experiment.load.model.push_back({KeyBelow(entry, 1), entry.text, where});
    } else if (section == "run" && entry.path.size() > 1) {
      if (experiment.policies.empty() || open != entry.path[1]) {
        open = entry.path[1];
        experiment.policies.push_back({{"label", open, where}});
      }
      if (entry.path.size() > 2)
        experiment.policies.back().push_back({KeyBelow(entry, 2), entry.text, where});
    } else if (section == "matrix" && entry.path.size() > 1) {
      std::vector<PolicyWord>& axis = axes.emplace_back();
      for (const std::string& item : entry.items) axis.push_back({KeyBelow(entry, 1), item, where});
      if (axis.empty()) return Unexpected({entry.name, entry.text, where}, "a list of values");
    } else if (Result<Unit> read = ReadLoadKey(entry, where, experiment.load); !read) {
      return read;
    }
    if (experiment.policies.size() > kMaxSimPolicies)
      return Invalid("{}: more than {} policies", where, kMaxSimPolicies);
  }
  if (axes.empty()) return Unit{};
  auto combined = CARMA_TRY(Combinations(axes, path));
  for (std::vector<PolicyWord>& words : combined) experiment.policies.push_back(std::move(words));
  return Unit{};
}

std::string ReproductionLine(const SimLoad& load, std::span<const SimPolicy> policies) {
  std::string line = "carma simulate";
  const auto add = [&](std::string_view option, const std::string& value) {
    if (!value.empty()) line += fmt::format(" --{} {}", option, ShellQuote(value));
  };
  for (const auto& [name, value] : kSimTexts) add(name, load.*value);
  std::string model;
  for (const auto& [key, value] : LastOf(load.model))
    model += (model.empty() ? "" : ",") + key + "=" + value;
  add("model", model);
  for (const std::string& each : load.reserve) add("reserve", each);
  for (const SimPolicy& policy : policies) add("policy", WordsOf(policy));
  line += fmt::format(" --runs {} --noise {} --seed {}", load.runs, load.noise, load.seed);
  if (load.slowdown_limit > 0) line += fmt::format(" --slowdown-limit {}", load.slowdown_limit);
  return line;
}

std::string OneRunLine(SimLoad load, const SimPolicy& policy, std::uint64_t seed) {
  if (policy.options.estimates.carries) {
    load.runs = static_cast<int>(seed - load.seed) + 1;
  } else {
    load.runs = 1;
    load.seed = seed;
  }
  return ReproductionLine(load, {&policy, 1});
}

}  // namespace carma::cli
