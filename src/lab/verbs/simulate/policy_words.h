// A simulated policy: the words by which `carma simulate` is asked for it, and the options of the
// run that they make.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "config/settings.h"
#include "lab/sim/simulate.h"

namespace carma::cli {

// One word of a policy, given at `where` ("--policy 2", "experiment.toml:7").
struct PolicyWord {
  std::string key;    // "sm_cap"
  std::string value;  // "0.8"
  std::string where;
};

struct SimPolicy {
  std::string label;
  std::string spec;  // its text: "magm,sm_cap=0.8,estimator=gpumemnet"
  sim::RunOptions options;
};

// "magm,sm_cap=0.8,estimator=gpumemnet": comma-separated words; one without '=' is the mapper.
// Errors: kInvalid.
base::Result<std::vector<PolicyWord>> SplitPolicy(std::string_view spec, const std::string& where);

// Exclusive use, and the configured rules under each of these sharing methods, given as words.
std::vector<std::vector<PolicyWord>> DefaultPolicies(const std::vector<std::string>& methods);

// The words of a policy besides the configuration keys (written with or without their section), for
// help and documentation.
struct PolicyWordInfo {
  std::string_view name;
  std::string_view type;
  std::string_view meaning;
};
std::vector<PolicyWordInfo> PolicyWords();

// A policy that starts from `base` (a configuration file, or the defaults) and applies the words in
// order, later ones winning. Errors: kInvalid "where: key: expected …".
base::Result<SimPolicy> MakePolicy(const config::Settings& base,
                                   const std::vector<PolicyWord>& words);

// Applies words of the simulated world to the policy (sim::ModelWords). Errors: kInvalid "where:
// …".
base::Result<base::Unit> ApplyModel(const std::vector<PolicyWord>& words, SimPolicy& policy);

// "where: key: expected …, not 'value'", kInvalid.
std::unexpected<base::Error> Unexpected(const PolicyWord& word, std::string_view expected);

// The valid words in order of their first use: a later word replaces an earlier one.
std::vector<std::pair<std::string, std::string>> LastOf(const std::vector<PolicyWord>& words);

// Sets a number written as a word; false, and nothing changes: none from low to high.
bool SetNumber(double& target, const std::string& value, double low, double high);
bool SetWhole(int& target, const std::string& value, int low, int high);

}  // namespace carma::cli
