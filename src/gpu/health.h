// What a GPU's errors and condition mean: whose fault an Xid is, and when a GPU should take no more
// tasks. Pure; facts about NVIDIA's Xids with their sources in docs/server/gpus.md.
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
  kContained,  // memory that a program used is bad: it ends, the GPU needs a reset when it is idle
  kDevice,     // the GPU, its memory, its links or its firmware: no more tasks
  kNews,       // something that ended well or is told elsewhere (63, 154 …)
};
struct XidFact {
  XidClass meaning{};
  std::string_view text;  // a few words: "fell off the bus"
};
// A number that is not in the table is the device's: what is not known is not trusted.
XidFact DescribeXid(int xid);

struct HealthRules {
  bool drain = true;                // false: only tell; looked at by who takes what Health says
  bool resume_when_cleared = true;  // false: a person resumes
  std::vector<int> ignored_xids;    // as if they had not been announced
  friend bool operator==(const HealthRules&, const HealthRules&) = default;
};

// The rules for one GPU, reading by reading.
class Health {
 public:
  explicit Health(HealthRules rules) : rules_(std::move(rules)) {}

  // What stands in the way of new tasks after this reading, in one sentence; empty: nothing. Holds
  // from the first evidence until what caused it is gone: an Xid until the driver was reloaded or
  // the GPU was reset (Cleared(), or a reading that shows it: the driver wanted a reset and no
  // longer does, its count of errors began anew), a condition (rows of memory to be remapped,
  // spares used up, a recovery action that the driver asks for, new errors of memory beyond repair)
  // until it is no more told, as far as the rules resume by themselves; else until Acknowledge().
  // A value that is absent says nothing: what was told last holds.
  const std::string& Take(const Reading& reading);
  // A person resumed the GPU: what is known now is no reason any more, what comes later is.
  void Acknowledge();
  // A daemon that was restarted takes over what the earlier one knew: a sentence of Take(). Not
  // after the machine was started anew, which resets every GPU.
  void Restore(std::string why);
  // The GPU was away and came back: Xids of before do not count.
  void Cleared();
  const std::string& why() const { return why_; }
  // These rules from now on; what was concluded by the old ones stands until it is cleared.
  void Follow(HealthRules rules) { rules_ = std::move(rules); }

 private:
  void TakeXids(const std::vector<int>& xids);
  // Keeps what is told; true: it shows that the GPU was reset.
  bool TakeCondition(const Condition& condition);
  // Of the first condition that is neither well nor acknowledged; empty: none.
  std::string ConditionTrouble() const;
  void Conclude();

  HealthRules rules_;
  std::string why_;
  std::string xid_why_;                       // the gravest since the last reset
  bool xid_is_device_ = false;                // of xid_why_: not merely contained
  std::string restored_why_;                  // of a condition, until a condition is told again
  Condition acknowledged_;                    // what a person has seen and resumed in spite of
  std::optional<std::int64_t> ecc_at_start_;  // errors beyond repair that are no reason
  Condition last_;
};

}  // namespace carma::gpu
