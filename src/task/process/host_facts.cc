#include "task/process/host_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/cpu_list.h"
#include "base/file.h"
#include "base/text.h"

namespace carma::task {
namespace {

constexpr std::size_t kMaxText = 1 << 20;
constexpr std::ptrdiff_t kManyCpus = 8;
constexpr std::int64_t kMostReserveMib = 16 * 1024;

std::vector<int> CpusIn(const std::string& text) {
  return base::ParseCpuList(text).value_or(std::vector<int>{});
}

// Sorts the CPUs so that the threads of each core are adjacent.
std::vector<int> BySiblings(const std::vector<int>& cpus, const std::string& root) {
  std::vector<int> ordered;
  std::set<int> left(cpus.begin(), cpus.end());
  for (const int cpu : cpus) {
    if (left.erase(cpu) == 0) continue;
    ordered.push_back(cpu);
    const std::string siblings =
        fmt::format("{}/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", root, cpu);
    for (const int each : CpusIn(base::ReadFile(siblings, kMaxText).value_or(""))) {
      if (left.erase(each) > 0) ordered.push_back(each);
    }
  }
  return ordered;
}

}  // namespace

HostFacts ReadHostFacts(const std::string& root, const std::string& cgroup) {
  HostFacts facts;
  const std::string allowed = base::NamedLine(root + "/proc/self/status", "Cpus_allowed_list:");
  facts.cpus = BySiblings(CpusIn(allowed), root);
  const std::string total = base::NamedLine(root + "/proc/meminfo", "MemTotal:");  // "65536000 kB"
  const std::string_view kib = std::string_view(total).substr(0, total.find(' '));
  facts.memory_mib = base::ParseInt(kib).value_or(0) / 1024;
  if (cgroup.empty()) return facts;
  const std::string limit = base::ReadFile(cgroup + "/memory.max", kMaxText).value_or("");
  if (const auto bytes = base::ParseInt(base::Trim(limit)))
    facts.memory_mib = std::min(facts.memory_mib, *bytes >> 20);
  return facts;
}

core::HostInfo ForTasks(const HostFacts& facts, const std::optional<int>& cpus,
                        const std::optional<std::int64_t>& memory_mib) {
  core::HostInfo host;
  const std::ptrdiff_t all = std::ssize(facts.cpus);
  host.cpus = cpus.value_or(static_cast<int>(all >= kManyCpus ? all - 1 : all));
  const std::int64_t reserve_mib = std::min(facts.memory_mib / 10, kMostReserveMib);
  host.memory_mib = memory_mib.value_or(facts.memory_mib - reserve_mib);
  host.cores = facts.cpus;
  // The cores at the end of the list are reserved for the system.
  if (host.cpus < all) host.cores.resize(static_cast<std::size_t>(std::max(0, host.cpus)));
  return host;
}

}  // namespace carma::task
