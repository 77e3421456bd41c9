// `scontrol`, `sbatch` and `scancel` inside a task, for scripts written for Slurm. Each becomes an
// invocation of `carma`. carma-shim puts them and srun first in the PATH of such scripts.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace carma::task {

struct CarmaCall {
  std::vector<std::string> words;  // its arguments; empty: nothing is run
  std::string text;                // printed before it is run
  enum class Show {
    kAsItIs,
    kJob,     // a task's JSON as `scontrol show job` prints it
    kJobLine  // kJob with -o, on one line
  } show = Show::kAsItIs;
};

// arguments: without the program's name. environment: the task's variables, which determine the
// array that a number such as 81_3 refers to. Supports `show hostnames [LIST]`, `show job [ID]`,
// requeue, hold, release, and updates of TimeLimit, JobName and Priority; returns kInvalid with a
// one-line message for anything else.
Result<CarmaCall> PlanScontrol(const std::vector<std::string>& arguments,
                               const std::map<std::string, std::string>& environment);
// Selects tasks by number, --me, --name or --state. Returns the same errors as PlanScontrol.
Result<CarmaCall> PlanScancel(const std::vector<std::string>& arguments,
                              const std::map<std::string, std::string>& environment);

struct SbatchCall {
  std::vector<std::string> words;
  bool parsable = false;  // print only the number
};
// Builds the `carma submit` call with the same options. If a task submits its own script ($0), the
// new task gets the submitting task's name.
Result<SbatchCall> PlanSbatch(const std::vector<std::string>& arguments,
                              const std::map<std::string, std::string>& environment);

// Expands "n[1-3,7],login" to n1 n2 n3 n7 login; numbers keep their leading zeros. Returns kInvalid
// for a malformed list or more than 65536 hosts.
Result<std::vector<std::string>> ExpandHosts(std::string_view list);

// Formats the output of `carma show --json` as `scontrol show job` does. Returns kInvalid if the
// JSON does not describe a task.
Result<std::string> JobText(std::string_view task_json, bool one_line);

// Each runs the `carma` of the same installation, prints the result, and returns the exit code.
int RunScontrol(const std::vector<std::string>& arguments,
                const std::map<std::string, std::string>& environment);
int RunScancel(const std::vector<std::string>& arguments,
               const std::map<std::string, std::string>& environment);
int RunSbatch(const std::vector<std::string>& arguments,
              const std::map<std::string, std::string>& environment);

}  // namespace carma::task
