// The plug-in's calls to carmad to lease GPUs for a step of a job (docs/use/leases.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace carma::slurm {

// The plug-in's option values.
struct Wanted {
  int gpus = 1;
  std::optional<std::int64_t> memory_mib;
  bool exclusive = false;
  std::optional<double> sm_share;
  std::string summary;  // path
  std::optional<std::int64_t> batch_size;
  std::optional<std::int64_t> retries;
};

// The step as Slurm describes it.
struct Step {
  std::string cluster;
  std::uint32_t job = 0;
  std::string name;  // "batch", "interactive" or its number
  std::uint32_t rank = 0;
  std::uint32_t restart = 0;
  std::uint32_t uid = 0, gid = 0;
  std::vector<std::uint32_t> groups;  // the user's supplementary groups
  int keeper = 0;                     // process id of its slurmstepd
  std::string job_name;
  std::vector<std::string> command;
  std::string folder;
};

struct Standing {
  std::int64_t id = 0;  // 0: no lease
  std::string state;    // "waiting", "granted", "adopted", "ended"
  std::string step;     // the requesting step
  std::string reason, reason_text;
  std::vector<std::string> outputs;  // files its processes write to: "INODE PATH"
  std::string follows;               // after the lease's end: "requeue" while its job is requeued
  std::string trouble;               // why there is no lease or its state is unknown; one line
  bool away = false;                 // carmad did not respond
  bool gone = false;                 // carmad is away because nothing listens on its socket
};

// Builds the body of POST /v1/leases.
std::string AskText(const Step& step, const Wanted& wanted);

// A warning if the calling process may not read the model summary; otherwise an empty string.
std::string SummaryWarning(const Wanted& wanted);

// How a lease's process exited.
struct Ending {
  int status = 0;  // from wait()
  std::string stderr_tail;
};

// How long a carmad restart may take, for example for an upgrade.
inline constexpr int kRestartS = 60;

class Carmad {
 public:
  explicit Carmad(std::string socket) : socket_(std::move(socket)) {}
  // Retries for up to `patience_s` while carmad does not respond. All retries refer to the same
  // lease, even if a response was lost.
  Standing Ask(const Step& step, const Wanted& wanted, int patience_s) const;
  // Returns true if the job's script has a lease on this node. Retries like Ask().
  bool HasBase(std::uint32_t job, int patience_s) const;
  // Returns once the lease is no longer waiting, or after `seconds`.
  Standing Await(std::int64_t id, int seconds) const;
  // Adopts the lease for the calling process and returns its environment variables. If the result
  // is empty, standing.trouble has the reason.
  std::vector<std::pair<std::string, std::string>> Adopt(std::int64_t id, Standing& standing) const;
  // Reports how the lease's process exited. If carmad does not respond, leaves the report in a file
  // that carmad reads after its restart, and returns false.
  bool End(std::int64_t id, const Ending& ending) const;
  // Waits until carmad has determined why the process exited and has finished any requeue of the
  // job. Waits up to kRestartS for a carmad that does not listen, and `seconds` once it does. told:
  // whether the earlier End() succeeded; if not, sends the report again.
  void AwaitVerdict(std::int64_t id, const Ending& ending, bool told, int seconds) const;

 private:
  Standing StandingOf(std::string_view method, const std::string& target, const std::string& body,
                      int seconds) const;
  std::string socket_;
};

}  // namespace carma::slurm
