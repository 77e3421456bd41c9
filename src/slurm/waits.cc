#include "slurm/waits.h"

#include <fmt/format.h>

#include "base/text.h"

namespace carma::slurm {
namespace {

constexpr std::string_view kWait = "carma: wait";
constexpr std::string_view kBesideWait = " | carma: wait";
constexpr std::chrono::minutes kBetween{1};
constexpr std::size_t kMostOfReason = 200;

}  // namespace

std::string_view WithoutWait(std::string_view admin_comment) {
  if (admin_comment.starts_with(kWait)) return {};
  return admin_comment.substr(0, admin_comment.find(kBesideWait));
}

std::optional<std::string> WithWait(std::string_view admin_comment, std::string_view wait) {
  const std::string_view others = WithoutWait(admin_comment);
  if (others.empty()) return std::string(wait);
  if (!others.starts_with("carma: ")) return std::nullopt;
  return fmt::format("{} | {}", others, wait);
}

bool IsWaiting(std::string_view admin_comment, std::string_view node) {
  admin_comment.remove_prefix(WithoutWait(admin_comment).size());
  const std::string on = node.empty() ? "" : fmt::format("for GPUs on {}:", node);
  return admin_comment.find("carma: waiting " + on) != admin_comment.npos;
}

std::string WithNodeName(std::string text, std::string_view node) {
  if (const std::size_t at = text.find(kNodePlace); at != std::string::npos)
    text.replace(at, kNodePlace.size(), node);
  return text;
}

std::optional<WaitComments::Comment> WaitComments::Next(Moment now,
                                                        std::span<const WaitingJob> waiting) {
  if (!begun_) begun_ = now;
  for (auto& [job, known] : known_) known.waits = false;
  const auto due = [&](const Known& known, const std::string& text) {
    if (known.forgotten) return false;
    if (now - known.since < quiet_ || text == known.text) return false;
    return known.text.empty() || now - known.told >= kBetween;
  };
  std::map<std::uint64_t, Known>::iterator next = known_.end();
  std::string text;
  for (const WaitingJob& each : waiting) {
    const auto [at, fresh] =
        known_.try_emplace(each.job, Known{now, now, "", now - *begun_ < quiet_});
    at->second.waits = true;
    std::string told = fmt::format("carma: waiting for GPUs on {}: {}", kNodePlace,
                                   base::Printable(each.why, kMostOfReason));
    if (!due(at->second, told) || (next != known_.end() && next->second.told <= at->second.told))
      continue;
    next = at;
    text = std::move(told);
  }
  for (auto at = known_.begin(); at != known_.end();) {
    if (at->second.waits) {
      ++at;
      continue;
    }
    const Known over = at->second;
    const std::uint64_t job = at->first;
    at = known_.erase(at);
    if (over.forgotten || (over.text.empty() && !over.early)) continue;
    if (over.text.empty())
      return Comment{job, fmt::format("carma: waited for GPUs on {}", kNodePlace), false, true};
    return Comment{
        job,
        fmt::format("carma: waited {1} for GPUs on {0}", kNodePlace,
                    base::FormatSpan(std::chrono::duration_cast<base::Duration>(now - over.since))),
        false};
  }
  if (next == known_.end()) return std::nullopt;
  next->second.told = now;
  next->second.text = text;
  return Comment{next->first, std::move(text)};
}

void WaitComments::Forget(std::uint64_t job) {
  if (const auto known = known_.find(job); known != known_.end()) known->second.forgotten = true;
}

}  // namespace carma::slurm
