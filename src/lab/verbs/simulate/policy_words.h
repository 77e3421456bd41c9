// A simulated policy: how it is written on the command line of `carma simulate` or in an experiment
// file, and the run options that this produces.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "config/settings.h"
#include "lab/sim/simulate.h"

namespace carma::cli {

// One word of a policy. `where` is its source: "--policy 2" or "experiment.toml:7".
struct PolicyWord {
  std::string key;    // "sm_cap"
  std::string value;  // "0.8"
  std::string where;
};

struct SimPolicy {
  std::string label;
  std::string spec;  // the words as text: "magm,sm_cap=0.8,estimator=gpumemnet"
  sim::RunOptions options;
};

// Splits comma-separated words such as "magm,sm_cap=0.8,estimator=gpumemnet"; a word without '=' is
// the mapper. A list of several items is in parentheses: "weights=(ada=2, bob=3)". Returns kInvalid
// if a word is malformed.
Result<std::vector<PolicyWord>> SplitPolicy(std::string_view spec, const std::string& where);

// The policies that are compared by default: exclusive use, and the configured rules under each
// sharing method in `methods`. exclusive: whether the configured mapper is `exclusive`; if so, the
// rules are those of `auto`.
std::vector<std::vector<PolicyWord>> DefaultPolicies(const std::vector<std::string>& methods,
                                                     bool exclusive);

// The words of a policy that are not configuration keys, for help and documentation. (A policy may
// also use configuration keys, with or without their section.)
struct PolicyWordInfo {
  std::string_view name;
  std::string_view type;
  std::string_view meaning;
};
std::vector<PolicyWordInfo> PolicyWords();

// Makes a policy that starts from `base` (a configuration file, or the defaults) and applies the
// words in order; later words win. Returns kInvalid "where: key: expected …" for an invalid word.
Result<SimPolicy> MakePolicy(const config::Settings& base, const std::vector<PolicyWord>& words);

// Applies --model words to the policy (sim::ModelWords). Returns kInvalid "where: …" for a bad
// word.
Result<Unit> ApplyModel(const std::vector<PolicyWord>& words, SimPolicy& policy);

// The kInvalid error "where: key: expected …, not 'value'".
std::unexpected<base::Error> Unexpected(const PolicyWord& word, std::string_view expected);

// The words in effect, in order of first use. A later word replaces an earlier word with the same
// key.
std::vector<std::pair<std::string, std::string>> LastOf(const std::vector<PolicyWord>& words);

}  // namespace carma::cli
