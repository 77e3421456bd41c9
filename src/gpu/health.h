// Interprets a GPU's errors and condition: what caused an Xid, and when the GPU should not accept
// any more tasks. Does no I/O. docs/server/gpus.md describes NVIDIA's Xids and the sources.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/probe.h"

namespace carma::gpu {

enum class XidClass {
  kTask,       // a program's fault: 13, 31, 43, 45, 68, 109. The program exits; the GPU is intact
  kContained,  // bad memory used by a program, which exits; the GPU needs a reset when idle
  kDevice,     // a fault in the GPU, its memory, links or firmware: no more tasks
  kNews,       // harmless, or handled elsewhere (63, 154 …)
};
struct XidFact {
  XidClass meaning{};
  std::string_view text;  // a few words: "fell off the bus"
};
// An unknown number is treated as a device fault.
XidFact DescribeXid(int xid);

struct HealthRules {
  bool drain = true;                // false: only report; the caller checks this
  bool resume_when_cleared = true;  // false: only an administrator resumes the GPU
  std::vector<int> ignored_xids;
  friend bool operator==(const HealthRules&, const HealthRules&) = default;
};

// Applies the health rules to the readings of one GPU.
class Health {
 public:
  explicit Health(HealthRules rules) : rules_(std::move(rules)) {}

  // Returns why the GPU should not accept new tasks after this reading, in one sentence. Empty if
  // it may accept tasks.
  //
  // An Xid counts until Cleared(), or until a reading shows that the driver was reloaded or the GPU
  // was reset: the driver no longer requests a reset, or its error count has restarted. A condition
  // (rows to be remapped, no spare rows, a recovery action requested by the driver, or new
  // uncorrectable memory errors) counts until it is no longer reported. A missing value means that
  // the last value remains valid. If the rules do not resume GPUs, the reason remains until
  // Acknowledge().
  const std::string& Take(const Reading& reading);
  // Call this when an administrator resumes the GPU. Earlier evidence no longer counts.
  void Acknowledge();
  // Restores the reason that Take() returned before carmad restarted. Must not be called after a
  // reboot, which resets every GPU.
  void Restore(std::string why);
  // Call this when a lost GPU has come back. Earlier Xids no longer count.
  void Cleared();
  const std::string& why() const { return why_; }
  // Changes the rules. Earlier verdicts remain until they are cleared.
  void Follow(HealthRules rules) { rules_ = std::move(rules); }

 private:
  void TakeXids(const std::vector<int>& xids);
  // Stores reported values. Returns true if they show that the GPU was reset.
  bool TakeCondition(const Condition& condition);
  // The text of the first bad condition that has not been acknowledged. Empty if there is none.
  std::string ConditionTrouble() const;
  void Conclude();

  HealthRules rules_;
  std::string why_;
  std::string xid_why_;         // most serious Xid since the last reset
  bool xid_is_device_ = false;  // xid_why_ is a device fault rather than a contained error
  std::string restored_why_;    // restored after a restart; valid until a condition is reported
  Condition acknowledged_;      // acknowledged by an administrator
  std::optional<std::int64_t> ecc_at_start_;  // uncorrectable errors that do not count
  Condition last_;
};

}  // namespace carma::gpu
