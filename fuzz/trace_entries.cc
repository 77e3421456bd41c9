#include <string>

#include "base/result.h"
#include "base/text.h"
#include "entries.h"
#include "trace/task_trace.h"
#include "trace/workloads.h"

namespace carma::fuzz {

void FuzzTrace(std::string_view bytes) {
  const auto trace = trace::ParseTrace(bytes, "fuzz.csv");
  if (!trace) {
    CARMA_CHECK(base::IsUtf8(trace.error().message), "a readable error");
    return;
  }
  CARMA_CHECK(!trace->submissions.empty(), "a trace has tasks");
  for (std::size_t i = 1; i < trace->submissions.size(); ++i) {
    CARMA_CHECK(trace->submissions[i - 1].at <= trace->submissions[i].at, "in order of time");
  }
}

void FuzzCatalogue(std::string_view bytes) {
  const auto catalogue = trace::Catalogue::Parse(bytes, "fuzz.csv");
  if (!catalogue) {
    CARMA_CHECK(base::IsUtf8(catalogue.error().message), "a readable error");
    return;
  }
  const auto workload = catalogue->Find("resnet50-b32");
  if (!workload) return;
  CARMA_CHECK((*workload)->memory_mib.size() == static_cast<std::size_t>((*workload)->gpus),
              "memory for each GPU");
  CARMA_CHECK(!trace::SimTaskArguments(**workload).empty(), "arguments");
  for (const char* kind : {"none", "oracle", "horus", "faketensor", "gpumemnet"}) {
    const auto estimate = trace::Estimate(**workload, *trace::ParseEstimateKind(kind));
    CARMA_CHECK(!estimate.mib || *estimate.mib > 0, "an estimate is a size");
  }
}

}  // namespace carma::fuzz
