// The order for `carma simulate`: a load, a cluster, and policies to compare. Read from flags or an
// experiment file; no simulation here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/settings.h"
#include "lab/sim/simulate.h"

namespace carma::cli {

inline constexpr std::size_t kMaxSimPolicies = 1000;
inline constexpr int kMaxSimRuns = 100'000;
inline constexpr double kMaxSlowdownLimit = 1'000;

// One word of a policy, given at `where` ("--policy 2", "experiment.toml:7").
struct PolicyWord {
  std::string key;    // "sm_cap"
  std::string value;  // "0.8"
  std::string where;
};

// The load, the cluster and the number of runs.
struct SimLoad {
  std::string trace = "demo60";
  std::string workloads;  // empty: built in
  std::string summaries;  // folder of the workloads' model summaries; empty: none
  std::string server = "dgx-station-a100";
  std::string config;  // configuration file that policies start from; empty: the defaults
  std::vector<PolicyWord> model;     // options of the simulated world; later ones win
  std::vector<std::string> reserve;  // reservations per server (sim/reservation_words.h)
  int runs = 1;
  double noise = 0;
  std::uint64_t seed = 1;
  double slowdown_limit = 0;  // for the bound with a slowdown limit; 0: none
};

// Everything as written; the words of policies are not yet checked.
struct Experiment {
  SimLoad load;
  std::vector<PolicyWord> common;                 // for every policy, before its own
  std::vector<std::vector<PolicyWord>> policies;  // none: DefaultPolicies()
};

struct SimPolicy {
  std::string label;
  std::string spec;  // its text: "magm,sm_cap=0.8,estimator=gpumemnet"
  sim::RunOptions options;
};

// "magm,sm_cap=0.8,estimator=gpumemnet": comma-separated words; one without '=' is the mapper.
// Errors: kInvalid.
base::Result<std::vector<PolicyWord>> SplitPolicy(std::string_view spec, const std::string& where);

// Reads an experiment file into `experiment`: keys of the load at the top, [common] words for every
// policy, [run.LABEL] one policy each, [matrix] lists of values, each combination of which is a
// policy. Errors: kInvalid "path:line: …".
base::Result<base::Unit> ReadExperiment(const std::string& path, std::string_view text,
                                        Experiment& experiment);

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

// The command that repeats all runs of these policies, quoted for a shell; and the command for a
// single run of one policy (its last run if history is carried over).
std::string ReproductionLine(const SimLoad& load, std::span<const SimPolicy> policies);
std::string OneRunLine(SimLoad load, const SimPolicy& policy, std::uint64_t seed);

}  // namespace carma::cli
