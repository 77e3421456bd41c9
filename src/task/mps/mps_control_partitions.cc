// Static SM partitions. The syntax is NVIDIA's (manual of release 615, protocol 2).
#include "base/try.h"
#include "task/mps/mps_control.h"

namespace carma::task {

bool MpsControl::OffersPartitions(Deadline deadline) const {
  return Run({"-h"}, "", deadline).value_or("").find("static-partitioning") != std::string::npos;
}

bool MpsControl::DividesSms() const {
  const std::optional<base::ProcessId> daemon = Daemon();
  return daemon && MpsDividesSms(daemon->pid) && !MpsSpeaksThree(daemon->pid);
}

Result<MpsPartitions> MpsControl::Partitions(Deadline deadline) const {
  const std::string said = CARMA_TRY(Ask("lspart", deadline));
  return ParseMpsPartitions(said, id_.gpus);
}

Result<MpsPartition> MpsControl::AddPartition(double share, Deadline deadline) const {
  const MpsPartitions before = CARMA_TRY(Partitions(deadline));
  const int chunks = MpsChunks(share, before);
  const std::string said =
      CARMA_TRY(Ask("sm_partition add " + id_.gpus + " " + std::to_string(chunks), deadline));
  const Result<std::string> added = ParseMpsPartitionAdded(said, id_.gpus);
  if (!added) {
    return Fail(before.used_chunks > 0 ? ErrorCode::kConflict : ErrorCode::kUnavailable,
                added.error().message);
  }
  const MpsPartitions after = CARMA_TRY(Partitions(deadline));
  for (const MpsPartition& each : after.partitions) {
    if (each.id == *added) return each;
  }
  return Unavailable("the MPS control daemon does not list the SM partition that it has made");
}

// The list of partitions shows whether this worked, because the text of the answer is not
// documented.
Result<Unit> MpsControl::RemovePartition(const std::string& partition, Deadline deadline) const {
  const Result<std::string> said = Ask("sm_partition rm " + id_.gpus + " " + partition, deadline);
  if (!said) return std::unexpected(said.error());
  return Unit{};
}

}  // namespace carma::task
