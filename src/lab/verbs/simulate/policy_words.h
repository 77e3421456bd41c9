// Parses simulated policies, as written on the command line of `carma simulate` or in an experiment
// file, into run options.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "config/settings.h"
#include "lab/sim/simulate.h"

namespace carma::cli {

// One policy keyword. `where` is its source: "--policy 2" or "experiment.toml:7".
struct PolicyWord {
  std::string key;    // "sm_cap"
  std::string value;  // "0.8"
  std::string where;
};

struct SimPolicy {
  std::string label;
  std::string spec;  // the keywords as text: "magm,sm_cap=0.8,estimator=gpumemnet"
  sim::RunOptions options;
};

// Splits a comma-separated policy such as "magm,sm_cap=0.8,estimator=gpumemnet". A keyword without
// '=' names the mapper. A list of several items is in parentheses: "weights=(ada=2, bob=3)".
// Returns kInvalid if a keyword is malformed.
Result<std::vector<PolicyWord>> SplitPolicy(std::string_view spec, const std::string& where);

// The policies compared by default: exclusive use, and the configured rules under each sharing
// method in `methods`. exclusive: true if the configured mapper is `exclusive`; the mapper `auto`
// then replaces it under the sharing methods.
std::vector<std::vector<PolicyWord>> DefaultPolicies(const std::vector<std::string>& methods,
                                                     bool exclusive);

// The policy keywords that are not configuration keys, for help and documentation. (A policy may
// also contain configuration keys, with or without their section.)
struct PolicyWordInfo {
  std::string_view name;
  std::string_view type;
  std::string_view meaning;
};
std::vector<PolicyWordInfo> PolicyWords();

// Builds a policy from `base` (a configuration file, or the defaults) by applying the keywords in
// order; later ones win. Returns kInvalid "where: key: expected …" for an invalid keyword.
Result<SimPolicy> MakePolicy(const config::Settings& base, const std::vector<PolicyWord>& words);

// Applies the --model keywords to the policy (sim::ModelWords). Returns kInvalid "where: …" for an
// invalid keyword.
Result<Unit> ApplyModel(const std::vector<PolicyWord>& words, SimPolicy& policy);

// The kInvalid error "where: key: expected …, not 'value'".
std::unexpected<base::Error> Unexpected(const PolicyWord& word, std::string_view expected);

// The keywords in effect, in order of first use. A later keyword replaces an earlier one with the
// same key.
std::vector<std::pair<std::string, std::string>> LastOf(const std::vector<PolicyWord>& words);

}  // namespace carma::cli
