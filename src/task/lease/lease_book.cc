#include "task/lease/lease_book.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "base/try.h"
#include "task/lease/lease_processes.h"

namespace carma::task {
namespace {

constexpr std::size_t kMaxMembers = 4096;
constexpr std::ptrdiff_t kMostOutputs = 8;

}  // namespace

const Lease* LeaseBook::Find(core::TaskId id) const {
  const auto found = leases_.find(id);
  return found == leases_.end() ? nullptr : &found->second;
}

Lease* LeaseBook::Find(core::TaskId id) {
  const auto found = leases_.find(id);
  return found == leases_.end() ? nullptr : &found->second;
}

Lease* LeaseBook::Find(core::TaskId id, int attempt) {
  Lease* lease = Find(id);
  return lease != nullptr && lease->attempt == attempt ? lease : nullptr;
}

bool LeaseBook::Granted(core::TaskId id) const {
  const Lease* lease = Find(id);
  return lease != nullptr && lease->attempt > 0 && !lease->adopted;
}

bool LeaseBook::Adopted(core::TaskId id) const {
  const Lease* lease = Find(id);
  return lease != nullptr && lease->adopted;
}

std::vector<core::TaskId> LeaseBook::Leases() const {
  std::vector<core::TaskId> ids;
  for (const auto& [id, lease] : leases_) ids.push_back(id);
  return ids;
}

std::vector<std::pair<core::TaskId, LeaseKey>> LeaseBook::LeasesOfJob(std::uint64_t job) const {
  std::vector<std::pair<core::TaskId, LeaseKey>> found;
  for (const auto& [id, lease] : leases_) {
    if (lease.key && lease.key->job == job) found.emplace_back(id, *lease.key);
  }
  return found;
}

std::optional<LeaseKey> LeaseBook::KeyOf(core::TaskId id) const {
  const Lease* lease = Find(id);
  return lease == nullptr ? std::nullopt : lease->key;
}

std::optional<LeaseProcess> LeaseBook::ProcessOf(core::TaskId id) const {
  const Lease* lease = Find(id);
  if (lease == nullptr) return std::nullopt;
  return lease->members.front().process;
}

std::vector<std::string> LeaseBook::Outputs(core::TaskId id) const {
  const Lease* lease = Find(id);
  return lease == nullptr ? std::vector<std::string>() : lease->outputs;
}

Result<Unit> LeaseBook::MayHaveLease(pid_t pid) const {
  const std::optional<std::string> why_not = WhyNoLease(pid, daemon_);
  if (!why_not) return Unit{};
  return Conflict("process {} cannot have a lease, because it {}", pid, *why_not);
}

void LeaseBook::SeenOnGpus(core::TaskId id, const std::vector<pid_t>& pids) {
  if (!Adopted(id) || !KeyOf(id)) return;
  Lease& lease = leases_.at(id);
  const auto is_known = [&](pid_t pid) {
    return std::ranges::find(lease.on_gpus, pid) != lease.on_gpus.end();
  };
  if (std::ranges::all_of(pids, is_known)) return;
  lease.on_gpus = pids;
  for (std::string& each : OutputsOf(lease, daemon_)) {
    std::erase(lease.outputs, each);
    lease.outputs.push_back(std::move(each));
  }
  if (std::ssize(lease.outputs) > kMostOutputs)
    lease.outputs.erase(lease.outputs.begin(), lease.outputs.end() - kMostOutputs);
}

Result<bool> LeaseBook::MayAdopt(core::TaskId id, const LeaseProcess& process) const {
  const Lease* lease = Find(id);
  if (lease == nullptr || lease->attempt == 0) return Conflict("lease {} has not been granted", id);
  const auto is_member = [&](const LeaseMember& each) {
    return !each.keeper && each.process == process;
  };
  if (lease->adopted && std::ranges::any_of(lease->members, is_member)) return true;
  if (lease->adopted && !lease->key) {
    return Conflict("lease {} has already been adopted by process {}", id,
                    lease->members.front().process.process.pid);
  }
  const auto may = [&](const LeaseMember& each) {
    return each.keeper && IsBelow(process.process, each.process.process);
  };
  if (lease->key && !std::ranges::any_of(lease->members, may)) {
    return Denied("process {} does not belong to the job step that requested lease {}",
                  process.process.pid, id);
  }
  CARMA_TRY(MayHaveLease(process.process.pid));
  return false;
}

Result<Unit> AddLeaseMember(Lease& lease, LeaseMember member) {
  if (!Alive(member.process)) return Conflict("process {} has exited", member.process.process.pid);
  if (lease.members.size() >= kMaxMembers)
    return Conflict("a lease can have at most {} processes", kMaxMembers);
  std::vector<LeaseMember> fresh;
  for (const LeaseMember& each : lease.members) {
    if (!lease.adopted && each.keeper) fresh.push_back({each.process, {}, true});
  }
  fresh.push_back({member.process, {}, member.keeper});
  CARMA_TRY(base::Wrap(KeepMembers(lease, fresh), "recording which process adopts a lease"));
  if (!lease.adopted)
    std::erase_if(lease.members, [](const LeaseMember& each) { return !each.keeper; });
  lease.members.push_back(std::move(member));
  return Unit{};
}

std::map<std::string, std::string> EnvironmentOf(const LaunchOrder& order) {
  std::map<std::string, std::string> environment = order.extra_environment;
  environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
  environment["CUDA_VISIBLE_DEVICES"] = base::Join(order.gpu_uuids, ",");
  environment["CARMA_TASK_ID"] = fmt::format("{}", order.id);
  environment["CARMA_ATTEMPT"] = fmt::format("{}", order.attempt);
  environment["CARMA_TASK_NAME"] = order.spec.name;
  if (order.host.cpus > 0) environment["CARMA_CPUS"] = fmt::format("{}", order.host.cpus);
  return environment;
}

LeaseEnd UnreportedEnd(const std::string& ends_dir, core::TaskId id, const Lease& lease) {
  if (std::optional<LeaseEnd> left = ReadLeftEnd(ends_dir, id, lease)) return *std::move(left);
  if (!lease.status) return {.untold = true};
  return {.exit_code = WIFEXITED(*lease.status) ? WEXITSTATUS(*lease.status) : 0,
          .signal = WIFSIGNALED(*lease.status) ? WTERMSIG(*lease.status) : 0};
}

}  // namespace carma::task
