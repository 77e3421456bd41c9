// The AdminComment of jobs that wait on their node for GPUs, shown by Slurm's commands. Pure.
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

// Whether the comment is about waiting and may be replaced. Comments by people or about retries
// stay.
bool IsOfWaits(std::string_view admin_comment);

// Placeholder for the node's Slurm name in a comment.
inline constexpr std::string_view kNodePlace = "%n";
std::string WithNodeName(std::string text, std::string_view node);

// Sets the comment of a job that has waited long enough, at most once a minute and only if the text
// changes. Removes it when the job no longer waits.
class WaitComments {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  struct Comment {
    std::uint64_t job = 0;
    std::string text;  // contains kNodePlace
    bool waits = true;
    friend bool operator==(const Comment&, const Comment&) = default;
  };
  explicit WaitComments(std::chrono::milliseconds quiet) : quiet_(quiet) {}
  // waiting: all jobs that wait now. Returns the due comment with the oldest update, or nothing.
  std::optional<Comment> Next(Moment now, std::span<const WaitingJob> waiting);
  // Stops commenting on the job.
  void Forget(std::uint64_t job);

 private:
  struct Known {
    Moment since, told;
    std::string text;  // empty: no comment
    bool waits = true;
    bool forgotten = false;
  };
  const std::chrono::milliseconds quiet_;
  std::map<std::uint64_t, Known> known_;
};

}  // namespace carma::slurm
