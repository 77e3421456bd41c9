#include "lab/sim/pairs.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "base/csv.h"
#include "base/text.h"
#include "base/try.h"
#include "lab/sim/models.h"

namespace carma::sim {
namespace {

constexpr std::string_view kStreamsWord = "streams";
constexpr std::string_view kMpsWord = "mps";
constexpr double kMostSpeed = 10;
constexpr double kMostFactor = 20;
constexpr double kFactorStep = 1e-4;

// A formula for the speed of `own` when it runs together with `other`.
using Form = std::function<double(const PairedTask& own, const PairedTask& other)>;

double StreamsSpeed(double factor, const PairedTask& own, const PairedTask& other) {
  Interference model;
  model.streams_a = factor;
  const double sensitivity = AsTurns(model, {.sm_active = own.utilization}).sensitivity;
  return 1 / (1 + sensitivity * AsTurns(model, {.sm_active = other.utilization}).pressure);
}

double MpsSpeed(double sensitivity, const PairedTask& own, const PairedTask& other) {
  const auto load = [&](const PairedTask& task) {
    return Load{
        .sm_active = task.utilization, .sensitivity = sensitivity, .pressure = task.utilization};
  };
  const std::array loads{load(own), load(other)};
  std::array<double, 2> speeds{};
  Speeds(Interference{}, core::SharingMethod::kMps, loads, speeds);
  return speeds[0];
}

double MemorySpeed(double factor, const PairedTask& own, const PairedTask& other) {
  return 1 / (1 + factor * own.utilization * other.memory);
}

// Two tasks slow each other down only if the sum of their utilisations exceeds this value. These
// are nvidia-smi's utilisations, which count any kernel as busy. Fitted to Lucid's pairs on an RTX
// 3090.
constexpr double kUtilizationTogether = 1.14;

double UtilizationSpeed(const PairedTask& own, const PairedTask& other) {
  const double both = own.utilization + other.utilization;
  return both <= kUtilizationTogether ? 1 : kUtilizationTogether / both;
}

Agreement AgreementWith(const std::vector<MeasuredPair>& pairs, const Form& form) {
  std::vector<Prediction> predictions;
  predictions.reserve(2 * pairs.size());
  for (const auto& [one, other] : pairs) {
    predictions.push_back({one.speed, form(one, other)});
    predictions.push_back({other.speed, form(other, one)});
  }
  return AgreementOf(predictions);
}

using FormWithFactor = double (*)(double, const PairedTask&, const PairedTask&);

// Golden-section search, because the error has a single minimum.
double BestFactor(const std::vector<MeasuredPair>& pairs, FormWithFactor form) {
  const auto squares = [&](double factor) {
    return AgreementWith(pairs, std::bind_front(form, factor)).squares;
  };
  const double ratio = (std::sqrt(5.0) - 1) / 2;
  double low = 0, high = kMostFactor;
  while (high - low > kFactorStep) {
    const double left = high - ratio * (high - low);
    const double right = low + ratio * (high - low);
    if (squares(left) < squares(right)) {
      high = right;
    } else {
      low = left;
    }
  }
  return (low + high) / 2;
}

PairAgreement WithFactor(const std::vector<MeasuredPair>& pairs, FormWithFactor form, double factor,
                         bool fitted, std::string_view text) {
  return {AgreementWith(pairs, std::bind_front(form, factor)),
          fmt::format(fmt::runtime(text), factor), factor, fitted};
}

Result<MeasuredPair> ReadPair(const base::CsvRow& row) {
  MeasuredPair pair;
  for (std::size_t task = 0; task < pair.size(); ++task) {
    const std::string number = std::to_string(task + 1);
    const double speed = CARMA_TRY(row.Required("speed" + number, 1e-3, kMostSpeed));
    const double utilization = CARMA_TRY(row.Required("u" + number, 0, 100));
    const double memory = CARMA_TRY(row.Required("m" + number, 0, 100));
    pair[task] = {speed, utilization / 100, memory / 100};
  }
  return pair;
}

}  // namespace

Result<MeasuredPairs> ParsePairs(std::string_view csv, std::string_view path) {
  const std::string where = base::Printable(path, 200);
  const base::CsvTable table = CARMA_TRY(
      base::CsvTable::Parse(csv, {"speed1", "speed2", "u1", "m1", "u2", "m2"}, kMaxPairs, where));
  MeasuredPairs pairs;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const base::CsvRow row = table.Row(i);
    const std::string_view method = row.Text("method");
    if (!method.empty() && method != kStreamsWord && method != kMpsWord)
      return row.Wrong("column 'method': expected streams or mps");
    (method == kMpsWord ? pairs.mps : pairs.streams).push_back(CARMA_TRY(ReadPair(row)));
  }
  if (table.size() == 0) return Invalid(where + ": no pairs");
  return pairs;
}

std::vector<PairAgreement> ComparePairs(core::SharingMethod method,
                                        const std::vector<MeasuredPair>& pairs) {
  const bool mps = method == core::SharingMethod::kMps;
  const std::string_view text =
      mps ? "1 / (1 + {:.3g} u), u the neighbour's" : "1 / (1 + {:.3g} g g), g = 1 - (1 - u)^1.7";
  const double own = mps ? core::kUsualSensitivity : Interference{}.streams_a;
  const FormWithFactor form = mps ? MpsSpeed : StreamsSpeed;
  const auto alone = [](const PairedTask&, const PairedTask&) { return 1.0; };
  std::vector<PairAgreement> forms{
      {AgreementWith(pairs, alone), "no interference"},
      WithFactor(pairs, form, own, false, text),
      WithFactor(pairs, form, BestFactor(pairs, form), true, text),
      WithFactor(pairs, MemorySpeed, BestFactor(pairs, MemorySpeed), true,
                 "1 / (1 + {:.3g} u m), m the neighbour's memory")};
  if (!mps) {
    forms.push_back({AgreementWith(pairs, UtilizationSpeed),
                     fmt::format("1 if u + v <= {0}, otherwise {0} / (u + v); u, v from nvidia-smi",
                                 kUtilizationTogether)});
  }
  return forms;
}

}  // namespace carma::sim
