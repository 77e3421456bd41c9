#include "estimate/amounts.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

namespace carma::estimate {
namespace {

using Needs = std::map<double, double>;  // amount -> MiB, non-decreasing

constexpr double kFarthest = 4;  // predictions reach at most this factor beyond the measured range
// Safety margins, as fractions of the predicted memory. kBeyondAllowance applies only above the
// largest measured amount, and only to the growth predicted beyond it. In sweeps over batch sizes
// on one GPU, 95 % of the values are within these margins (docs/evidence/estimators.md).
constexpr double kAllowance = 0.06;
constexpr double kFewAllowance = 0.06;  // additional margin with two amounts; smaller with more
constexpr double kBeyondAllowance = 0.2;

// Keeps the highest value for each amount, because a reading can miss a peak but never exceeds the
// memory actually used.
Needs NeedsOf(std::span<const Sighting> seen) {
  Needs needs;
  for (const Sighting& each : seen) {
    if (each.ran_out || each.amount <= 0) continue;
    double& mib = needs[each.amount];
    mib = std::max(mib, static_cast<double>(each.mib));
  }
  double before = 0;
  for (auto& [amount, mib] : needs) before = mib = std::max(mib, before);
  return needs;
}

double SlopeOf(Needs::const_iterator from, Needs::const_iterator to) {
  return (to->second - from->second) / (to->first - from->first);
}

// A run that ran out of memory sets a lower bound for every run with the same or a larger amount.
double MoreThanTooLittle(std::span<const Sighting> seen, double amount) {
  double mib = 0;
  for (const Sighting& each : seen) {
    if (each.ran_out && each.amount <= amount)
      mib = std::max(mib, kMoreThanRanOut * static_cast<double>(each.mib));
  }
  return mib;
}

double AllowanceOf(const Needs& needs) {
  return kAllowance + kFewAllowance / static_cast<double>(needs.size() - 1);
}

struct Estimated {
  double point = 0, bound = 0;
};

Estimated Between(Needs::const_iterator below, Needs::const_iterator above, double amount,
                  double allowance) {
  const double point = below->second + SlopeOf(below, above) * (amount - below->first);
  const double bend = (above->second - point) / 4;
  const double most = above->second * (1 + allowance);  // the bound at the larger amount
  return {point, std::min(point * (1 + allowance) + bend, most)};
}

Estimated Above(const Needs& needs, double amount, double allowance) {
  const auto last = std::prev(needs.end());
  const double slope = std::max(SlopeOf(std::prev(last), last), SlopeOf(needs.begin(), last));
  const double point = last->second + slope * (amount - last->first);
  const double growth = point - last->second;
  return {point, point * (1 + allowance) + kBeyondAllowance * growth};
}

// Memory may fall more slowly below the smallest measured amount, so the bound is the memory needed
// at that amount plus a margin.
Estimated Below(const Needs& needs, double amount, double allowance) {
  const auto first = needs.begin();
  const double slope = SlopeOf(first, std::next(first));
  const double point = std::max(first->second - slope * (first->first - amount),
                                first->second * amount / first->first);
  return {point, first->second * (1 + allowance)};
}

}  // namespace

std::optional<Interpolation> Interpolate(std::span<const Sighting> seen, double amount) {
  const Needs needs = NeedsOf(seen);
  if (needs.size() < 2 || amount <= 0) return std::nullopt;
  const double least = needs.begin()->first;
  const double largest = std::prev(needs.end())->first;
  if (amount < least / kFarthest || amount > largest * kFarthest) return std::nullopt;
  Interpolation answer;
  answer.between = amount >= least && amount <= largest;
  const double allowance = AllowanceOf(needs);
  const auto above = needs.lower_bound(amount);
  Estimated estimated;
  if (above != needs.end() && above->first == amount) {
    estimated = {above->second, above->second * (1 + allowance)};
  } else if (answer.between) {
    estimated = Between(std::prev(above), above, amount, allowance);
  } else {
    estimated =
        amount > largest ? Above(needs, amount, allowance) : Below(needs, amount, allowance);
  }
  const double more = MoreThanTooLittle(seen, amount);
  answer.point_mib = std::llround(std::max(estimated.point, more));
  answer.bound_mib = std::max<std::int64_t>(
      answer.point_mib, std::llround(std::max(estimated.bound, more * (1 + allowance))));
  answer.runs = static_cast<std::size_t>(
      std::ranges::count_if(seen, [](const Sighting& each) { return !each.ran_out; }));
  return answer;
}

}  // namespace carma::estimate
