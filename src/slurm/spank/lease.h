// The plug-in's calls to carmad: a lease for a step of a job (docs/use/leases.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace carma::slurm {

// The values of the options.
struct Wanted {
  int gpus = 1;
  std::optional<std::int64_t> memory_mib;
  bool exclusive = false;
  std::optional<double> sm_share;
  std::string summary;  // path
  std::optional<std::int64_t> batch_size;
  std::optional<std::int64_t> retries;
};

// The step, from Slurm.
struct Step {
  std::string cluster;
  std::uint32_t job = 0;
  std::string name;  // "batch", "interactive" or its number
  std::uint32_t rank = 0;
  std::uint32_t restart = 0;
  std::uint32_t uid = 0, gid = 0;
  std::vector<std::uint32_t> groups;  // supplementary groups of its user
  int keeper = 0;                     // its slurmstepd
  std::string job_name;
  std::vector<std::string> command;
  std::string folder;
};

struct Standing {
  std::int64_t id = 0;  // 0: there is none
  std::string state;    // "waiting", "granted", "adopted", "ended"
  std::string step;     // the requesting step
  std::string reason, reason_text;
  std::vector<std::string> outputs;  // files that its processes write to: "INODE PATH"
  std::string follows;               // after its end: "requeue" while its job is requeued
  std::string trouble;               // why there is none, or it is unknown; one line
  bool away = false;                 // carmad did not answer
  bool gone = false;                 // because its socket has no listener
};

// The body of POST /v1/leases. Pure.
std::string AskText(const Step& step, const Wanted& wanted);

// How the process of a lease ended.
struct Ending {
  int status = 0;  // from wait()
  std::string stderr_tail;
};

// How long a restart of carmad may take, for example for an upgrade.
inline constexpr int kRestartS = 60;

class Carmad {
 public:
  explicit Carmad(std::string socket) : socket_(std::move(socket)) {}
  // Repeats the request for `patience_s` while carmad is away; always for the same lease, even if
  // answers were lost.
  Standing Ask(const Step& step, const Wanted& wanted, int patience_s) const;
  // Whether the script of that job has a lease here; repeats the request like Ask().
  bool HasBase(std::uint32_t job, int patience_s) const;
  // Returns when the lease no longer waits, or after `seconds`.
  Standing Await(std::int64_t id, int seconds) const;
  // Adopts it for the calling process and returns its environment. Empty: `trouble` has the reason.
  std::vector<std::pair<std::string, std::string>> Adopt(std::int64_t id, Standing& standing) const;
  // Reports the end. False: carmad is away; the next one reads the report from a file.
  bool End(std::int64_t id, const Ending& ending) const;
  // Waits until the cause of the end is known and the job, if necessary, has been requeued; at most
  // `seconds`, or kRestartS without a listener. told: the result of End().
  void AwaitVerdict(std::int64_t id, const Ending& ending, bool told, int seconds) const;

 private:
  Standing StandingOf(std::string_view method, const std::string& target, const std::string& body,
                      int seconds) const;
  std::string socket_;
};

}  // namespace carma::slurm
