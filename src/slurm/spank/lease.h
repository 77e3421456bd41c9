// What the plug-in asks of carmad: a lease for a step of a job (docs/use/leases.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace carma::slurm {

// As the options say it.
struct Wanted {
  int gpus = 1;
  std::optional<std::int64_t> memory_mib;
  bool exclusive = false;
  std::optional<double> sm_share;
  std::string summary;  // path
  std::optional<std::int64_t> batch_size;
  std::optional<std::int64_t> retries;
};

// The step as Slurm tells of it.
struct Step {
  std::string cluster;
  std::uint32_t job = 0;
  std::string name;  // "batch", "interactive" or its number
  std::uint32_t rank = 0;
  std::uint32_t restart = 0;
  std::uint32_t uid = 0, gid = 0;
  int keeper = 0;  // its slurmstepd
  std::string job_name;
  std::vector<std::string> command;
  std::string folder;
};

struct Standing {
  std::int64_t id = 0;  // 0: there is none
  std::string state;    // "waiting", "granted", "adopted", "ended"
  std::string step;     // for which it was asked
  std::string reason, reason_text;
  std::vector<std::string> outputs;  // files that its processes write to: "INODE PATH"
  std::string follows;               // of one that has ended: "requeue" while its job is put back
  std::string trouble;               // why there is none, or nobody knows; one line
  bool away = false;                 // carmad did not answer
  bool gone = false;                 // because nobody listens at its socket
};

// The body of POST /v1/leases. Pure.
std::string AskText(const Step& step, const Wanted& wanted);

// How the process of a lease ended.
struct Ending {
  int status = 0;  // as wait() tells it
  std::string stderr_tail;
};

// How long a carmad that restarts may take: an upgrade of its package, for example.
inline constexpr int kRestartS = 60;

class Carmad {
 public:
  explicit Carmad(std::string socket) : socket_(std::move(socket)) {}
  // Asks again for so long while carmad is away; the same lease, whatever was lost on the way.
  Standing Ask(const Step& step, const Wanted& wanted, int patience_s) const;
  // Whether the script of that job has a lease here; the same.
  bool HasBase(std::uint32_t job, int patience_s) const;
  // Waits with its answer for so long while the lease waits.
  Standing Await(std::int64_t id, int seconds) const;
  // By the process that calls: what is to be in its environment. Empty: trouble says why.
  std::vector<std::pair<std::string, std::string>> Adopt(std::int64_t id, Standing& standing) const;
  // False: carmad is away; the next one finds it in a file.
  bool End(std::int64_t id, const Ending& ending) const;
  // Until it is known why the task ended and, if its job is to go back into Slurm's queue, that is
  // done; at most so long, or kRestartS while nobody listens. told: what End() has returned.
  void AwaitVerdict(std::int64_t id, const Ending& ending, bool told, int seconds) const;

 private:
  Standing StandingOf(std::string_view method, const std::string& target, const std::string& body,
                      int seconds) const;
  std::string socket_;
};

}  // namespace carma::slurm
