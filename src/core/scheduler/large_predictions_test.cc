// Tests tasks whose promised memory is below their predicted bound. Their memory limits still allow
// the bound.
#include <gtest/gtest.h>

#include <variant>
#include <vector>

#include "core/scheduler/scheduler.h"

namespace carma::core {
namespace {

Time AtMinute(std::int64_t minutes) {
  return Time{Duration{60'000 * minutes}};
}

class LargePrediction : public ::testing::Test {
 protected:
  LargePrediction() : scheduler_(Rules()) {
    scheduler_.Handle(AtMinute(0),
                      GpusDiscovered{{{.uuid = "GPU-0", .type = "A100", .total_mib = 40'000}}});
  }
  static PolicyConfig Rules() {
    PolicyConfig rules;
    rules.settle = false;
    rules.sm_cap.reset();
    rules.margin_mib = 0;
    return rules;
  }
  std::vector<Action> Submit(Time when, std::uint64_t id, const Estimate& estimate) {
    scheduler_.Handle(when, TaskSubmitted{TaskId{id}, TaskRequest{}});
    return scheduler_.Handle(when, EstimateReady{TaskId{id}, estimate});
  }
  std::vector<Action> Sample(Time when) {
    GpuSample sample;
    sample.taken = when;
    sample.window_from = when;
    return scheduler_.Handle(when, GpuSampled{GpuIndex{0}, sample});
  }
  static const StartTask* StartIn(const std::vector<Action>& actions) {
    for (const Action& each : actions) {
      if (const auto* start = std::get_if<StartTask>(&each)) return start;
    }
    return nullptr;
  }

  Scheduler scheduler_;
};

TEST_F(LargePrediction, IsPromisedItsLikelyValueAndMayHoldItsBound) {
  Sample(AtMinute(0));
  Submit(AtMinute(0), 1, {10'000, "given"});
  const std::vector<Action> actions =
      Submit(AtMinute(0), 2, {.peak_mib = 40'000, .method = "structural", .predicted_mib = 20'000});
  const StartTask* start = StartIn(actions);
  ASSERT_NE(start, nullptr);
  EXPECT_EQ(start->placement.front().claim_mib, 20'000);
  EXPECT_EQ(start->bound_mib, 40'000) << "it may use the predicted bound";
}

TEST_F(LargePrediction, BeginsAtHalfOfTheGpu) {
  Sample(AtMinute(0));
  Submit(AtMinute(0), 1, {30'000, "given"});
  Submit(AtMinute(0), 2, {.peak_mib = 19'000, .method = "structural", .predicted_mib = 8'000});
  EXPECT_EQ(StartIn(Sample(AtMinute(120))), nullptr);
}

}  // namespace
}  // namespace carma::core
