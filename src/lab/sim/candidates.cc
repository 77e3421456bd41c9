// Groups of tasks, and the kinds of servers that could take them.
#include "lab/sim/candidates.h"

#include <algorithm>

namespace carma::sim {
namespace {

// The table is cleared if it has more groups than this. Tasks keep their own pointers to groups.
constexpr std::size_t kMostAlikes = 512;

}  // namespace

Candidates::Candidates(const RunOptions& options, const Layout& layout, const Servers& servers,
                       Predictions& predictions)
    : options_(options), layout_(layout), servers_(servers), predictions_(predictions) {}

std::shared_ptr<Alike> Candidates::AlikeOf(const Job& job) {
  const core::EstimateReady answer = predictions_.AnswerFor(job);
  const std::optional<core::Estimate>& estimate = answer.estimate;
  const core::Profile& profile = answer.profile;
  const core::MpsParameters mps = profile.mps.value_or(core::MpsParameters{-1, -1});
  const AlikeKey key{&job.workload(),
                     job.arrival->cpus,
                     job.arrival->gpu_type,
                     job.arrival->qos,
                     job.arrival->account,
                     options_.reservations.empty() ? 0 : job.uid,
                     estimate ? estimate->peak_mib : -1,
                     profile.sm_active.value_or(-1),
                     mps.sensitivity,
                     mps.pressure,
                     profile.grain.value_or(-1),
                     profile.alone ? profile.alone->count() : -1};
  if (alikes_.size() > kMostAlikes) alikes_.clear();
  std::shared_ptr<Alike>& alike = alikes_[key];
  if (alike) return alike;
  alike = std::make_shared<Alike>();
  alike->request = RequestOf(options_, layout_, job);
  alike->estimate = estimate;
  alike->profile = profile;
  alike->asked.gpus = alike->request.gpus;
  alike->asked.whole = IsGang(layout_, job);
  if (estimate) alike->asked.memory_mib = std::max<std::int64_t>(1, estimate->peak_mib);
  return alike;
}

bool Candidates::CouldTake(Alike& alike, std::uint32_t index) const {
  const Layout::Server& server = layout_.servers()[index];
  if (server.kind >= alike.could_take.size()) alike.could_take.resize(server.kind + 1);
  std::optional<bool>& known = alike.could_take[server.kind];
  if (known) return *known;
  core::TaskRequest request = alike.request;
  if (alike.asked.whole) request.gpus = static_cast<int>(server.gpu_count);
  known = !servers_[index].core.scheduler().NeverFits(request, alike.estimate);
  return *known;
}

bool Candidates::AnyCould(Alike& alike, std::optional<std::uint32_t> except) const {
  for (std::uint32_t i = 0; i < servers_.size(); ++i) {
    if (i != except && CouldTake(alike, i)) return true;
  }
  return false;
}

std::vector<std::uint32_t> Candidates::WholeServersFor(const Job& job,
                                                       const IsFree& is_free) const {
  std::map<std::uint32_t, std::vector<std::uint32_t>> by_kind;
  const auto wanted = static_cast<std::uint32_t>(job.workload().gpus);
  for (std::uint32_t i = 0; i < servers_.size(); ++i) {
    if (!CouldTake(*job.above.alike, i) || !is_free(i)) continue;
    const Layout::Server& server = layout_.servers()[i];
    std::vector<std::uint32_t>& servers = by_kind[server.kind];
    servers.push_back(i);
    if (servers.size() * server.gpu_count >= wanted) return servers;
  }
  return {};
}

}  // namespace carma::sim
