// A task as described by its user through options, a script with directives, or a .rad file.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "base/signal_name.h"
#include "base/text.h"
#include "core/values/ids.h"
#include "core/values/task_request.h"
#include "task/describe/container.h"
#include "task/describe/lease.h"
#include "task/describe/notify.h"
#include "task/describe/training.h"

namespace carma::task {

// Limits on descriptions, enforced wherever a description is read.
inline constexpr std::size_t kMaxNameBytes = 256;
inline constexpr std::size_t kMaxPathBytes = 4096;
inline constexpr std::size_t kMaxArgBytes = 131'072;      // for one argument or variable
inline constexpr std::size_t kMaxCommandBytes = 1 << 20;  // total for all arguments
inline constexpr std::size_t kMaxArgs = 10'000;
inline constexpr std::size_t kMaxScriptBytes = 4 << 20;
inline constexpr std::int64_t kMaxBatchSize = 1'000'000'000;
// Maximum number of tasks in one --array.
inline constexpr std::size_t kMaxArrayTasks = 10'000;
inline constexpr std::size_t kMaxParameters = 32;  // parameters in one sweep
inline constexpr std::size_t kMaxMounts = 64;
// The default max_slowdown of a task submitted with --serve. It admits light neighbours under MPS
// but few with streams: on an H100, a neighbour that was still loading slowed short steps by 8 and
// 21 % under MPS, and by 17 to 50 % with streams (docs/evidence/simulator.md).
inline constexpr double kServeSlowdown = 1.25;

// Rules for text fields.
bool HasNoNul(std::string_view text);
bool IsWord(std::string_view text);  // 1 to 64 letters, digits, and "_-+."
bool IsAbsolutePath(std::string_view text);
bool IsUmask(std::string_view text);       // "077", "0022"
bool IsAttachName(std::string_view text);  // 32 hexadecimal digits
inline constexpr base::FieldRule kOneLine{.max_bytes = kMaxPathBytes,
                                          .fits = base::IsOneLine,
                                          .expected = "one line of at most 4096 bytes of UTF-8"};
inline constexpr base::FieldRule kOneWord{.max_bytes = 64, .fits = IsWord, .expected = "one word"};
inline constexpr base::FieldRule kPath{
    .max_bytes = kMaxPathBytes,
    .fits = IsAbsolutePath,
    .expected = "an absolute path of at most 4096 bytes of UTF-8 without control characters"};
inline constexpr base::FieldRule kUmask{
    .max_bytes = 4, .fits = IsUmask, .expected = "three octal digits such as 022"};

// The core's request, plus fields that the core does not need. Users cannot set the request's uid
// or array.
struct TaskSpec : core::TaskRequest {
  std::string name;
  std::vector<std::string> command;
  std::optional<std::string> script;
  std::vector<std::string> script_args;
  std::optional<std::string> script_path;
  std::string workdir;
  std::map<std::string, std::string> environment;
  std::optional<std::string> conda_env;
  std::optional<std::string> container;       // parsed by ParseContainer
  std::vector<std::string> container_mounts;  // parsed by ParseMount
  std::string memory_source = "given";        // "given", "rad" …
  std::optional<std::string> model_summary;
  std::optional<std::int64_t> batch_size;
  std::optional<std::string> optimizer;
  std::optional<std::string> precision;
  std::vector<TrainingWord> training;
  std::string stdout_path;
  std::string stderr_path;
  std::string umask = "022";  // octal, as umask(1) prints it
  std::optional<std::int64_t> array_index;
  bool slurm = false;                             // the script was written for Slurm
  std::map<std::string, std::string> parameters;  // the task's values in a sweep
  std::vector<NotifyRule> notify;
  bool append_output = false;  // append to existing output files
  bool no_progress = false;    // do not read progress from the task's output
  bool serve = false;          // latency-sensitive
  // The signal to send before the time limit (see signal_before), such as "USR1".
  std::optional<std::string> signal;
  bool signal_main = false;  // send the signal to the main process only
  std::optional<std::string> attach;
  bool terminal = false;
  std::optional<std::string> comment;
  std::optional<std::string> lease;      // set by the daemon: a LeaseProcess (lease.h)
  std::optional<std::string> lease_key;  // a LeaseKey
  std::optional<int> lease_retries;

