#include <string>

#include "base/result.h"
#include "base/text.h"
#include "entries.h"
#include "sim/residency.h"
#include "task/shim/shim_protocol.h"
#include "tests/scenario/scenario.h"

namespace carma::fuzz {
namespace {

template <class T>
void CheckError(const base::Result<T>& result) {
  if (result) return;
  CARMA_CHECK(result.error().message.find('\n') == std::string::npos, "an error is one line");
}

}  // namespace

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
  CARMA_CHECK(residency->predicted.size() == tasks->size(), "an answer for each task");
  for (const double slowdown : residency->predicted) {
    CARMA_CHECK(slowdown >= 1 - 1e-9, "neighbours make nobody faster");
  }
}

}  // namespace carma::fuzz
