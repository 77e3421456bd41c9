#include "core/books/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/cpu_list.h"
#include "base/text.h"

namespace carma::core {
namespace {

const char* Are(int count) {
  return count == 1 ? "is" : "are";
}

std::string KeptFor(const HostView& host) {
  return host.kept_for
             ? fmt::format(" (not counting what is kept for task {}, which has waited too long)",
                           *host.kept_for)
             : "";
}

}  // namespace

bool FitsHost(const HostNeed& need, const HostView& host) {
  const bool cpus = host.cpus == 0 || (need.cpus <= host.free_cpus &&
                                       (!need.own_cpus || need.cpus <= host.free_cores));
  return cpus && (host.memory_mib == 0 || need.memory_mib <= host.free_memory_mib);
}

Verdict CheckHost(const HostNeed& need, const HostView& host) {
  if (FitsHost(need, host)) return {};
  const auto refuse = [](Fit fit, ReasonCode code, std::string text) {
    return Verdict{fit, {code, std::move(text)}};
  };
  if (host.cpus > 0 && need.cpus > host.cpus) {
    return refuse(Fit::kNever, ReasonCode::kCpus,
                  fmt::format("The task asks for {}, but tasks on this server can use at most {}.",
                              base::Counted(need.cpus, "CPU"), host.cpus));
  }
  if (host.cpus > 0 && need.own_cpus && need.cpus > host.cores) {
    return refuse(Fit::kNever, ReasonCode::kCpus,
                  fmt::format("The task asks for {}, but this server has {}.",
                              base::Counted(need.cpus, "dedicated core"), host.cores));
  }
  if (host.memory_mib > 0 && need.memory_mib > host.memory_mib) {
    return refuse(
        Fit::kNever, ReasonCode::kHostMemory,
        fmt::format("The task asks for {} of host memory, but tasks on this server can use "
                    "at most {}.",
                    base::FormatMib(need.memory_mib), base::FormatMib(host.memory_mib)));
  }
  if (host.cpus > 0 && need.cpus > host.free_cpus) {
    return refuse(Fit::kNotNow, ReasonCode::kCpus,
                  fmt::format("The task asks for {}, but {} of {} {} free{}.",
                              base::Counted(need.cpus, "CPU"), host.free_cpus, host.cpus,
                              Are(host.free_cpus), KeptFor(host)));
  }
  if (host.cpus > 0 && need.own_cpus && need.cpus > host.free_cores) {
    return refuse(Fit::kNotNow, ReasonCode::kCpus,
                  fmt::format("The task asks for {}, but {} {} unassigned.",
                              base::Counted(need.cpus, "dedicated core"), host.free_cores,
                              Are(host.free_cores)));
  }
  return refuse(Fit::kNotNow, ReasonCode::kHostMemory,
                fmt::format("The task asks for {} of host memory, but {} of {} is free{}.",
                            base::FormatMib(need.memory_mib), base::FormatMib(host.free_memory_mib),
                            base::FormatMib(host.memory_mib), KeptFor(host)));
}

std::string TextOf(const HostShare& share) {
  std::string text;
  if (share.cpus > 0) text = base::Counted(share.cpus, "CPU");
  if (!share.cores.empty())
    text = fmt::format("{} ({})", base::Counted(share.cpus, "dedicated CPU"), share.cores);
  if (share.memory_mib == 0) return text;
  if (!text.empty()) text += " and ";
  return text + fmt::format("{} of memory", base::FormatMib(share.memory_mib));
}

void HostBooks::Open(HostInfo info) {
  if (info == info_) return;
  info_ = std::move(info);
  ++changes_;
}

HostShare HostBooks::ShareFor(const HostNeed& need, std::span<const int> near) const {
  HostShare share{.cpus = need.cpus, .memory_mib = need.memory_mib};
  if (!need.own_cpus) return share;
  std::vector<int> own;
  for (const bool beside : {true, false}) {
    for (const int core : info_.cores) {
      if (std::ssize(own) == need.cpus) break;
      const bool is_near = std::ranges::find(near, core) != near.end();
      if (is_near == beside && !owners_.contains(core)) own.push_back(core);
    }
  }
  share.cores = base::CpuListText(std::move(own));
  return share;
}

void HostBooks::Take(TaskId task, const HostShare& share) {
  if (share == HostShare{} || !shares_.try_emplace(task, share).second) return;
  cpus_ += share.cpus;
  memory_mib_ += share.memory_mib;
  const std::optional<std::vector<int>> own = base::ParseCpuList(share.cores);
  for (const int core : own.value_or(std::vector<int>{})) owners_.emplace(core, task);
}

void HostBooks::Release(TaskId task) {
  const auto at = shares_.find(task);
  if (at == shares_.end()) return;
  cpus_ -= at->second.cpus;
  memory_mib_ -= at->second.memory_mib;
  std::erase_if(owners_, [task](const auto& each) { return each.second == task; });
  shares_.erase(at);
  ++changes_;
}

HostView HostBooks::View() const {
  const auto owned =
      std::ranges::count_if(info_.cores, [this](int core) { return owners_.contains(core); });
  return {.cpus = info_.cpus,
          .free_cpus = std::max(0, info_.cpus - cpus_),
          .cores = static_cast<int>(std::ssize(info_.cores)),
          .free_cores = static_cast<int>(std::ssize(info_.cores) - owned),
          .memory_mib = info_.memory_mib,
          .free_memory_mib = std::max<std::int64_t>(0, info_.memory_mib - memory_mib_)};
}

HostView HostBooks::ViewWithout(TaskId task, const HostNeed& kept) const {
  HostView view = View();
  view.free_cpus = std::max(0, view.free_cpus - kept.cpus);
  if (kept.own_cpus) view.free_cores = std::max(0, view.free_cores - kept.cpus);
  view.free_memory_mib = std::max<std::int64_t>(0, view.free_memory_mib - kept.memory_mib);
  view.kept_for = task;
  return view;
}

const HostShare* HostBooks::ShareOf(TaskId task) const {
  const auto at = shares_.find(task);
  return at == shares_.end() ? nullptr : &at->second;
}

double HostBooks::PartOf(int cpus, std::int64_t memory_mib) const {
  const double of_cpus = info_.cpus > 0 ? static_cast<double>(cpus) / info_.cpus : 0;
  const double of_memory =
      info_.memory_mib > 0 ? static_cast<double>(memory_mib) / static_cast<double>(info_.memory_mib)
                           : 0;
  return std::clamp(std::max(of_cpus, of_memory), 0.0, 1.0);
}

}  // namespace carma::core
