#include "gpu/health.h"

#include <algorithm>

namespace carma::gpu {
namespace {

struct XidLine {
  int xid;
  XidFact fact;
};

// In ascending numerical order. docs/server/gpus.md lists the sources.
constexpr XidLine kXids[] = {
    {8, {XidClass::kDevice, "the GPU stopped processing"}},
    {13, {XidClass::kTask, "graphics engine exception"}},
    {31, {XidClass::kTask, "GPU memory page fault"}},
    {43, {XidClass::kTask, "a channel was reset after an error"}},
    {45, {XidClass::kTask, "cleaned up after an earlier error"}},
    {46, {XidClass::kDevice, "the GPU stopped processing"}},
    {48, {XidClass::kDevice, "uncorrectable memory error"}},
    {54, {XidClass::kDevice, "auxiliary power is not connected"}},
    {61, {XidClass::kDevice, "an internal controller hit a breakpoint"}},
    {62, {XidClass::kDevice, "an internal controller halted"}},
    {63, {XidClass::kNews, "a memory page or row was retired"}},
    {64, {XidClass::kDevice, "a memory page or row could not be retired"}},
    {68, {XidClass::kTask, "video decoder exception"}},
    {74, {XidClass::kDevice, "NVLink error"}},
    {79, {XidClass::kDevice, "fell off the bus"}},
    {92, {XidClass::kDevice, "many corrected memory errors"}},
    {94, {XidClass::kContained, "contained memory error"}},
    {95, {XidClass::kDevice, "uncontained memory error"}},
    {109, {XidClass::kTask, "a context switch took too long"}},
    {119, {XidClass::kDevice, "the GPU's system processor (GSP) does not respond"}},
    {120, {XidClass::kDevice, "error in the GPU's system processor (GSP)"}},
    {140, {XidClass::kDevice, "unrecovered memory error"}},
    {143, {XidClass::kDevice, "the GPU could not be initialised"}},
    {154, {XidClass::kNews, "the driver requests a different recovery action"}},
};

constexpr std::string_view kXidPrefix = "Xid ";
constexpr std::string_view kEccPrefix = "new uncorrectable memory errors: ";
// Reasons saved by earlier versions begin with this text instead of kEccPrefix.
constexpr std::string_view kOldEccPrefix = "new errors of memory beyond repair: ";

std::string_view RecoveryText(RecoveryAction action) {
  switch (action) {
    case RecoveryAction::kNone:
      return "";
    case RecoveryAction::kGpuReset:
      return "the driver requests a GPU reset";
    case RecoveryAction::kNodeReboot:
      return "the driver requests a machine reboot";
    case RecoveryAction::kDrainP2p:
      return "the driver requests that traffic on the links to other GPUs be stopped";
    case RecoveryAction::kDrainAndReset:
      return "the driver requests that the GPU be drained and reset";
    case RecoveryAction::kOther:
      return "the driver requests a recovery action that this version does not support";
  }
  return "";
}

bool MeansReset(std::optional<RecoveryAction> action) {
  return action == RecoveryAction::kGpuReset || action == RecoveryAction::kNodeReboot ||
         action == RecoveryAction::kDrainAndReset;
}

template <class T>
void KeepTold(const std::optional<T>& told, std::optional<T>& kept) {
  if (told) kept = told;
}

}  // namespace

XidFact DescribeXid(int xid) {
  const auto* const found = std::ranges::lower_bound(kXids, xid, {}, &XidLine::xid);
  if (found != std::end(kXids) && found->xid == xid) return found->fact;
  return {XidClass::kDevice, "unknown to this version"};
}

// The first Xid of the most serious class counts as the cause, and later Xids as its consequences.
void Health::TakeXids(const std::vector<int>& xids) {
  for (const int xid : xids) {
    if (std::ranges::find(rules_.ignored_xids, xid) != rules_.ignored_xids.end()) continue;
    const XidFact fact = DescribeXid(xid);
    const bool device = fact.meaning == XidClass::kDevice;
    if (!device && fact.meaning != XidClass::kContained) continue;
    if (!xid_why_.empty() && (xid_is_device_ || !device)) continue;
    xid_is_device_ = device;
    xid_why_ = std::string(kXidPrefix) + std::to_string(xid) + ": " + std::string(fact.text);
  }
}

bool Health::TakeCondition(const Condition& now) {
  const bool errors_began_anew =
      now.ecc_uncorrected && last_.ecc_uncorrected && *now.ecc_uncorrected < *last_.ecc_uncorrected;
  const bool reset =
      errors_began_anew || (now.recovery == RecoveryAction::kNone && MeansReset(last_.recovery));
  KeepTold(now.ecc_uncorrected, last_.ecc_uncorrected);
  KeepTold(now.remap_pending, last_.remap_pending);
  KeepTold(now.remap_failed, last_.remap_failed);
  KeepTold(now.recovery, last_.recovery);
  if (now != Condition{}) restored_why_.clear();
  if (!ecc_at_start_) ecc_at_start_ = last_.ecc_uncorrected;
  if (errors_began_anew) ecc_at_start_ = 0;
  // If a fault disappears and returns later, an administrator must acknowledge it again.
  if (last_.remap_pending == false) acknowledged_.remap_pending.reset();
  if (last_.remap_failed == false) acknowledged_.remap_failed.reset();
  if (last_.recovery == RecoveryAction::kNone) acknowledged_.recovery.reset();
  return reset;
}

std::string Health::ConditionTrouble() const {
  const std::int64_t errors = last_.ecc_uncorrected.value_or(0) - ecc_at_start_.value_or(0);
  if (errors > 0) return std::string(kEccPrefix) + std::to_string(errors);
  if (last_.remap_failed == true && acknowledged_.remap_failed != true)
    return "no spare memory rows are left";
  if (last_.remap_pending == true && acknowledged_.remap_pending != true)
    return "memory rows will be remapped at the next reset";
  if (last_.recovery && last_.recovery != acknowledged_.recovery)
    return std::string(RecoveryText(*last_.recovery));
  return restored_why_;
}

void Health::Conclude() {
  std::string now = xid_why_.empty() ? ConditionTrouble() : xid_why_;
  if (now.empty() && !why_.empty() && !rules_.resume_when_cleared) return;
  why_ = std::move(now);
}

const std::string& Health::Take(const Reading& reading) {
  const bool reset = TakeCondition(reading.condition);
  if (reset) xid_why_.clear();
  TakeXids(reading.xids);
  Conclude();
  return why_;
}

void Health::Acknowledge() {
  xid_why_.clear();
  restored_why_.clear();
  acknowledged_ = last_;
  ecc_at_start_ = last_.ecc_uncorrected;
  why_.clear();
}

void Health::Restore(std::string why) {
  why_ = std::move(why);
  if (why_.starts_with(kXidPrefix)) {
    xid_why_ = why_;
    xid_is_device_ = true;
    return;
  }
  restored_why_ = why_;
  // After a restart, it is unknown which memory errors are new, so the restored reason holds as
  // long as the driver reports any uncorrectable errors.
  if (why_.starts_with(kEccPrefix) || why_.starts_with(kOldEccPrefix)) ecc_at_start_ = 0;
}

void Health::Cleared() {
  xid_why_.clear();
  Conclude();
}

}  // namespace carma::gpu
