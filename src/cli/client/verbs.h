// The functions that implement the verbs. verbs.cc declares their options.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "cli/calls.h"
#include "cli/command.h"

namespace carma::cli {

// The exit code of `wait --timeout` if the time runs out, as with timeout(1).
inline constexpr int kExitTimeout = 124;

// What "@" means: the caller's last task, or the whole array of that task.
enum class Last { kTask, kArray };
// Returns the numbers of the tasks named by the words, or of "@" if there are no words. Resolving
// "@" requires a call to the daemon.
Result<std::vector<std::uint64_t>> ResolveTasks(Context& context, std::vector<std::string> words,
                                                Last last = Last::kTask);
using Settings = std::vector<std::pair<std::string, std::string>>;
// Returns the settings with "@" and ranges in dependencies replaced by numbers: "afterok:12:13".
Result<Settings> WithTasksResolved(Context& context, Settings settings);
// The caller's user name, or the UID if the user has no name.
std::string OwnUserName();
void Print(const Context& context, std::string_view text);
void Warn(const Context& context, std::string_view text);
// Prints the JSON of the named tasks: as a list if several were named, otherwise unchanged.
void PrintNamed(const Context& context, const std::vector<std::string>& texts, bool several);
// Makes "&after_ms=…&until_ms=…" from --since and --until, omitting empty options. A time is a
// local date such as "2026-03-01", "2026-03-01 14:05" or "2026-03-01T14:05:59", or a span before
// now, such as "2h" or "7d". Returns kInvalid, naming the option, for an invalid time. Propagates
// errors from the call that reads the daemon's clock.
Result<std::string> TimesQuery(Context& context, const std::string& since,
                               const std::string& until);
// Revokes tokens or removes reservations. noun: "Token"; verb: "revoke".
void EndEach(Context& context, const std::vector<std::string>& ids, const std::string& noun,
             const std::string& verb);
// Fetches unfinished tasks in queue order, preceded by running tasks, so that the limit does not
// hide them behind a long queue. Ignores query.states.
Result<TaskPage> FetchQueue(api::Client& client, TaskQuery query);
// Warns if this machine has no such user. An empty name is not checked.
void WarnIfNoUser(const Context& context, const std::string& user);
// "carma 0.1.0 (commit 0123456789ab, Release build by g++ 12.2.0)".
std::string VersionText(const Context& context);
// If the user named a file that is missing or unreadable, changes the error to kInvalid, which
// gives exit code 2. Other errors are unchanged.
base::Error NamedWrongly(base::Error error);
// Reads a FILE named on the command line. Errors from base::ReadFile are converted by
// NamedWrongly().
Result<std::string> ReadNamed(const std::string& path, std::size_t max_bytes);
// Like ReadNamed(), but "-" is standard input.
Result<std::string> ReadInput(const std::string& path, std::size_t max_bytes);
// The name of the input in messages: "standard input" or its path.
std::string InputName(const std::string& path);

struct SubmitFlags {
  // The options of task/describe/options.h that the user set, with their values, in order. The
  // value of a switch is empty.
  Settings settings;
  // `carma run`: the task runs in the caller's terminal.
  struct Here {
    std::string name;       // task::TaskSpec::attach
    bool terminal = false;  // the task gets its own terminal
    bool once = false;      // its input cannot be read again on a retry
  };
  std::optional<Here> here;
  bool check = false;
  bool no_check = false;  // skip the checks in checks.h
  bool lease = false;     // carma lease: this process becomes the command
  bool wait = false;
  bool parsable = false;
  std::string batch;  // file with many tasks ("-" is standard input); empty for a single submission
  bool lines = false;
  std::vector<std::string>
      sbatch;  // options that a task passed to its stand-in for sbatch: "--ntasks=4"
};
// Adds the options of task/describe/options.h, or only those for which `wants` returns true. The
// values are collected in command-line order. shown: true if the help shows the options.
void AddTaskOptions(Syntax verb, bool (*wants)(std::string_view name) = nullptr, bool shown = true);
Settings GivenOptions(Syntax verb);
Result<Unit> RunSubmit(Context& context, const SubmitFlags& flags);
Result<Unit> RunBatch(Context& context, const SubmitFlags& flags);
// True if `carma lease` supports this submit option. Other options are rejected.
bool IsForLease(std::string_view option);
// Waits for GPUs, then replaces this process with the command. Returns only on failure.
Result<Unit> RunLease(Context& context, SubmitFlags flags);
struct EditFlags {
  std::vector<std::string> tasks;
  Settings settings;  // see SubmitFlags
};
// True if edit and redo accept this submit option.
bool IsEditable(std::string_view option);
Result<Unit> RunEdit(Context& context, const EditFlags& flags);
struct RedoFlags : EditFlags {
  bool parsable = false;
  bool cascade = false;  // also resubmit the tasks that depend on these
};
Result<Unit> RunRedo(Context& context, const RedoFlags& flags);

struct ListFlags {
  std::string user;
  std::string states;
  std::string name;
  std::string account;
  std::string qos;
  std::string columns;
  std::size_t limit = 500;
  bool limit_given = false;
  bool all = false;
  bool unfold = false;  // show a row for each task of an array
  bool tree = false;
  bool no_titles = false;
  bool watch = false;
  double interval_s = 2;
};
Result<Unit> RunList(Context& context, const ListFlags& flags);
Result<Unit> RunShow(Context& context, const std::vector<std::string>& tasks);
Result<Unit> RunExplain(Context& context, const std::vector<std::string>& tasks);
struct HistoryFlags {
  std::vector<std::string> tasks;  // empty for all events
  std::optional<std::uint64_t> limit;
};
Result<Unit> RunHistory(Context& context, const HistoryFlags& flags);

struct ChangeFlags {
  std::vector<std::string> tasks;
  bool all = false;  // all tasks of `user`, or of the caller
  std::string user;
  std::string name;    // only tasks with this name
  std::string states;  // only tasks in these states
  // Only tasks of these arrays, each identified by its first task.
  std::vector<std::string> arrays;
};
// verb: "cancel", "hold", "release", "requeue".
Result<Unit> RunChange(Context& context, const std::string& verb, const ChangeFlags& flags);
Result<Unit> RunPriority(Context& context, const std::vector<std::string>& tasks,
                         std::int64_t priority);

struct WaitFlags {
  std::vector<std::string> tasks;
  bool any = false;  // wait only until one task has ended
  std::optional<base::Duration> timeout;
  bool quiet = false;
  bool tell_start = false;  // print on standard error when the (only) task starts
};
Result<Unit> RunWait(Context& context, const WaitFlags& flags);
// Waits for these tasks. exit_code becomes the highest of their exit codes.
void AwaitTasks(Context& context, const std::vector<std::uint64_t>& tasks, const WaitFlags& flags);

struct LogsFlags {
  std::vector<std::string> tasks;
  bool follow = false;
  bool errors = false;
  std::optional<std::int64_t> lines;  // only the last lines
};
Result<Unit> RunLogs(Context& context, const LogsFlags& flags);

struct GpusFlags {
  std::vector<std::string> gpus;  // see SplitGpuNames; empty for all GPUs
  bool verbose = false;
  std::optional<base::Duration> history;  // show this span of time instead of the current state
  std::optional<int> points;
  bool csv = false;
  bool watch = false;
  double interval_s = 2;
};
Result<Unit> RunGpus(Context& context, const GpusFlags& flags);
struct GpuChangeFlags {
  std::vector<std::string> gpus;  // see SplitGpuNames, or "all"
  std::string reason;             // why the GPUs are drained
  std::string by;                 // time by which its tasks must leave, as typed
  bool until_boot = false;        // close the whole server, because its machine will go down
  bool wait = false;              // wait until its tasks have left
};
// Splits comma-separated GPU names and index ranges such as 0-3.
Result<std::vector<std::string>> SplitGpuNames(const std::vector<std::string>& words);
Result<Unit> RunDrain(Context& context, const GpuChangeFlags& flags);
Result<Unit> RunResume(Context& context, const GpuChangeFlags& flags);
struct BackupFlags {
  std::string target;     // a file, or a folder for a new file
  std::string state_dir;  // empty for the daemon's own
  bool force = false;
};
Result<Unit> RunBackup(Context& context, const BackupFlags& flags);
// wait_s: how long to retry until the daemon answers.
Result<Unit> RunStatus(Context& context, double wait_s);

// Shows the result of `render` once, or repeatedly until `render` fails or the user interrupts it.
// When repeating, tolerates a daemon that temporarily does not answer.
Result<Unit> Show(Context& context, bool watch, double interval_s,
                  const std::function<Result<std::string>()>& render);

}  // namespace carma::cli
