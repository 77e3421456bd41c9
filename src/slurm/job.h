// A job as Slurm's squeue tells of it. scontrol would tell more, but among texts that its owner
// chooses (names, paths): one of them could look like what we decide by. The comment here only
// administrators write.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace carma::slurm {

struct Job {
  std::uint64_t id = 0;  // its own, also of an element of an array
  std::string name;      // as scontrol has it: "4711", "4711_3"
  std::string state;     // "RUNNING", "COMPLETING" …
  std::string reason;    // why it waits
  bool batch = false;    // Slurm has its script, so it can start it again
  bool requeue = false;  // its owner allows that
  int restarts = 0;
  std::int64_t carma_gib = 0;  // GPU memory that it asks for on each node; 0: none
  int nodes = 1;
  std::string admin_comment;  // empty: none
  friend bool operator==(const Job&, const Job&) = default;

  bool Waits() const { return state == "PENDING"; }
  // It waits until somebody lets it go.
  bool Held() const;
  // Its processes are there, or their end is not told yet.
  bool Runs() const;
};

// For -O of `squeue --noheader --array --states=all`.
extern const char* const kJobColumns;
inline constexpr std::size_t kMostOfSqueue = 1 << 20;

// The line of that job; empty: there is none. Errors: kInvalid: a line that is not of that shape.
base::Result<std::optional<Job>> FindJob(std::string_view text, std::uint64_t id);

}  // namespace carma::slurm
