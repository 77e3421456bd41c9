// The work of the verbs, apart from how their options are spelled (verbs.cc).
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
#include "cli/command.h"
#include "task/describe/options.h"

namespace carma::cli {

// Exit code of `wait --timeout` when the time is over, as timeout(1) has it.
inline constexpr int kExitTimeout = 124;

// Numbers of the tasks that the words name; asks the daemon for "@". No words: `fallback`.
base::Result<std::vector<std::uint64_t>> ResolveTasks(Context& context,
                                                      std::vector<std::string> words,
                                                      const std::string& fallback = "");
// The same settings, with "afterok:@" and ranges in dependencies as numbers: "afterok:12:13".
using Settings = std::vector<std::pair<std::string, std::string>>;
base::Result<Settings> WithTasksResolved(Context& context, Settings settings);
// The caller's user name, or number if it has none.
std::string OwnUserName();
void Print(const Context& context, std::string_view text);
void Warn(const Context& context, std::string_view text);
// "carma 0.1.0 (commit 0123456789ab, Release build by g++ 12.2.0)".
std::string VersionText(const Context& context);
// A file that cannot be found or opened was named wrongly: kInvalid, exit code 2.
base::Error NamedWrongly(base::Error error);
// The text of a FILE on the command line. Errors: as base::ReadFile, but NamedWrongly().
base::Result<std::string> ReadNamed(const std::string& path, std::size_t max_bytes);
// The same, "-" being standard input.
base::Result<std::string> ReadInput(const std::string& path, std::size_t max_bytes);
// What people are told that it is called: "standard input" or the path.
std::string InputName(const std::string& path);

struct SubmitFlags {
  // Options of task/describe/options.h with their values, in the order given; switches have an
  // empty value.
  std::vector<std::pair<std::string, std::string>> settings;
  // `carma run`: the task runs in the caller's terminal.
  struct Here {
    std::string name;       // task::TaskSpec::attach
    bool terminal = false;  // the task gets one of its own
    bool once = false;      // what it reads cannot be read again by a second start
  };
  std::optional<Here> here;
  bool check = false;
  bool no_check = false;  // its program, folder and conda environment need not be there yet
  bool wait = false;
  bool parsable = false;
  std::string batch;  // file of many tasks, "-": standard input; empty: one submission
  bool lines = false;
  std::vector<std::string> sbatch;  // options of sbatch, for its stand-in in tasks: "--ntasks=4"
};
// The options of task/describe/options.h, or those that are wanted by name, and what was given of
// them, in that order.
void AddTaskOptions(Syntax verb, bool (*wants)(std::string_view name) = nullptr);
std::vector<std::pair<std::string, std::string>> GivenOptions(Syntax verb);
void RunSubmit(Context& context, const SubmitFlags& flags);
void RunBatch(Context& context, const SubmitFlags& flags);
// Waits for GPUs, then this process becomes the command: returns only where that failed.
void RunLease(Context& context, const SubmitFlags& flags);
struct EditFlags {
  std::vector<std::string> tasks;
  std::vector<std::pair<std::string, std::string>> settings;  // as SubmitFlags
};
// The options of submit that edit and redo take, by name.
bool IsEditable(std::string_view option);
void RunEdit(Context& context, const EditFlags& flags);
struct RedoFlags : EditFlags {
  bool parsable = false;
  bool cascade = false;  // those that depend on them, too
};
void RunRedo(Context& context, const RedoFlags& flags);

struct ListFlags {
  std::string user;
  std::string states;
  std::string name;
  std::string columns;
  std::size_t limit = 500;
  bool all = false;
  bool unfold = false;  // a row for each task of an array
  bool tree = false;
  bool no_titles = false;
  bool watch = false;
  double interval_s = 2;
};
void RunList(Context& context, const ListFlags& flags);
void RunShow(Context& context, const std::vector<std::string>& tasks);
void RunExplain(Context& context, const std::vector<std::string>& tasks);
struct HistoryFlags {
  std::vector<std::string> tasks;  // none: everything that happened
  std::size_t limit = 100;
};
void RunHistory(Context& context, const HistoryFlags& flags);

struct ChangeFlags {
  std::vector<std::string> tasks;
  bool all = false;  // of `user`, or the caller's own
  std::string user;
  std::string name;    // of those only tasks of this name
  std::string states;  // in these states
  // Of these arrays, by their first tasks.
  std::vector<std::string> arrays;
};
// verb: "cancel", "hold", "release", "requeue".
void RunChange(Context& context, const std::string& verb, const ChangeFlags& flags);
void RunPriority(Context& context, const std::vector<std::string>& tasks, std::int64_t priority);

struct WaitFlags {
  std::vector<std::string> tasks;
  bool any = false;  // only for the first that ends
  std::optional<base::Duration> timeout;
  bool quiet = false;
};
void RunWait(Context& context, const WaitFlags& flags);
// Waits for these tasks; exit_code becomes the highest of theirs.
void AwaitTasks(Context& context, const std::vector<std::uint64_t>& tasks, const WaitFlags& flags);

struct LogsFlags {
  std::vector<std::string> tasks;
  bool follow = false;
  bool errors = false;
  std::optional<std::int64_t> lines;  // only the last ones
};
void RunLogs(Context& context, const LogsFlags& flags);

struct GpusFlags {
  std::vector<std::string> gpus;  // indices, UUIDs, comma-separated lists; none: all
  bool verbose = false;
  std::optional<base::Duration> history;  // over so long, instead of now
  std::optional<int> points;
  bool csv = false;
  bool watch = false;
  double interval_s = 2;
};
void RunGpus(Context& context, const GpusFlags& flags);
struct GpuChangeFlags {
  std::vector<std::string> gpus;  // indices, UUIDs, comma-separated lists, or "all"
  // Of a drain.
  std::string reason;
  std::string by;           // until when its tasks have to leave, as people write it
  bool until_boot = false;  // of the whole server, because its machine goes down
  bool wait = false;        // until they have left
};
// The names of GPUs between commas.
base::Result<std::vector<std::string>> SplitGpuNames(const std::vector<std::string>& words);
void RunDrain(Context& context, const GpuChangeFlags& flags);
void RunResume(Context& context, const GpuChangeFlags& flags);
struct BackupFlags {
  std::string target;     // a file, or a folder to make one in
  std::string state_dir;  // empty: that of the daemon
  bool force = false;
};
void RunBackup(Context& context, const BackupFlags& flags);
// wait_s: keep trying so long until the daemon answers.
void RunStatus(Context& context, double wait_s);

// Shows what `render` gives, once or again and again until it fails or is interrupted.
void Show(Context& context, bool watch, double interval_s,
          const std::function<base::Result<std::string>()>& render);

}  // namespace carma::cli
