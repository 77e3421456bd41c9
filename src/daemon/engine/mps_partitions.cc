#include "daemon/engine/mps_partitions.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/try.h"

namespace carma::daemon {

using task::MpsControl;

namespace {

constexpr const char* kOnlyLimited =
    "Its share of the SMs is only a limit, because its MPS server runs without SM partitions.";
constexpr const char* kNeedsShare =
    "its user's MPS server on this GPU has SM partitions, but the task has no --sm-share "
    "(collocation.sm_partitions)";

}  // namespace

Result<MpsLook> MpsPartitions::Join(const MpsControl& control, const Key& who, double share,
                                    Deadline deadline) {
  MpsLook looked = CARMA_TRY(Look(control, share, deadline));
  Result<MpsPlace> place = Give(control, who, share, deadline);
  // If no client uses the server, it can be restarted without partitions.
  if (!place && place.error().code == ErrorCode::kUnavailable && looked.clients == 0) {
    if (!work_) {
      base::LogWarn("mps_no_partitions",
                    {{"gpu", control.id().gpus}, {"why", place.error().message}});
    }
    control.Quit(deadline);
    looked = CARMA_TRY(Look(control, share, deadline));
    place = Give(control, who, share, deadline);
  }
  looked.place = CARMA_TRY(std::move(place));
  return looked;
}

Result<MpsLook> MpsPartitions::Look(const MpsControl& control, double share, Deadline deadline) {
  const task::MpsServer server = CARMA_TRY(control.Ready(deadline, share > 0 && work_));
  if (!server.clients) return std::unexpected(server.clients.error());
  return MpsLook{server, server.clients->size()};
}

Result<MpsPlace> MpsPartitions::Give(const MpsControl& control, const Key& who, double share,
                                     Deadline deadline) {
  if (!control.DividesSms()) return MpsPlace{.note = share > 0 ? kOnlyLimited : ""};
  if (share <= 0)
    return Fail(owned_.empty() ? ErrorCode::kUnavailable : ErrorCode::kConflict, kNeedsShare);
  RemoveUnowned(control, deadline);
  const Result<task::MpsPartition> added = control.AddPartition(share, deadline);
  if (!added) {
    const bool none = added.error().code == ErrorCode::kUnavailable && owned_.empty();
    if (none) work_ = false;
    return Fail(none ? ErrorCode::kUnavailable : ErrorCode::kConflict, added.error().message);
  }
  owned_[who] = added->id;
  return MpsPlace{.partition = control.id().gpus + "/" + added->id, .sms = added->sms};
}

void MpsPartitions::Adopt(const Key& who, const std::string& partition) {
  const std::size_t slash = partition.find('/');
  if (slash != partition.npos) owned_[who] = partition.substr(slash + 1);
}

void MpsPartitions::TakeBack(const MpsControl& control, const Key& who, Deadline deadline) {
  if (owned_.erase(who) > 0) RemoveUnowned(control, deadline);
}

void MpsPartitions::Tidy(const MpsControl& control, Deadline deadline) {
  if (leftovers_) RemoveUnowned(control, deadline);
}

void MpsPartitions::RemoveUnowned(const MpsControl& control, Deadline deadline) {
  const auto unowned = [this, &control, deadline] {
    std::vector<task::MpsPartition> found;
    if (auto listed = control.Partitions(deadline)) found = std::move(listed->partitions);
    std::erase_if(found, [this](const task::MpsPartition& each) {
      return std::ranges::any_of(owned_, [&](const auto& its) { return its.second == each.id; });
    });
    return found;
  };
  const std::vector<task::MpsPartition> found = unowned();
  leftovers_ = false;
  if (found.empty() || !control.DividesSms()) return;
  for (const task::MpsPartition& each : found) (void)control.RemovePartition(each.id, deadline);
  leftovers_ = !unowned().empty();
  if (leftovers_) base::LogInfo("mps_partition_stays", {{"gpu", control.id().gpus}});
}

}  // namespace carma::daemon
