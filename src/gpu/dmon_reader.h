// Keeps one `dcgmi dmon` running, because a new process often prints empty rows at first.
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
  base::Duration period{1'000};          // time between two rows of a GPU
  base::Duration silence{10'000};        // killed as hung after this time without output
  base::Duration first_pause{1'000};     // delay before a restart; doubled after each failure
  base::Duration longest_pause{60'000};  // maximum delay before a restart
};

// For use from a single thread. The time that the caller passes in must be real, not simulated, and
// must not go backwards.
class DmonReader {
 public:
  explicit DmonReader(DmonOptions options) : options_(std::move(options)) {}
  // Kills the child and waits at most a second for it to exit. A child that hangs in the driver is
  // abandoned.
  ~DmonReader();
  DmonReader(const DmonReader&) = delete;
  DmonReader& operator=(const DmonReader&) = delete;

  // Starts or restarts the child when due, reads its output, and kills it if it hangs. If DCGM
  // refuses the list of fields, starts another child that requests fewer. Never blocks. Must be
  // called at least once per period. After a pause of more than three periods, the output is
  // discarded, because the age of its rows is unknown.
  void Poll(base::Time now);
  // Waits up to `longest` (real time) for output.
  void Wait(std::chrono::milliseconds longest) const;

  // The newest row of this GPU. Null if no row arrived in the last three periods. Rows without a
  // PCI address are matched by number, because DCGM numbers GPUs in PCI order.
  const DmonRow* Find(const std::string& pci_key, std::size_t index, base::Time now) const;
  // Why there are no rows, in one line. Empty while rows arrive or may still arrive.
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
  // Shortens the list of fields if DCGM has refused it. Returns false if there is no shorter one.
  bool RequestFewer();
  // Returns false once the child has closed its output.
  bool ReadAll(base::Time now, bool keep);
  void Keep(const std::vector<DmonRow>& rows, base::Time now);
  base::Duration FreshFor() const { return 3 * options_.period; }

  DmonOptions options_;
  DmonFields fields_ = DmonFields::kAll;
  DmonParser parser_;
  pid_t child_ = 0;
  std::vector<pid_t> ended_;  // killed, not yet reaped
  base::UniqueFd output_;
  base::Time last_poll_{};
  base::Time last_row_{};  // time of the last row, or the child's start
  base::Time next_start_{};
  base::Duration pause_{0};  // 0: nothing has failed yet
  bool gave_rows_ = false;   // whether the current child has printed rows
  std::map<std::string, Kept> by_pci_;
  std::map<int, Kept> by_number_;  // rows without PCI address
  std::string trouble_;
};

}  // namespace carma::gpu
