// Composes the AdminComment of jobs that wait on their node for GPUs; Slurm's commands show it to
// users. Performs no I/O.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace carma::slurm {

struct WaitingJob {
  std::uint64_t job = 0;
  std::string why;  // one line
};

// Returns the job's comment without CARMA's part about waiting, which follows any part about
// retries.
std::string_view WithoutWait(std::string_view admin_comment);
// Returns the job's comment with `wait` as its part about waiting. Empty if a person wrote the
// comment, which must then stay unchanged.
std::optional<std::string> WithWait(std::string_view admin_comment, std::string_view wait);
// Returns true if the comment says that the job is still waiting. node: only if it waits on this
// node.
bool IsWaiting(std::string_view admin_comment, std::string_view node = {});

// Comments contain this placeholder instead of the node's Slurm name.
inline constexpr std::string_view kNodePlace = "%n";
std::string WithNodeName(std::string text, std::string_view node);

// Sets a job's comment once the job has waited for a while, then updates it at most once a minute
// if the text has changed. Once the job stops waiting, replaces the comment with the total waiting
// time. A job that already waits at the beginning may have a comment from before a restart.
class WaitComments {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  struct Comment {
    std::uint64_t job = 0;
    std::string text;  // contains kNodePlace
    bool waits = true;
    bool only_if_waiting = false;  // to be set only if the present comment says that the job waits
    friend bool operator==(const Comment&, const Comment&) = default;
  };
  explicit WaitComments(std::chrono::milliseconds quiet) : quiet_(quiet) {}
  // Returns the least recently updated comment that is due, or nothing. waiting: all jobs that are
  // waiting now.
  std::optional<Comment> Next(Moment now, std::span<const WaitingJob> waiting);
  // Stops updating the job's comment.
  void Forget(std::uint64_t job);

 private:
  struct Known {
    Moment since, told;
    std::string text;    // empty: no comment
    bool early = false;  // already waited at the beginning
    bool waits = true;
    bool forgotten = false;
  };
  const std::chrono::milliseconds quiet_;
  std::optional<Moment> begun_;
  std::map<std::uint64_t, Known> known_;
};

}  // namespace carma::slurm
