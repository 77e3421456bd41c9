// The files through which carmad and carma-shim speak about one attempt. All lie in the attempt's
// folder, which only the daemon's user may list or write:
//
//   order.json    daemon -> shim: what to run. Not synced: without a durable `owner` nothing ran.
//   script        the batch script's text, owned by the task's user, mode 0500
//   owner         who decides about this attempt, created once by link(): the shim that will run
//                 it, or a restarted daemon that abandons it. Durable before the task's first
//                 instruction.
//   started.json  the task's main process; written when its exec has succeeded
//   exit.json     how it ended, or why it could not start; durable. Present: nothing of it runs.
//   *.reserve     blocks set aside at the start for the last two, so that a full disk cannot lose
//                 them
//   shim.log      the shim's own complaints
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/process_id.h"
#include "base/result.h"
#include "base/time.h"
#include "core/task.h"

namespace carma::task {

inline constexpr char kOrderFile[] = "order.json";
inline constexpr char kScriptFile[] = "script";
inline constexpr char kOwnerFile[] = "owner";
inline constexpr char kStartedFile[] = "started.json";
inline constexpr char kExitFile[] = "exit.json";
inline constexpr char kShimLogFile[] = "shim.log";

inline constexpr std::size_t kMaxOrderBytes = 32 << 20;
inline constexpr std::size_t kMaxOwnerBytes = 4096;
inline constexpr std::size_t kStartedReserveBytes = 16'384;
inline constexpr std::size_t kReportReserveBytes = 131'072;  // the tail in base64 is 87'384 of it
inline constexpr std::size_t kStderrTailBytes = 65'536;

// The shim's end of the pipe on which it answers early: one line, the text of started.json, once
// the task runs; a second one, the text of exit.json, only if that file cannot be written.
inline constexpr int kEarlyAnswerFd = 3;
// The shim's exit status when somebody else owns the attempt: nothing was run.
inline constexpr int kShimNotOwner = 3;
// Set for every process of an attempt; tells its leftovers when its shim is gone.
inline constexpr char kAttemptVariable[] = "CARMA_ATTEMPT_DIR";

// What the shim needs of a LaunchOrder.
struct ShimOrder {
  core::TaskId id{};
  int attempt = 1;
  std::string name;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::vector<std::string> command;  // argv; empty: run the folder's script
  std::vector<std::string> script_args;
  std::string workdir;
  std::map<std::string, std::string> environment;
  std::map<std::string, std::string> extra_environment;  // wins over everything
  std::optional<std::string> conda_env;
  std::vector<std::string> gpu_uuids;
  std::optional<std::int64_t> array_index;
  std::string stdout_path;
  std::string stderr_path;            // equal to stdout_path: one file for both
  std::int64_t max_output_bytes = 0;  // 0: unlimited
  int output_rotations = 1;
  base::Duration kill_grace{30'000};
  std::string cgroup_base;  // folder in which the task's group is made; empty: no groups
  std::string cgroup_root;  // mount point of the cgroup v2 tree
  friend bool operator==(const ShimOrder&, const ShimOrder&) = default;
};

struct ShimOwner {
  base::ProcessId process;
  std::string boot_id;
  bool abandoned = false;  // true: a daemon decided that the attempt never runs
  friend bool operator==(const ShimOwner&, const ShimOwner&) = default;
};

struct ShimStarted {
  base::ProcessId process;
  std::string cgroup;  // path below the cgroup root; empty: none
  friend bool operator==(const ShimStarted&, const ShimStarted&) = default;
};

struct ShimReport {
  bool launched = true;    // false: only text and retryable count
  std::string text;        // why it could not start
  bool retryable = false;  // the machine's fault, not the task's
  int exit_code = 0;
  int signal = 0;         // 0: it exited
  bool lost = false;      // the shim was told to end by the system (shutdown), not by carmad
  bool host_oom = false;  // its cgroup counted an oom_kill
  std::string stderr_tail;
  std::int64_t started_ms = 0;  // since the Unix epoch
  std::int64_t ended_ms = 0;
  std::int64_t started_boot_ns = 0;  // CLOCK_BOOTTIME
  std::int64_t ended_boot_ns = 0;
  std::int64_t max_rss_kib = 0;  // largest process
  std::int64_t dropped_output_bytes = 0;
  friend bool operator==(const ShimReport&, const ShimReport&) = default;
};

// One line of JSON each. Texts that are not UTF-8 (the tail apart) are refused by ToText(order):
// JSON could not carry them unchanged.
base::Result<std::string> ToText(const ShimOrder& order);
std::string ToText(const ShimOwner& owner);
std::string ToText(const ShimStarted& started);
std::string ToText(const ShimReport& report);

// Any bytes give a value or kInvalid with the JSON pointer.
base::Result<ShimOrder> ParseShimOrder(std::string_view text);
base::Result<ShimOwner> ParseShimOwner(std::string_view text);
base::Result<ShimStarted> ParseShimStarted(std::string_view text);
base::Result<ShimReport> ParseShimReport(std::string_view text);

std::string EncodeBase64(std::string_view bytes);
std::optional<std::string> DecodeBase64(std::string_view text);

// Makes this process the owner of the attempt, for running or for abandoning it. The link appears
// with its whole content or not at all. Returns false if there is an owner already.
base::Result<bool> ClaimAttempt(const std::string& attempt_dir, bool abandon);
// Makes the claim survive a power failure.
base::Result<base::Unit> SyncClaim(const std::string& attempt_dir);
// True while that very process runs, in this boot of the machine.
bool OwnerLives(const ShimOwner& owner);

// A file whose blocks are taken in advance and which appears under its name only when complete.
class ReservedFile {
 public:
  // Sets `bytes` aside for <dir>/<name>. Errors: the system's, a full disk among them.
  base::Result<base::Unit> Reserve(const std::string& dir, const std::string& name,
                                   std::size_t bytes);
  // Writes the text and gives it its name; may be called again after an error.
  // durable: survives a power failure once this returns.
  base::Result<base::Unit> Commit(std::string_view text, bool durable);

 private:
  std::string dir_;
  std::string name_;
};

}  // namespace carma::task
