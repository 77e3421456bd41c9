#include "lab/sim/recorder.h"

#include <fmt/format.h>

#include <algorithm>

namespace carma::sim {

void Series::Pass(base::Time now) {
  if (now <= since_) return;
  const auto ms = static_cast<double>((now - since_).count());
  open_.length += now - since_;
  open_.mib_ms += used_mib_ * ms;
  open_.sm_ms += sm_active_ * ms;
  open_.power_ms += power_w_ * ms;
  since_ = now;
}

void Series::Close() {
  if (open_.length == base::Duration{0}) return;
  pieces_.push_back(open_);
  open_ = {.at = since_};
  if (pieces_.size() < std::max<std::size_t>(limit_, 2)) return;
  // Merges pairs of pieces, which halves their number. From now on, each new piece except the last
  // is at least as long as the mean of the merged pieces.
  const base::Duration whole = since_ - pieces_.front().at;
  std::vector<Piece> joined;
  joined.reserve(pieces_.size() / 2 + 1);
  for (std::size_t i = 0; i < pieces_.size(); i += 2) {
    Piece piece = pieces_[i];
    if (i + 1 < pieces_.size()) {
      const Piece& next = pieces_[i + 1];
      piece.length += next.length;
      piece.mib_ms += next.mib_ms;
      piece.sm_ms += next.sm_ms;
      piece.power_ms += next.power_ms;
    }
    joined.push_back(piece);
  }
  pieces_ = std::move(joined);
  grain_ = std::max(grain_, whole / static_cast<std::int64_t>(pieces_.size()));
}

void Series::Set(base::Time now, double used_mib, double sm_active, double power_w) {
  Pass(now);
  if (open_.length >= grain_) Close();
  used_mib_ = used_mib;
  sm_active_ = sm_active;
  power_w_ = power_w;
}

std::vector<report::GpuPoint> Series::Finish(base::Time to) {
  Pass(to);
  Close();
  std::vector<report::GpuPoint> points;
  points.reserve(pieces_.size());
  for (const Piece& piece : pieces_) {
    const auto ms = static_cast<double>(piece.length.count());
    points.push_back({.at = piece.at,
                      .used_mib = piece.mib_ms / ms,
                      .sm_active = piece.sm_ms / ms,
                      .power_w = piece.power_ms / ms});
  }
  return points;
}

Recorder::Recorder(const Cluster& cluster, std::size_t points_per_gpu, base::Time from) {
  record_.simulated = true;
  record_.from = from;
  for (const ServerShape& server : cluster.servers) {
    const std::string place = cluster.servers.size() > 1 ? server.name + " " : "";
    for (std::size_t i = 0; i < server.gpus.size(); ++i) {
      const GpuType& type = server.gpus[i];
      record_.gpus.push_back({.name = fmt::format("{}GPU {}", place, i),
                              .type = type.type,
                              .usable_mib = type.total_mib - type.reserved_mib});
      series_.emplace_back(points_per_gpu, from);
      series_.back().Set(from, 0, 0, PowerW(type.power, 0));
    }
  }
}

report::RunRecord Recorder::Finish(base::Time to) {
  record_.to = to;
  std::ranges::sort(record_.tasks, {}, &report::RunTask::id);
  for (std::size_t i = 0; i < series_.size(); ++i) record_.gpus[i].points = series_[i].Finish(to);
  return std::move(record_);
}

}  // namespace carma::sim
