// The description of a task, built from a file, submit options and the submitter.
#pragma once

#include <cstdint>
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

// The submitter, host and working directory.
struct SubmitterContext {
  std::string cwd;   // absolute; empty: it was removed
  std::string home;  // absolute, for "~/"
  std::string user;
  std::map<std::string, std::string> environment;
  base::Time now{};  // for --begin; the daemon's clock
  std::string umask = TaskSpec{}.umask;
};

// A file with settings of a transformer's training. The client reads it, not the daemon.
struct PlanFile {
  enum class Kind { kDeepSpeed, kAdapter };
  Kind kind = Kind::kDeepSpeed;
  std::string path;  // as written; absolute once Finish() was called
};

// Settings as collected, before a context completes them.
struct Draft {
  TaskSpec spec;  // paths as written, relative ones too
  std::optional<bool> exclusive;
  bool gpus_counted = false;     // the number of GPUs was given
  bool type_with_count = false;  // together with the type: "a100:2"
  std::optional<std::string> array;
  std::optional<std::string> wrap;
  std::optional<std::string> begin;
  ExportPlan exported;
  std::string script_path;
  std::optional<RadMemory> rad_memory;
  const RadColumn* rad_column = kRadColumns.data();  // the column to use; null: none
  bool reads_training = true;
  std::optional<SlurmWords> slurm;  // of a script with #SBATCH lines
  std::vector<std::pair<std::string, std::vector<std::string>>> parameters;  // of a sweep
  std::string sweep_file;  // as written; empty: none
  std::optional<MailTypes> mail_types;
  std::string mail_user;  // empty: the task's own
  std::vector<PlanFile> plan_files;
  std::vector<std::string> remarks;  // about the last value; become warnings
};

// Collects the settings of one submission in increasing precedence: first the file (ApplyScript of
// task/describe/script.h, ApplyRad of task/describe/rad.h) or the command, then the options of the
// command line. A later setting replaces an earlier one.
class Description {
 public:
  // option: name or letter of SubmitOptions(); value: empty for a switch; file: the source,
  // "train.sh:3", or empty: the command line. Errors: kInvalid "train.sh:3: --gpus: …" or "--gpus:
  // …" for an unknown option or an invalid value; the description is then unchanged.
  Result<Unit> Set(std::string_view option, std::string_view value, std::string_view file = "");

  // What to run: exactly one of SetCommand, SetScript and --wrap is needed.
  void SetCommand(std::vector<std::string> argv);
  // path: as the user wrote it, for the default name.
  void SetScript(std::string text, std::string path, std::vector<std::string> args);

  // The script is written for Slurm and gets Slurm's variables. A later word replaces an earlier
  // one of the same name.
  void AddSlurm(const SlurmWords& words);
  const std::optional<SlurmWords>& slurm() const { return draft_.slurm; }

  // The task runs in the terminal of `carma run`: TaskSpec::attach and TaskSpec::terminal.
  void SetAttach(std::string name, bool terminal);

  // The memory columns of a .rad file; --rad-estimate picks one unless --memory is given.
  void SetRadMemory(RadMemory memory);

  void Warn(std::string text);
  // Warnings to print on stderr; may grow until Finish().
  const std::vector<std::string>& warnings() const { return warnings_; }
  // "0-9:2%4" as given; Finish() then makes several tasks.
  const std::optional<std::string>& array() const { return draft_.array; }
  // A sweep: values by parameter, and a file with a table of them, or empty. Finish() makes one
  // task of it, which ApplyParameters (task/describe/sweep.h) expands.
  const std::vector<std::pair<std::string, std::vector<std::string>>>& parameters() const {
    return draft_.parameters;
  }
  const std::string& sweep_file() const { return draft_.sweep_file; }
  // For the memory estimate: files named by options, and whether the command and its files may be
  // read.
  const std::vector<PlanFile>& plan_files() const { return draft_.plan_files; }
  bool reads_training() const { return draft_.reads_training; }

  // One task, or one per array index in ascending order: paths absolute, defaults filled in,
  // --export applied, Validate()d. Errors: kInvalid, one line.
  Result<std::vector<TaskSpec>> Finish(const SubmitterContext& context);

 private:
  Draft draft_;
  std::vector<std::string> warnings_;
};

}  // namespace carma::task
