// The plan of `carma simulate`: a load, a cluster, and policies to compare. The plan comes from
// flags or an experiment file and can be printed as a command that repeats the runs. Nothing is
// simulated here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lab/verbs/simulate/policy_words.h"

namespace carma::cli {

inline constexpr std::size_t kMaxSimPolicies = 1000;
inline constexpr int kMaxSimRuns = 100'000;
inline constexpr double kMaxSlowdownLimit = 1'000;

struct SimLoad {
  std::string trace = "demo60";
  std::string workloads;  // empty: the built-in catalogue
  std::string summaries;  // folder of the workloads' model summaries; empty: none
  std::string server = "dgx-station-a100";
  std::string config;  // base configuration file for every policy; empty: the defaults
  // Options of the simulation; a later value replaces an earlier one.
  std::vector<PolicyWord> model;
  std::vector<std::string> reserve;  // reservations per server (sim/reservation_words.h)
  int runs = 1;
  double noise = 0;
  std::uint64_t seed = 1;
  double slowdown_limit = 0;  // for the bound with a slowdown limit; 0: no such bound
};

// A string member of SimLoad. ReproductionLine() prints these members in the order of kSimTexts.
struct SimText {
  std::string_view name;  // the key in an experiment file and, after "--", the option
  std::string SimLoad::*value;
};
inline constexpr SimText kSimTexts[] = {{"trace", &SimLoad::trace},
                                        {"workloads", &SimLoad::workloads},
                                        {"summaries", &SimLoad::summaries},
                                        {"server", &SimLoad::server},
                                        {"config", &SimLoad::config}};

// An experiment whose policy keywords have not been checked yet.
struct Experiment {
  SimLoad load;
  std::vector<PolicyWord> common;  // for every policy, applied before its own keywords
  std::vector<std::vector<PolicyWord>> policies;  // empty: DefaultPolicies()
};

// Reads an experiment file into `experiment`. Load keys are at the top level. [common] has keywords
// for every policy. Each [run.LABEL] is one policy. [matrix] has lists of values, and every
// combination of values is a policy. Returns kInvalid "path:line: …" for an invalid file.
Result<Unit> ReadExperiment(const std::string& path, std::string_view text, Experiment& experiment);

// The command that repeats all runs of these policies, quoted for a shell.
std::string ReproductionLine(const SimLoad& load, std::span<const SimPolicy> policies);
// The command that repeats the run with this seed. If history is carried over between runs, the
// command also repeats the earlier runs.
std::string OneRunLine(SimLoad load, const SimPolicy& policy, std::uint64_t seed);

}  // namespace carma::cli
