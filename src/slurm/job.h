// A job as shown by Slurm's squeue. scontrol shows more, but mixed with texts chosen by the owner
// (names, paths), which could imitate the values used here. Only administrators write the comment
// used here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace carma::slurm {

struct Job {
  std::uint64_t id = 0;  // its own, also in an array
  std::string name;      // for scontrol: "4711", "4711_3"
  std::string state;     // "RUNNING", "COMPLETING" …
  std::string reason;    // why it waits
  bool batch = false;    // Slurm has its script, so it can start it again
  bool requeue = false;  // its owner allows that
  int restarts = 0;
  std::int64_t carma_gib = 0;  // requested GPU memory per node; 0: none
  int nodes = 1;
  std::string admin_comment;  // empty: none
  friend bool operator==(const Job&, const Job&) = default;

  bool Waits() const { return state == "PENDING"; }
  // Whether it waits to be released.
  bool Held() const;
  // Whether its processes exist, or their end is not reported yet.
  bool Runs() const;
};

// For -O of `squeue --noheader --array --states=all`.
extern const char* const kJobColumns;
inline constexpr std::size_t kMostOfSqueue = 1 << 20;

// The line of that job; empty: there is none. Errors: kInvalid: a line that is not of that shape.
base::Result<std::optional<Job>> FindJob(std::string_view text, std::uint64_t id);

}  // namespace carma::slurm
