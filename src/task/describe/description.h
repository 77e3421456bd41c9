// Builds a task description from a file, submit options and facts about the submitter.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "task/describe/option_values.h"
#include "task/describe/rad.h"
#include "task/describe/slurm.h"
#include "task/describe/spec.h"

namespace carma::task {

// Facts about the submitter that are needed to complete a description.
struct SubmitterContext {
  std::string cwd;   // absolute; empty: the folder was removed
  std::string home;  // absolute, for "~/"
  std::string user;
  std::map<std::string, std::string> environment;
  base::Time now{};  // for --begin, by the daemon's clock
  std::string umask = TaskSpec{}.umask;
};

// A file with settings for training a transformer. It is read by the client, never by the daemon.
struct PlanFile {
  enum class Kind { kDeepSpeed, kAdapter };
  Kind kind = Kind::kDeepSpeed;
  std::string path;  // as written; absolute after Finish()
};

// The settings collected so far, before Finish() fills in the rest.
struct Draft {
  TaskSpec spec;  // paths are as written, so they may be relative
  std::optional<bool> exclusive;
  bool gpus_counted = false;     // a GPU count was set
  bool type_with_count = false;  // the GPU type was given with the count: "a100:2"
  std::optional<std::string> array;
  std::optional<std::string> wrap;
  std::optional<std::string> begin;
  ExportPlan exported;
  std::string script_path;
  std::optional<RadMemory> rad_memory;
  const RadColumn* rad_column = kRadColumns.data();  // column to use; null: none
  bool reads_training = true;
  std::optional<SlurmWords> slurm;  // set for a script with #SBATCH lines
  // Sweep values by parameter.
  std::vector<std::pair<std::string, std::vector<std::string>>> parameters;
  std::string sweep_file;  // as written; empty: none
  std::optional<MailTypes> mail_types;
  std::string mail_user;  // empty: the task's own user
  std::vector<PlanFile> plan_files;
  std::vector<std::string> remarks;  // about the value being stored; Set() makes them warnings
};

// Collects the settings of one submission: first those of a script (ApplyScript), a .rad file
// (ApplyRad) or a command, then the options on the command line. A later setting replaces an
// earlier one.
class Description {
 public:
  // option: name or letter in SubmitOptions(). value: empty for a switch. file: where the option
  // was read, such as "train.sh:3"; empty for the command line. For an unknown option or an invalid
  // value, returns kInvalid "train.sh:3: --gpus: …" or "--gpus: …" and leaves the description
  // unchanged.
  Result<Unit> Set(std::string_view option, std::string_view value, std::string_view file = "");

  // Sets what to run. Exactly one of SetCommand, SetScript and the option --wrap must be used.
  void SetCommand(std::vector<std::string> argv);
  // path: as typed by the user; the default name is derived from it.
  void SetScript(std::string text, std::string path, std::vector<std::string> args);

  // Marks the script as written for Slurm, so that the task gets Slurm's environment variables. A
  // later option replaces an earlier option of the same name.
  void AddSlurm(const SlurmWords& words);
  const std::optional<SlurmWords>& slurm() const { return draft_.slurm; }

  // Lets the task run in the terminal of `carma run` (TaskSpec::attach and TaskSpec::terminal).
  void SetAttach(std::string name, bool terminal);

  // Sets the memory columns of a .rad file. --rad-estimate picks one of them unless --memory is
  // given.
  void SetRadMemory(RadMemory memory);

  void Warn(std::string text);
  // Warnings to print on stderr. The list may grow until Finish() returns.
  const std::vector<std::string>& warnings() const { return warnings_; }
  // The value of --array, such as "0-9:2%4". If it is set, Finish() makes several tasks.
  const std::optional<std::string>& array() const { return draft_.array; }
  // The sweep's values by parameter and, optionally, a file with a table of values. Finish()
  // returns a single task, which ApplyParameters (task/describe/sweep.h) expands.
  const std::vector<std::pair<std::string, std::vector<std::string>>>& parameters() const {
    return draft_.parameters;
  }
  const std::string& sweep_file() const { return draft_.sweep_file; }
  // What the memory estimate may read: the files given with options, and, if reads_training() is
  // true, the command and its files.
  const std::vector<PlanFile>& plan_files() const { return draft_.plan_files; }
  bool reads_training() const { return draft_.reads_training; }

  // Returns one task, or one per array index (ascending), or kInvalid with a one-line message.
  // Paths are absolute, defaults are filled in, --export is applied, and Validate() has passed.
  Result<std::vector<TaskSpec>> Finish(const SubmitterContext& context);

 private:
  Draft draft_;
  std::vector<std::string> warnings_;
};

}  // namespace carma::task
