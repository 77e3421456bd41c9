#include "estimate/evaluate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace carma::estimate {
namespace {

constexpr std::int64_t kGibMib = 1024;

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The smallest value v such that at least `share` of all values are at most v.
double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  return values[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

ClassScore ClassScoreOf(std::span<const std::pair<int, int>> pairs, std::int64_t width_mib) {
  ClassScore score;
  score.width_mib = width_mib;
  score.runs = pairs.size();
  std::set<int> seen;
  for (const auto& [measured, predicted] : pairs) seen.insert({measured, predicted});
  score.classes.assign(seen.begin(), seen.end());
  const std::size_t n = score.classes.size();
  score.confusion.assign(n, std::vector<std::size_t>(n));
  const auto index = [&](int value) {
    return static_cast<std::size_t>(
        std::lower_bound(score.classes.begin(), score.classes.end(), value) -
        score.classes.begin());
  };
  for (const auto& [measured, predicted] : pairs)
    ++score.confusion[index(measured)][index(predicted)];
  std::size_t right = 0;
  std::size_t measured_classes = 0;
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t measured = 0;
    std::size_t predicted = 0;
    for (std::size_t j = 0; j < n; ++j) {
      measured += score.confusion[i][j];
      predicted += score.confusion[j][i];
    }
    const std::size_t hits = score.confusion[i][i];
    right += hits;
    if (measured == 0) continue;  // never measured; the means cover only measured classes
    ++measured_classes;
    const double precision =
        predicted == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(predicted);
    const double recall = static_cast<double>(hits) / static_cast<double>(measured);
    score.precision += precision;
    score.recall += recall;
    score.f1 += hits == 0 ? 0 : 2 * precision * recall / (precision + recall);
  }
  const auto classes = static_cast<double>(measured_classes);
  score.accuracy = static_cast<double>(right) / static_cast<double>(score.runs);
  score.precision /= classes;
  score.recall /= classes;
  score.f1 /= classes;
  return score;
}

double RatioOf(std::int64_t measured_mib, std::int64_t answered_mib) {
  return static_cast<double>(measured_mib) / static_cast<double>(answered_mib);
}

// Corrections for one group, learned from the runs of all other groups.
struct Teachings {
  double point = 0;           // factor on points; 0: not learned
  double bound = 0;           // factor on bounds, or on points if bounds_point is set
  bool bounds_point = false;  // `bound` is a factor on points
};

// A kind with at least this many runs gets its own factor for the bound.
constexpr std::size_t kEnoughOfKind = 20;
// Multiplier for the safety margin (factor - 1) of a kind that has too few runs in other groups.
constexpr double kWiderUnseen = 2;

// The conformal quantile: the ceil((n + 1) coverage)-th of n values.
double Conformal(std::vector<double> values, double coverage) {
  const double more = 1 + 1 / static_cast<double>(std::max<std::size_t>(values.size(), 1));
  return Quantile(std::move(values), std::min(1.0, coverage * more));
}

Teachings TaughtWithout(const LeftOut& left, const std::vector<LeftOut>& parts,
                        std::span<const Outcome> outcomes, double coverage) {
  std::vector<double> points, bounds;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const Outcome& each = outcomes[i];
    if (parts[i].group == left.group || each.censored || !each.answer || each.answer->point_mib < 1)
      continue;
    points.push_back(RatioOf(each.measured_mib, each.answer->point_mib));
    if (parts[i].kind == left.kind)
      bounds.push_back(RatioOf(each.measured_mib, each.answer->bound_mib));
  }
  if (points.empty()) return {};
  if (bounds.size() >= kEnoughOfKind || bounds.size() == points.size())
    return {Median(std::move(points)), Conformal(std::move(bounds), coverage)};
  const double factor = 1 + kWiderUnseen * (Conformal(points, coverage) - 1);
  return {Median(std::move(points)), factor, true};
}

}  // namespace

std::vector<Outcome> LeaveOut(std::span<const Outcome> outcomes, const std::vector<LeftOut>& parts,
                              double coverage) {
  std::map<std::pair<std::string, std::string>, Teachings> taught;
  std::vector<Outcome> left(outcomes.begin(), outcomes.end());
  for (std::size_t i = 0; i < left.size(); ++i) {
    const auto [found, is_new] = taught.try_emplace({parts[i].group, parts[i].kind});
    if (is_new) found->second = TaughtWithout(parts[i], parts, outcomes, coverage);
    const Teachings& known = found->second;
    if (!left[i].answer) continue;
    if (known.point <= 0) {
      left[i].answer.reset();
      continue;
    }
    Answer& answer = *left[i].answer;
    const std::int64_t base_mib = known.bounds_point ? answer.point_mib : answer.bound_mib;
    answer.point_mib = std::llround(known.point * static_cast<double>(answer.point_mib));
    answer.bound_mib = std::llround(known.bound * static_cast<double>(base_mib));
    answer.bound_mib = std::max(answer.bound_mib, answer.point_mib);
  }
  return left;
}

Score ScoreOf(std::span<const Outcome> outcomes, std::int64_t card_mib) {
  Score score;
  std::vector<double> errors;
  for (const Outcome& each : outcomes) {
    if (each.censored) {
      ++score.censored;
      if (each.answer) ++score.censored_answered;
      if (each.answer && each.answer->point_mib >= card_mib) ++score.censored_above_card;
      continue;
    }
    if (!each.answer) {
      ++score.unanswered;
      continue;
    }
    const auto measured = static_cast<double>(each.measured_mib);
    const std::int64_t point_mib = each.answer->point_mib;
    const double excess = static_cast<double>(point_mib) / measured - 1;
    errors.push_back(std::abs(excess));
    score.under += excess < 0 ? 1 : 0;
    score.under_5 += excess < -0.05 ? 1 : 0;
    score.under_10 += excess < -0.10 ? 1 : 0;
    score.over += std::max(0.0, excess);
    score.same_1gib += point_mib / kGibMib == each.measured_mib / kGibMib ? 1 : 0;
    score.same_8gib += point_mib / (8 * kGibMib) == each.measured_mib / (8 * kGibMib) ? 1 : 0;
    score.covered += each.answer->bound_mib >= each.measured_mib ? 1 : 0;
    score.bound_over += std::max(0.0, static_cast<double>(each.answer->bound_mib) / measured - 1);
  }
  score.runs = errors.size();
  if (errors.empty()) return score;
  const auto n = static_cast<double>(errors.size());
  for (const double error : errors) score.mean_error += error / n;
  for (double* share : {&score.under, &score.under_5, &score.under_10, &score.over,
                        &score.same_1gib, &score.same_8gib, &score.covered, &score.bound_over}) {
    *share /= n;
  }
  score.p90_error = Quantile(errors, 0.9);
  score.median_error = Median(std::move(errors));
  return score;
}

std::vector<ClassScore> ClassScoresOf(std::span<const Outcome> outcomes) {
  std::map<std::int64_t, std::vector<std::pair<int, int>>> pairs;  // width -> measured, predicted
  for (const Outcome& each : outcomes) {
    if (each.censored || !each.answer) continue;
    for (const MemoryClass& named : each.answer->classes) {
      const int measured = static_cast<int>(each.measured_mib / named.width_mib);
      pairs[named.width_mib].emplace_back(measured, named.index);
    }
  }
  std::vector<ClassScore> scores;
  scores.reserve(pairs.size());
  for (const auto& [width_mib, of_width] : pairs)
    scores.push_back(ClassScoreOf(of_width, width_mib));
  return scores;
}

}  // namespace carma::estimate
