// Interprets a GPU's errors and condition: the cause of an Xid, and when a GPU should take no more
// tasks. Pure. docs/server/gpus.md has the facts about NVIDIA's Xids and their sources.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "gpu/probe.h"

namespace carma::gpu {

enum class XidClass {
  kTask,       // a program's fault: 13, 31, 43, 45, 68, 109. It ends; the GPU is intact
  kContained,  // bad memory under a program: it ends; the GPU needs a reset when idle
  kDevice,     // a fault of the GPU, its memory, links or firmware: no more tasks
  kNews,       // harmless, or handled elsewhere (63, 154 …)
};
struct XidFact {
  XidClass meaning{};
  std::string_view text;  // a few words: "fell off the bus"
};
// An unknown number counts as a device fault.
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

  // Returns why the GPU should take no new tasks after this reading, in one sentence; empty if it
  // may. The reason is valid from the first evidence until the cause is gone. An Xid no longer
  // counts once the driver was reloaded or the GPU was reset: after Cleared(), or after a reading
  // that shows the reset (the driver no longer requests a reset, or its error count restarted). A
  // condition (rows to be remapped, no spare rows, a recovery action requested by the driver, new
  // uncorrectable memory errors) no longer counts when it is no longer reported. If the rules do
  // not resume GPUs, the reason is valid until Acknowledge(). If a value is absent, the last one
  // remains valid.
  const std::string& Take(const Reading& reading);
  // An administrator resumed the GPU: earlier evidence no longer counts.
  void Acknowledge();
  // Restores the sentence of Take() after a restart of carmad. Must not be called after a boot,
  // which resets every GPU.
  void Restore(std::string why);
  // The GPU was lost and came back: earlier Xids no longer count.
  void Cleared();
  const std::string& why() const { return why_; }
  // Changes the rules. Earlier verdicts stay until they are cleared.
  void Follow(HealthRules rules) { rules_ = std::move(rules); }

 private:
  void TakeXids(const std::vector<int>& xids);
  // Stores reported values. Returns true if they show that the GPU was reset.
  bool TakeCondition(const Condition& condition);
  // The text of the first bad condition that is not acknowledged; empty if there is none.
  std::string ConditionTrouble() const;
  void Conclude();

  HealthRules rules_;
  std::string why_;
  std::string xid_why_;                       // most serious Xid since the last reset
  bool xid_is_device_ = false;                // xid_why_ is a device fault, not merely contained
  std::string restored_why_;                  // from a restart, until a condition is reported
  Condition acknowledged_;                    // what an administrator has acknowledged
  std::optional<std::int64_t> ecc_at_start_;  // uncorrectable errors that do not count
  Condition last_;
};

}  // namespace carma::gpu
