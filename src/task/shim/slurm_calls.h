// `scontrol`, `sbatch` and `scancel` for scripts written for Slurm, inside a task: each becomes a
// call of `carma`. carma-shim puts them and srun first into such a script's PATH.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace carma::task {

// One call of `carma`.
struct CarmaCall {
  std::vector<std::string> words;  // empty: no call
  std::string text;                // printed before
  enum class Show {
    kAsItIs,
    kJob,     // a task's JSON as `scontrol show job` prints it
    kJobLine  // the same with -o
  } show = Show::kAsItIs;
};

// arguments: without the program's name; environment: the task's own, whose array resolves 81_3.
// `show hostnames [LIST]`, `show job [ID]`, requeue, hold, release, and update of TimeLimit,
// JobName and Priority. Errors: kInvalid, one line.
Result<CarmaCall> PlanScontrol(const std::vector<std::string>& arguments,
                               const std::map<std::string, std::string>& environment);
// scancel: tasks are selected by number, --me, --name, --state. Errors: kInvalid, one line.
Result<CarmaCall> PlanScancel(const std::vector<std::string>& arguments,
                              const std::map<std::string, std::string>& environment);

struct SbatchCall {
  std::vector<std::string> words;
  bool parsable = false;  // only the number
};
// `carma submit` with the same options. If it submits the task's own script ($0), the task's name
// is kept.
Result<SbatchCall> PlanSbatch(const std::vector<std::string>& arguments,
                              const std::map<std::string, std::string>& environment);

// "n[1-3,7],login" -> n1 n2 n3 n7 login; numbers keep their zeros. Errors: kInvalid; more than
// 65536 hosts.
Result<std::vector<std::string>> ExpandHosts(std::string_view list);

// The text of `scontrol show job`, from `carma show --json`. Errors: kInvalid: no task.
Result<std::string> JobText(std::string_view task_json, bool one_line);

// These run the `carma` in this program's folder, print, and return the exit code.
int RunScontrol(const std::vector<std::string>& arguments,
                const std::map<std::string, std::string>& environment);
int RunScancel(const std::vector<std::string>& arguments,
               const std::map<std::string, std::string>& environment);
int RunSbatch(const std::vector<std::string>& arguments,
              const std::map<std::string, std::string>& environment);

}  // namespace carma::task
