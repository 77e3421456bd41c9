#include "estimate/sweeps.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/csv.h"
#include "base/try.h"
#include "estimate/amounts.h"

namespace carma::estimate {
namespace {

constexpr std::size_t kMaxSweepBytes = std::size_t{64} << 20;
constexpr double kKibPerMib = 1024;

using Curve = std::map<std::int64_t, std::int64_t>;                  // MiB by batch
using Curves = std::map<std::string, std::map<std::string, Curve>>;  // by benchmark and GPU

Curves CurvesOf(const std::vector<SweepPoint>& points) {
  Curves curves;
  for (const SweepPoint& each : points) {
    std::int64_t& mib = curves[each.benchmark][each.gpu][each.batch];
    mib = std::max(mib, each.mib);
  }
  return curves;
}

std::vector<Sighting> SeenOf(const Curve& curve, std::int64_t shift_mib = 0) {
  std::vector<Sighting> seen;
  for (const auto& [batch, mib] : curve)
    seen.push_back({static_cast<double>(batch), mib + shift_mib});
  return seen;
}

SweepAnswer AnswerOf(SweepQuestion question, const std::string& benchmark, std::int64_t measured,
                     const std::optional<Interpolation>& found) {
  SweepAnswer answer{question, benchmark, measured};
  if (found) {
    answer.point = found->point_mib;
    answer.bound = found->bound_mib;
  }
  return answer;
}

void AskBatches(const std::string& benchmark, const Curve& curve,
                std::vector<SweepAnswer>& answers) {
  constexpr std::size_t kLeast = 3;  // each batch is predicted from at least two others
  if (curve.size() < kLeast) return;
  for (const auto& [batch, mib] : curve) {
    Curve others = curve;
    others.erase(batch);
    const auto found = Interpolate(SeenOf(others), static_cast<double>(batch));
    answers.push_back(AnswerOf(SweepQuestion::kBatch, benchmark, mib, found));
    Curve smaller;
    for (const auto& each : curve) {
      if (each.first <= batch / 2) smaller.insert(each);
    }
    while (smaller.size() > 2) smaller.erase(smaller.begin());
    if (smaller.size() < 2) continue;
    const auto beyond = Interpolate(SeenOf(smaller), static_cast<double>(batch));
    answers.push_back(AnswerOf(SweepQuestion::kDouble, benchmark, mib, beyond));
  }
}

// The memory that each sample adds, computed as the median slope over all pairs of batches.
std::optional<double> SlopeOf(const Curve& curve) {
  std::vector<double> slopes;
  for (auto one = curve.begin(); one != curve.end(); ++one) {
    for (auto other = std::next(one); other != curve.end(); ++other) {
      slopes.push_back(static_cast<double>(other->second - one->second) /
                       static_cast<double>(other->first - one->first));
    }
  }
  if (slopes.empty()) return std::nullopt;
  std::ranges::nth_element(slopes, slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / 2));
  return slopes[slopes.size() / 2];
}

// How much larger the CUDA context is on type `to` than on type `from`. This is the median
// difference over the other benchmarks, each at the smallest batch measured on both types. 0 if no
// other benchmark has such a batch.
std::int64_t ContextShift(const Curves& curves, const std::string& without, const std::string& from,
                          const std::string& to) {
  std::vector<std::int64_t> shifts;
  for (const auto& [benchmark, by_gpu] : curves) {
    if (benchmark == without || !by_gpu.contains(from) || !by_gpu.contains(to)) continue;
    const Curve& there = by_gpu.at(from);
    // At the smallest common batch, the context makes up the largest share of the memory.
    for (const auto& [batch, mib] : by_gpu.at(to)) {
      const auto same = there.find(batch);
      if (same == there.end()) continue;
      shifts.push_back(mib - same->second);
      break;
    }
  }
  if (shifts.empty()) return 0;
  std::ranges::sort(shifts);
  return shifts[shifts.size() / 2];
}

void AskGpus(const Curves& curves, const std::string& benchmark,
             const std::map<std::string, Curve>& by_gpu, std::vector<SweepAnswer>& answers) {
  for (const auto& [gpu, curve] : by_gpu) {
    for (const auto& [other, known] : by_gpu) {
      if (other == gpu) continue;
      const std::int64_t shift_mib = ContextShift(curves, benchmark, other, gpu);
      const std::vector<Sighting> seen = SeenOf(known, shift_mib);
      for (const auto& [batch, mib] : curve) {
        answers.push_back(AnswerOf(SweepQuestion::kGpu, benchmark, mib,
                                   Interpolate(seen, static_cast<double>(batch))));
      }
      const std::optional<double> here = SlopeOf(curve), there = SlopeOf(known);
      if (!here || !there || *here <= 0) continue;
      SweepAnswer slope{SweepQuestion::kSlope, benchmark, std::llround(kKibPerMib * *here)};
      slope.point = slope.bound = std::llround(kKibPerMib * *there);
      answers.push_back(std::move(slope));
    }
  }
}

}  // namespace

Result<bool> IsSweep(const std::string& path) {
  const base::CsvTable table = CARMA_TRY(base::CsvTable::Read(path, {}, kMaxSweepBytes));
  return table.HasColumn("benchmark") && table.HasColumn("mem_mib_median");
}

Result<std::vector<SweepPoint>> ReadSweeps(const std::string& path) {
  const base::CsvTable table = CARMA_TRY(
      base::CsvTable::Read(path, {"gpu", "benchmark", "batch", "mem_mib_median"}, kMaxSweepBytes));
  std::vector<SweepPoint> points;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const base::CsvRow row = table.Row(i);
    const std::optional<double> batch = CARMA_TRY(row.Number("batch", 1, 1e9));
    const std::optional<double> mib = CARMA_TRY(row.Number("mem_mib_median", 1, 1e8));
    if (!batch || !mib) continue;
    points.push_back({std::string(row.Text("gpu")), std::string(row.Text("benchmark")),
                      std::llround(*batch), std::llround(*mib)});
  }
  if (points.empty()) return Invalid(path + ": no row has both a batch and a memory value");
  return points;
}

std::vector<SweepAnswer> AskSweeps(const std::vector<SweepPoint>& points) {
  const Curves curves = CurvesOf(points);
  std::vector<SweepAnswer> answers;
  for (const auto& [benchmark, by_gpu] : curves) {
    for (const auto& [gpu, curve] : by_gpu) AskBatches(benchmark, curve, answers);
    AskGpus(curves, benchmark, by_gpu, answers);
  }
  return answers;
}

}  // namespace carma::estimate
