#include <string>

#include "base/result.h"
#include "base/text.h"
#include "entries.h"
#include "sim/scenario.h"
#include "task/shim_protocol.h"

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

}  // namespace carma::fuzz
