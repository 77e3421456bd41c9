// Each line of a scenario file says what happens to the core and how the core must respond. Every
// file runs in two shells: the simulator's (tests/scenario/sim_shell.h) and the daemon's with
// fakes. The tables of verbs in scenario.cc list the whole language:
//
//   gpus 2 x 40000 mib              # further lines add GPUs of other types
//   gpus 3 x 9856 mib mig           # or MIG instances
//   host 8 cpus 64000 mib           # without this line, cores and memory are not counted
//   policy magm margin_mib=1000     # the mapper, then values named as in PolicyConfig
//   limit user=* running=2          # also `weight ada=3`, `class urgent priority=50`
//   at 0s    submit t1 need_mib=12000   expect start t1 gpu=0 claim_mib=12000
//   at 95s   exit t1 oom                expect queue t1 recovery reason=OutOfMemory
//
// Every GPU is sampled once per period (`samples every=1s window=60s`); a sample has the values
// last set by `use` and `started`. Events joined by `;` arrive together. A line that begins with
// `expect` adds expectations to the previous line.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/policy/policy.h"
#include "core/scheduler/events.h"
#include "core/scheduler/scheduler.h"

namespace carma::sim {

struct TimedAction {
  core::Time when{};  // the time of the events that caused the action
  core::Action action;
};

// Drives one core through a scenario and collects the core's actions.
class ScenarioShell {
 public:
  virtual ~ScenarioShell() = default;
  // Builds the core at time 0 with these GPUs and, unless `host` is empty, with this machine.
  // Called once, before any other function.
  virtual base::Result<base::Unit> Open(const core::PolicyConfig& policy,
                                        const std::vector<core::GpuInfo>& gpus,
                                        const core::HostInfo& host) = 0;
  virtual core::Time Now() const = 0;
  // Advances time to `when`, which is never in the past. Along the way, and at `when` itself, the
  // core gets a WakeUp for each WakeAt.
  virtual base::Result<base::Unit> AdvanceTo(core::Time when) = 0;
  // Passes these events to the core at Now(), in one call to Scheduler::HandleAll. The shell must
  // not answer requests for estimates or report starts and exits, because the scenario itself does.
  // Task "t7" has id 7.
  virtual base::Result<base::Unit> Inject(const std::vector<core::Event>& events) = 0;
  // Simulates a daemon restart: a new core gets the GPUs, the machine, every unfinished task as
  // stored (TaskRestored, by id), and the drains.
  virtual base::Result<base::Unit> Restart() = 0;
  // Every action since the last call, in order.
  virtual std::vector<TimedAction> TakeActions() = 0;
  // Gives read-only access to the core.
  virtual const core::Scheduler& scheduler() const = 0;
};

// One verb with its words, such as `submit t1 need_mib=12000`.
struct Clause {
  std::string verb;
  std::vector<std::string> words;
  std::map<std::string, std::string> options;
};

// Describes a machine with this many hardware threads, numbered from 0.
core::HostInfo HostOf(int cpus, std::int64_t memory_mib);

class ClauseReader;
// Applies a line such as `at 5s policy lug margin_mib=500`, which changes only the rules that it
// lists. Invalid values are reported to `in`.
core::PolicyConfig ChangedPolicy(core::PolicyConfig policy, ClauseReader& in, const Clause& clause);

struct ScenarioLine {
  int number = 0;  // line number in the file
  core::Time at{};
  bool continues = false;       // only adds expectations to the previous line
  std::vector<Clause> happens;  // simultaneous events, delivered together
  std::vector<Clause> expects;
};

struct Scenario {
  std::string file;
  core::PolicyConfig policy;
  std::vector<core::GpuInfo> gpus;
  core::HostInfo host;
  base::Duration sample_period{1'000};
  base::Duration window{60'000};
  std::vector<ScenarioLine> lines;  // sorted by time
};

// Returns kInvalid ("file:line: what, expected") if the text is not a valid scenario.
base::Result<Scenario> ParseScenario(std::string_view text, std::string file);

// Plays the scenario and compares the core's actions with the expectations. An unexpected action
// (start, stop, warn, ask, reject) or a contradiction in the core's records also counts as a
// mismatch. Returns kConflict ("file:line: …") for a mismatch, kInvalid for an impossible value, or
// the shell's error.
base::Result<base::Unit> RunScenario(const Scenario& scenario, ScenarioShell& shell);

// Reads, parses and plays one file.
base::Result<base::Unit> RunScenarioFile(const std::string& path, ScenarioShell& shell);

}  // namespace carma::sim