  // The fields in JSON, as in the body of POST /v1/tasks.
  static void VisitFields(auto& field, auto& task) {
    field("name", task.name, "Name shown in lists; default: base name of the script or command.",
          {.max_bytes = kMaxNameBytes,
           .fits = [](std::string_view name) { return !name.empty() && base::IsOneLine(name); },
           .expected = "1 to 256 bytes of UTF-8 without control characters"});
    field("command", task.command, "argv, run without a shell; absent when there is a script.",
          {.max_bytes = kMaxArgBytes, .max_items = kMaxArgs, .unless_empty = true});
    field("script", task.script,
          "Batch script text; its first line must be #! and the interpreter's path.",
          {.max_bytes = kMaxScriptBytes});
    field("script_path", task.script_path,
          "Absolute path that the script was read from; for display only, never opened.",
          {.max_bytes = kMaxPathBytes});
    field("script_args", task.script_args, "Script arguments.",
          {.max_bytes = kMaxArgBytes, .max_items = kMaxArgs, .unless_empty = true});
    field("workdir", task.workdir, "Absolute working directory.", kPath);
    field("environment", task.environment,
          "Task environment: the variables that the submitter exports.", {.unless_empty = true});
    field("conda_env", task.conda_env,
          "Conda environment to activate (PATH and CONDA_* variables): name or absolute path.",
          {.max_bytes = kMaxPathBytes});
    field("container", task.container,
          "Container image in which the command runs: [podman:|docker:|apptainer:]IMAGE.",
          {.max_bytes = kMaxPathBytes,
           .fits = base::Parses<ParseContainer>,
           .expected = "an image such as pytorch/pytorch:latest or /images/train.sif"});
    field("container_mounts", task.container_mounts,
          "Additional folders in the container, as absolute paths: SOURCE[:DESTINATION][:ro].",
          {.max_bytes = kMaxPathBytes,
           .max_items = kMaxMounts,
           .fits = base::Parses<ParseMount>,
           .unless_empty = true,
           .expected = "SOURCE[:DESTINATION][:ro] with absolute paths"});
    field("stdout_path", task.stdout_path,
          "Absolute path of the standard output file; %j task id, %x name, %u user, %A first task "
          "of the array, %a index, %3a index zero-padded to 3 digits, %N host, %% percent. "
          "Default: carma-%j-%B.out in the working directory.",
          kPath);
    field("stderr_path", task.stderr_path,
          "Absolute path of the standard error file; same file as standard output if empty.",
          {.max_bytes = kMaxPathBytes,
           .fits = [](std::string_view path) { return path.empty() || IsAbsolutePath(path); },
           .expected = kPath.expected});
    field("umask", task.umask,
          "The task's umask, which also applies to its output files; octal digits.", kUmask);
    field("comment", task.comment, "A one-line note.", kOneLine);
    core::TaskRequest::VisitFields(field, task);
    field("memory_source", task.memory_source, "Source of memory_mib.", kOneWord);
    field(
        "model_summary", task.model_summary,
        "Absolute path of the model-summary file, or of a Hugging Face transformer's config.json.",
        kPath);
    field("batch_size", task.batch_size, "Training batch size.", {.low = 1, .high = kMaxBatchSize});
    field("optimizer", task.optimizer,
          "Training optimizer, one word: sgd, sgd-momentum, adam, adamw …", kOneWord);
    field("precision", task.precision,
          "Number format used in training, one word: fp32, amp, bf16 …", kOneWord);
    field("training", task.training,
          "Training settings of a transformer, for the memory estimate. If a name occurs twice, "
          "the later value is used.",
          {.max_items = kMaxTrainingWords, .unless_empty = true});
    field("array_index", task.array_index, "Index of this task in its array.",
          {.low = 0, .high = core::kMaxArrayIndex});
    field("slurm", task.slurm,
          "The script was written for Slurm, so it gets the environment variables that Slurm sets.",
          {.unless_empty = true});
    field("parameters", task.parameters,
          "The task's sweep values by parameter name: exported as CARMA_PARAM_NAME, and "
          "substituted for {NAME} in its command, name and output files.",
          {.max_items = kMaxParameters, .unless_empty = true});
    field("notify", task.notify, "Notifications: targets and events.",
          {.max_items = kMaxNotifyRules, .unless_empty = true});
    field("append_output", task.append_output,
          "Append to existing output files instead of emptying them.", {.unless_empty = true});
    field("no_progress", task.no_progress, "Do not read the task's progress from its output.",
          {.unless_empty = true});
    field(
        "serve", task.serve,
        "Latency-sensitive task: under MPS its kernels run before those of its user's other tasks "
        "(client priority), and max_slowdown defaults to 1.25.",
        {.unless_empty = true});
    field("signal", task.signal,
          "Name of the signal sent signal_before_s seconds before the time limit: USR1, INT …",
          {.max_bytes = 16, .fits = base::IsSignalName, .expected = "a signal name such as USR1"});
    field("signal_main", task.signal_main,
          "Send the signal only to the main process (a script's shell). By default, it goes to all "
          "processes except a script's shell.",
          {.unless_empty = true});
    field(
        "attach", task.attach,
        "Name under which carma run waits for the task. The task's input comes from carma run; its "
        "output goes to carma run and to its files. Not for arrays.",
        {.max_bytes = 32, .fits = IsAttachName, .expected = "32 hexadecimal digits"});
    field("terminal", task.terminal, "Give the task its own terminal; requires attach.",
          {.unless_empty = true});
    field(
        "lease", task.lease,
        "Process for which the lease holds GPUs; set by POST /v1/leases, rejected in submissions.",
        {.max_bytes = 128,
         .fits = base::Parses<ParseLeaseProcess>,
         .expected = "pid, start ticks and boot"});
    field("lease_key", task.lease_key,
          "Cluster, job, step, rank and restart of a workload manager's lease; set by "
          "POST /v1/leases.",
          {.max_bytes = 200,
           .fits = base::Parses<ParseLeaseKey>,
           .expected = "cluster, job, step, rank, restart"});
    field("lease_retries", task.lease_retries,
          "Maximum restarts of a lease's job after it runs out of GPU memory.",
          {.low = 0, .high = core::kMaxRecoveries});
  }
  friend bool operator==(const TaskSpec&, const TaskSpec&) = default;
};

// Sets name and stdout_path, if empty, from the command and the working directory. Also sets the
// default max_slowdown of a task with serve.
void FillDefaults(TaskSpec& spec);
// The name of a command: its program, or the script passed to an interpreter or launcher. "python3
// -u train.py" and "torchrun --nproc-per-node 2 train.py" give train.py, "python3 -m pkg.train"
// gives pkg.train.
std::string NameOfCommand(const std::vector<std::string>& command);
// The command as lists and notices show it: argv, or the script's path and arguments. A script from
// stdin is shown by its name. A line for /bin/sh (--wrap) becomes {"sh", "-c", its first line}.
std::vector<std::string> ShownCommand(const TaskSpec& spec);
// Returns true for a valid sweep parameter name: letters, digits and _, not beginning with a digit.
bool IsParameterName(std::string_view text);

// Convert the umask between a number and its text in a description.
mode_t UmaskOf(const TaskSpec& spec);
std::string UmaskText(mode_t bits);

// Checks a description against all rules: limits, ranges, UTF-8 names, absolute paths, no NUL
// bytes. Returns kInvalid "field: expected …" if it breaks one.
Result<Unit> Validate(const TaskSpec& spec);

// Returns the part of the description that the scheduler core needs, as a request by this user.
core::TaskRequest ToRequest(const TaskSpec& spec, std::uint32_t uid, std::string user = {});

// Returns one JSON object, as in the body of POST /v1/tasks and in the store. Omits optional fields
// that are not set, and fields marked unless_empty that are 0 or empty.
std::string ToJsonText(const TaskSpec& spec);
// Writes JSON equivalent to that of ToJsonText(), but reuses the environment's text if the next
// task has the same environment, as is usual in a large batch. The environment makes up most of a
// description.
class SpecWriter {
 public:
  std::string Text(const TaskSpec& spec);

