#include "slurm/elsewhere.h"

#include <algorithm>

#include "base/text.h"

namespace carma::slurm {
namespace {

// A job that has been restarted this many times, for whatever reason, is not moved.
constexpr int kMostRestarts = 2;

std::int64_t NumberOf(std::string_view text) {
  return base::ParseInt(text.substr(0, text.find_first_not_of("0123456789"))).value_or(0);
}

// Parses the amount of "carma" in a list such as "gpu:a100:4(S:0-1),carma:156".
std::int64_t CarmaIn(std::string_view gres) {
  constexpr std::string_view kName = "carma:";
  for (const std::string_view each : base::Split(gres, ',')) {
    if (each.starts_with(kName)) return NumberOf(each.substr(kName.size()));
  }
  return 0;
}

Node ReadNode(std::string_view line) {
  Node node;
  std::int64_t cpus = 0, allocated_cpus = 0;
  for (const std::string_view word : base::SplitWords(line)) {
    const std::size_t sign = word.find('=');
    if (sign == std::string_view::npos) continue;
    const std::string_view name = word.substr(0, sign), value = word.substr(sign + 1);
    if (name == "Reason" || name == "Comment") break;  // free text to the end
    if (name == "NodeName") node.name = value;
    if (name == "State") node.takes_jobs = value == "IDLE" || value == "MIXED";
    if (name == "ActiveFeatures") node.features = value;
    if (name == "Gres") node.gib = CarmaIn(value);
    if (name == "GresUsed") node.used_gib = CarmaIn(value);
    if (name == "CPUEfctv" || (name == "CPUTot" && cpus == 0)) cpus = NumberOf(value);
    if (name == "CPUAlloc") allocated_cpus = NumberOf(value);
    if (name == "RealMemory") node.free_mib += NumberOf(value);
    if (name == "AllocMem") node.free_mib -= NumberOf(value);
    if (name != "Partitions") continue;
    for (const std::string_view each : base::Split(value, ',')) node.partitions.emplace_back(each);
  }
  node.free_cpus = cpus - allocated_cpus;
  return node;
}

bool HasRoom(const Job& job, const Node& node) {
  const std::int64_t after_gib = node.used_gib + job.carma_gib;
  const bool alone = node.used_gib == 0 && after_gib <= node.gib;
  return (alone || 2 * after_gib <= node.gib) && job.cpus <= node.free_cpus &&
         job.memory_mib <= node.free_mib;
}

}  // namespace

std::vector<Node> ReadNodes(std::string_view text) {
  std::vector<Node> nodes;
  for (const std::string_view line : base::Split(text, '\n')) {
    if (base::Trim(line).starts_with("NodeName=")) nodes.push_back(ReadNode(line));
  }
  return nodes;
}

std::optional<std::string> ExcludedNodes(std::string_view text, std::uint64_t id) {
  for (const std::string_view line : base::Split(text, '\n')) {
    const std::vector<std::string_view> words = base::Split(line, '|');
    if (words.size() < 2 || base::ParseInt(base::Trim(words[0])) != static_cast<std::int64_t>(id))
      continue;
    const std::string_view list = base::Trim(words[1]);
    return std::string(list == "(null)" || list == "N/A" ? "" : list);
  }
  return std::nullopt;
}

std::string WhyItStays(const Job& job) {
  if (!job.batch) return "Slurm restarts only batch scripts";
  if (!job.requeue) return "it was submitted with --no-requeue";
  if (job.state != "RUNNING") return "it is not running";
  if (job.nodes != 1 || job.node_list.empty() || job.IsComponent())
    return "it is a multi-node or heterogeneous job";
  if (!job.asked_nodes.empty()) return "it requests specific nodes";
  if (!job.reservation.empty()) return "it belongs to a reservation";
  if (job.carma_gib == 0 || job.other_gres)
    return "it does not request gres/carma, or it also requests other gres";
  if (job.restarts >= kMostRestarts) return "it has already been restarted at least twice";
  if (job.on_hold) return "it will be held after this run";
  return "";
}

std::optional<std::string> NodeFor(const Job& job, std::span<const Node> nodes) {
  const auto here = std::ranges::find(nodes, job.node_list, &Node::name);
  if (here == nodes.end()) return std::nullopt;
  for (const Node& node : nodes) {
    const bool suits = node.takes_jobs && node.name != here->name &&
                       node.features == here->features &&
                       std::ranges::find(node.partitions, job.partition) != node.partitions.end();
    if (suits && HasRoom(job, node)) return node.name;
  }
  return std::nullopt;
}

}  // namespace carma::slurm
