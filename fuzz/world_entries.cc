#include <cmath>
#include <string>

#include "base/result.h"
#include "base/text.h"
#include "entries.h"
#include "lab/sim/pairs.h"
#include "lab/sim/reservation_words.h"
#include "lab/sim/residency.h"
#include "task/shim/shim_protocol.h"
#include "tests/scenario/scenario.h"

namespace carma::fuzz {

void FuzzShim(std::string_view bytes) {
  CheckError(task::ParseShimOrder(bytes));
  CheckError(task::ParseShimOwner(bytes));
  CheckError(task::ParseShimStarted(bytes));
  CheckError(task::ParseShimReport(bytes));
}

void FuzzScenario(std::string_view bytes) {
  CheckError(sim::ParseScenario(bytes, "fuzz.scenario"));
}

void FuzzResidency(std::string_view bytes) {
  const auto tasks = sim::ParseMeasuredTasks(bytes, "fuzz.csv");
  CheckError(tasks);
  if (!tasks) return;
  static const trace::Catalogue kCatalogue = *trace::Catalogue::BuiltIn();
  const auto residency = sim::ReplayResidency(*tasks, kCatalogue, {}, sim::LoadAsGuessed);
  CheckError(residency);
  if (!residency) return;
  CARMA_CHECK(residency->predicted.size() == tasks->size(), "there is a prediction for each task");
  for (const double slowdown : residency->predicted) {
    CARMA_CHECK(slowdown >= 1 - 1e-9, "neighbours do not make a task faster");
  }
}

void FuzzReservation(std::string_view bytes) {
  const auto booking = sim::ParseReservation(bytes);
  CheckError(booking);
  if (!booking) return;
  const core::Time first = base::FromMs(420'000);
  const core::Time horizon = first + std::chrono::hours(10 * 24);
  for (const core::ReservedPeriod& each : sim::PeriodsOf({&*booking, 1}, first, first, horizon)) {
    CARMA_CHECK(each.from >= first && each.from < each.to, "a period begins before it ends");
    CARMA_CHECK(each.to - each.from == booking->length,
                "a period has the length of its reservation");
  }
}

void FuzzPairs(std::string_view bytes) {
  const auto pairs = sim::ParsePairs(bytes, "fuzz.csv");
  CheckError(pairs);
  if (!pairs) return;
  for (const auto& [method, of_method] : {std::pair(core::SharingMethod::kStreams, &pairs->streams),
                                          std::pair(core::SharingMethod::kMps, &pairs->mps)}) {
    // Fitting larger inputs would take too long.
    if (of_method->empty() || of_method->size() > 1'000) continue;
    for (const sim::PairAgreement& each : sim::ComparePairs(method, *of_method)) {
      CARMA_CHECK(std::isfinite(each.mean_error) && each.mean_error >= 0,
                  "the mean error is finite and not negative");
      CARMA_CHECK(std::isfinite(each.r2) && each.r2 <= 1, "R² is at most 1");
    }
  }
}

}  // namespace carma::fuzz