 private:
  std::map<std::string, std::string> environment_;
  std::string environment_text_;  // environment_ as JSON
};
// Parses a description and runs Validate(). Unknown fields are errors. Returns kInvalid with a JSON
// pointer on failure. common: values for fields missing from the text.
Result<TaskSpec> SpecFromJsonText(std::string_view text, const TaskSpec& common = {});

// Values of the placeholders in a task's file names.
struct PathWords {
  core::TaskId id{};
  core::TaskId array{};  // first task of its array, or the task itself
  std::string user;
  std::string host;   // short host name
  std::string books;  // as returned by BooksWord
  int rank = 0;       // number of this copy, if the task runs several
};
// Six letters and digits that identify a carmad's database in file names. id: from store::BooksId.
// Empty if the id is not a hexadecimal number.
std::string BooksWord(std::string_view id);
// Replaces patterns such as "%j" in an output path, as sbatch does: %j %J task, %A array, %a index
// (0 outside an array), %x name, %u user, %N host, %t copy, %n 0, %s "batch", %B the database of
// the task's carmad (BooksWord); "%3a" zero-pads the index to 3 digits. A '/' in name or user
// becomes '_'. Unknown letters are left unchanged.
std::string ExpandPath(const std::string& pattern, const TaskSpec& spec, const PathWords& words);
// Returns true if all tasks of an array would write to the same file.
bool IsOnePathForAll(std::string_view pattern);

}  // namespace carma::task
