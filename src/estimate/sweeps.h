// Evaluates predictions on sweeps. A sweep is a table of measurements of one training program with
// many batch sizes, possibly on several GPU types. Some of the measurements are predicted from the
// others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/words.h"

namespace carma::estimate {

struct SweepPoint {
  std::string gpu;        // GPU type
  std::string benchmark;  // name of the training program
  std::int64_t batch = 0;
  std::int64_t mib = 0;  // as shown by the driver
};

// Returns true if a table has the columns of a sweep: gpu, benchmark, batch, mem_mib_median.
Result<bool> IsSweep(const std::string& path);
// Returns the errors of base::ReadFile, or kInvalid for a malformed row (with file and line) or if
// no row has a memory value.
Result<std::vector<SweepPoint>> ReadSweeps(const std::string& path);

// What is predicted, and from which measurements.
enum class SweepQuestion {
  kBatch,   // one batch from all other batches of the benchmark on this GPU
  kDouble,  // a batch at least twice as large, from the next two smaller batches
  kGpu,     // one batch from runs on another GPU type and the difference between contexts
  kSlope    // KiB per sample on this type, from the benchmark on another type
};
inline constexpr std::pair<SweepQuestion, std::string_view> kSweepQuestionWords[] = {
    {SweepQuestion::kBatch, "batch left out"},
    {SweepQuestion::kDouble, "from two smaller"},
    {SweepQuestion::kGpu, "GPU left out"},
    {SweepQuestion::kSlope, "sample, GPU left out"}};

// A question, the measured memory, and the prediction. `point` is 0 if there is no prediction.
struct SweepAnswer {
  SweepQuestion question{};
  std::string benchmark;
  std::int64_t measured = 0, point = 0, bound = 0;  // there is no bound for kSlope
};
std::vector<SweepAnswer> AskSweeps(const std::vector<SweepPoint>& points);

}  // namespace carma::estimate

namespace carma {
template <>
inline constexpr base::Words<estimate::SweepQuestion> base::kWordsOf<estimate::SweepQuestion> =
    estimate::kSweepQuestionWords;
}  // namespace carma
