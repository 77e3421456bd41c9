// Judges a GPU's errors and condition: who causes an Xid, and when a GPU should take no more tasks.
// Pure; docs/server/gpus.md has the facts about NVIDIA's Xids and their sources.
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
  kTask,       // the fault of a program: 13, 31, 43, 45, 68, 109. It ends, the GPU is whole
  kContained,  // memory used by a program is bad: it ends, the GPU needs a reset when idle
  kDevice,     // the GPU, its memory, its links or its firmware: no more tasks
  kNews,       // harmless, or judged elsewhere (63, 154 …)
};
struct XidFact {
  XidClass meaning{};
  std::string_view text;  // a few words: "fell off the bus"
};
// An unknown number counts as a device fault.
XidFact DescribeXid(int xid);

struct HealthRules {
  bool drain = true;                // false: report only; checked by the caller
  bool resume_when_cleared = true;  // false: only an administrator resumes
  std::vector<int> ignored_xids;    // ignored
  friend bool operator==(const HealthRules&, const HealthRules&) = default;
};

// The health rules for one GPU, applied reading by reading.
class Health {
 public:
  explicit Health(HealthRules rules) : rules_(std::move(rules)) {}

  // Why the GPU should take no new tasks after this reading, in one sentence; empty: it may. Valid
  // from the first evidence until the cause is gone: an Xid until the driver was reloaded or the
  // GPU was reset (Cleared(), or a reading that shows it: the driver no longer requests a reset, or
  // its error count restarted); a condition (rows to be remapped, no spare rows, a recovery action
  // requested by the driver, new uncorrectable memory errors) until it is no longer reported.
  // Unless the rules resume by themselves: until Acknowledge(). If a value is absent, the last one
  // remains valid.
  const std::string& Take(const Reading& reading);
  // An administrator resumed the GPU: present evidence no longer counts, later evidence does.
  void Acknowledge();
  // Restores the sentence of Take() after a restart of carmad. Not to be called after a boot, which
  // resets every GPU.
  void Restore(std::string why);
  // The GPU was lost and came back: earlier Xids no longer count.
  void Cleared();
  const std::string& why() const { return why_; }
  // Uses these rules from now on; earlier verdicts stay until they are cleared.
  void Follow(HealthRules rules) { rules_ = std::move(rules); }

 private:
  void TakeXids(const std::vector<int>& xids);
  // Stores reported values; true: they show that the GPU was reset.
  bool TakeCondition(const Condition& condition);
  // The text of the first bad condition that is not acknowledged; empty: none.
  std::string ConditionTrouble() const;
  void Conclude();

  HealthRules rules_;
  std::string why_;
  std::string xid_why_;                       // the most serious since the last reset
  bool xid_is_device_ = false;                // of xid_why_: not merely contained
  std::string restored_why_;                  // from a condition, until one is reported again
  Condition acknowledged_;                    // acknowledged by an administrator
  std::optional<std::int64_t> ecc_at_start_;  // uncorrectable errors that do not count
  Condition last_;
};

}  // namespace carma::gpu
