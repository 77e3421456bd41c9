// A permanently running `dcgmi dmon`: the first answer of a new one is often empty, so it is not
// started for each reading.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "base/unique_fd.h"
#include "gpu/dmon_parser.h"

namespace carma::gpu {

struct DmonOptions {
  std::string program = "dcgmi";         // in $PATH, or a path; run without a shell
  base::Duration period{1'000};          // between two rows of a GPU
  base::Duration silence{10'000};        // without output for this long it hangs, and is ended
  base::Duration first_pause{1'000};     // before a restart; doubles while it fails …
  base::Duration longest_pause{60'000};  // … up to this
};

// Used by one thread. Times are passed in and must not go back; they are real, not simulated, time.
class DmonReader {
 public:
  explicit DmonReader(DmonOptions options) : options_(std::move(options)) {}
  // Ends the child and waits for it, at most a second (one that hangs in the driver is left
  // behind).
  ~DmonReader();
  DmonReader(const DmonReader&) = delete;
  DmonReader& operator=(const DmonReader&) = delete;

  // Starts or restarts the child when due, reads its output, ends it when it hangs. Never blocks.
  // Call it at least once per period: older output has no time and is discarded.
  void Poll(base::Time now);
  // Waits until there is output, at most for `longest` of real time.
  void Wait(std::chrono::milliseconds longest) const;

  // The newest row of this GPU, not older than three periods; null: none. Rows without PCI address
  // are matched by number: DCGM counts GPUs in the order of the bus.
  const DmonRow* Find(const std::string& pci_key, std::size_t index, base::Time now) const;
  // Why there are no rows, in one line; empty while rows come or may still come.
  const std::string& trouble() const { return trouble_; }
  bool running() const { return child_ > 0; }

 private:
  struct Kept {
    DmonRow row;
    base::Time taken;
  };
  void Start(base::Time now);
  void Stop(base::Time now, const std::string& why);
  void Reap();
  // False: the child has closed its end.
  bool ReadAll(base::Time now, bool keep);
  void Keep(const std::vector<DmonRow>& rows, base::Time now);
  base::Duration FreshFor() const { return 3 * options_.period; }

  DmonOptions options_;
  DmonParser parser_;
  pid_t child_ = 0;
  std::vector<pid_t> ended_;  // killed, not yet reaped
  base::UniqueFd output_;
  base::Time last_poll_{};
  base::Time last_row_{};  // or when the child was started
  base::Time next_start_{};
  base::Duration pause_{0};  // 0: nothing has failed yet
  bool gave_rows_ = false;   // the present child
  std::map<std::string, Kept> by_pci_;
  std::map<int, Kept> by_number_;  // of rows without address
  std::string trouble_;
};

}  // namespace carma::gpu
