// What a GPU's errors and condition mean: whose fault an Xid is, and when a GPU should take no more
// tasks. Pure; facts about NVIDIA's Xids with their sources in docs/gpus.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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
  bool drain = true;                 // false: only tell
  bool resume_when_cleared = true;   // false: a person resumes
  std::vector<int> ignored_xids;     // as if they had not been announced
  friend bool operator==(const HealthRules&, const HealthRules&) = default;
};

// The rules for one GPU, reading by reading.
class Health {
 public:
  explicit Health(HealthRules rules) : rules_(std::move(rules)) {}

  // What stands in the way of new tasks after this reading, in one sentence; empty: nothing. Holds
  // from the first evidence until what caused it is gone: an Xid until the driver was reloaded or
  // the GPU was reset (Cleared()), a condition (rows of memory to be remapped, spares used up, a
  // recovery action that the driver asks for, new errors of memory beyond repair) until it is no
  // more told, as far as the rules resume by themselves; else until Acknowledge().
  const std::string& Take(const Reading& reading);
  // A person resumed the GPU: what is known now is no reason any more, what comes later is.
  void Acknowledge();
  // A daemon that was restarted takes over what the earlier one knew.
  void Restore(std::string why) { why_ = std::move(why); }
  // The GPU was away and came back: Xids of before do not count.
  void Cleared();
  const std::string& why() const { return why_; }

 private:
  std::string ConditionTrouble(const Condition& condition) const;

  HealthRules rules_;
  std::string why_;
  bool by_xid_ = false;            // `why_` is an Xid's
  Condition acknowledged_;         // what a person has seen and resumed in spite of
  std::optional<std::int64_t> ecc_at_start_;  // errors beyond repair before we looked
  Condition last_;
};

}  // namespace carma::gpu
