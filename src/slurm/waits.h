// What Slurm's own commands show of jobs that wait on their node for GPUs: their AdminComment.
// Pure.
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

// Such a comment may be replaced by the next; a person's, and what is said of retries, stays.
bool IsOfWaits(std::string_view admin_comment);

// Tells jobs that have waited for so long, each once a minute at most and where there is
// something new; and when they wait no more.
class WaitComments {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  struct Comment {
    std::uint64_t job = 0;
    std::string text;
    friend bool operator==(const Comment&, const Comment&) = default;
  };
  WaitComments(std::string node, std::chrono::milliseconds quiet)
      : node_(std::move(node)), quiet_(quiet) {}
  // All that wait now. The one that is due and was told longest ago; empty: none is.
  std::optional<Comment> Next(Moment now, std::span<const WaitingJob> waiting);

 private:
  struct Known {
    Moment since, told;
    std::string text;  // empty: nothing was told
    bool waits = true;
  };
  const std::string node_;
  const std::chrono::milliseconds quiet_;
  std::map<std::uint64_t, Known> known_;
};

}  // namespace carma::slurm
