// The reasons given for waiting tasks, where the exact sentences matter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "core/scheduler/scheduler.h"

namespace carma::core {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Duration kMinute{60'000};

// One GPU, which is taken; the second task waits for it from the first minute on.
class KeptGpus : public ::testing::Test {
 protected:
  void Begin(int backfill) {
    PolicyConfig config;
    config.mapper = "first-fit";
    config.settle = false;
    config.sm_cap.reset();
    config.max_tasks_per_gpu = 1;
    config.backfill = backfill;
    config.pass_limit = 10 * kMinute;
    scheduler_ = std::make_unique<Scheduler>(config);
    Tell(Time{}, GpusDiscovered{{{.uuid = "GPU-0", .type = "A100", .total_mib = 40'000}}});
    Submit(Time{}, 1);
    Submit(Time{kMinute}, 2);
  }
  void Submit(Time when, std::uint64_t id) {
    Look(when);
    Tell(when, TaskSubmitted{TaskId{id}, TaskRequest{}});
    Tell(when, EstimateReady{TaskId{id}, Estimate{1'000, "given"}});
  }
  void Look(Time when) {
    GpuSample sample;
    sample.taken = when;
    sample.window_from = when - kMinute;
    sample.sm_active = 0.1;
    Tell(when, GpuSampled{GpuIndex{0}, sample});
  }
  void Tell(Time when, const Event& event) { scheduler_->Handle(when, event); }
  std::string Reason(std::uint64_t id, Time now) const {
    return *scheduler_->ReasonFor(TaskId{id}, now).text;
  }

  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(KeptGpus, TheFirstInLineIsToldFromWhenOnAndThenWhichThoughNobodyHasPassedIt) {
  Begin(9);
  EXPECT_THAT(Reason(2, Time{kMinute}),
              EndsWith(" GPUs are kept for it from 1970-01-01T00:11:00.000Z on."));
  Look(Time{11 * kMinute});
  EXPECT_THAT(Reason(2, Time{11 * kMinute}), EndsWith(" GPU 0 is kept for it."));
  EXPECT_THAT(Reason(2, Time{11 * kMinute}), Not(HasSubstr("started before it")));
  Submit(Time{12 * kMinute}, 3);
  EXPECT_THAT(Reason(3, Time{12 * kMinute}), Not(HasSubstr("kept for it")));
}

TEST_F(KeptGpus, WhereNobodyMayPassNoneAreKept) {
  Begin(1);
  EXPECT_THAT(Reason(2, Time{kMinute}), Not(HasSubstr("kept")));
  Look(Time{11 * kMinute});
  EXPECT_THAT(Reason(2, Time{11 * kMinute}), Not(HasSubstr("kept")));
}

}  // namespace
}  // namespace carma::core
