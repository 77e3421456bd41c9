#include "daemon/gpus/policy_violations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/process_id.h"
#include "daemon/gpus/idle_holders.h"
#include "daemon/gpus/monitor.h"

namespace carma::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Sighting Of(std::uint64_t id, int attempt, bool caught) {
  return {core::TaskId{id}, attempt, caught};
}

TEST(FirstSightings, ReportEachAttemptOnce) {
  FirstSightings first;
  EXPECT_THAT(first.Take({Of(1, 1, false), Of(2, 1, true)}), ElementsAre(core::TaskId{2}));
  EXPECT_THAT(first.Take({Of(1, 1, false), Of(2, 1, true)}), IsEmpty());
  EXPECT_THAT(first.Take({Of(1, 1, false), Of(2, 1, false)}), IsEmpty());
  EXPECT_THAT(first.Take({Of(1, 1, true), Of(2, 1, true)}), ElementsAre(core::TaskId{1}));
  EXPECT_THAT(first.Take({Of(1, 1, true), Of(2, 2, true)}), ElementsAre(core::TaskId{2}));
  EXPECT_THAT(first.Take({}), IsEmpty());
  EXPECT_THAT(first.Take({Of(1, 1, true)}), ElementsAre(core::TaskId{1})) << "it was forgotten";
}

class WrongGpusTest : public ::testing::Test {
 protected:
  WrongGpusTest() {
    attribution_.Add(record_.id, base::SelfProcess(), "");
    record_.attempt.Edit().placement = {{core::GpuIndex{0}, 1'000}};
  }
  // Takes a reading of both GPUs. The task has a process on each GPU whose parameter is true.
  void See(std::int64_t second, bool on_first, bool on_second) {
    gpu::Round round;
    for (const bool there : {on_first, on_second}) {
      gpu::Reading reading;
      reading.taken = base::FromMs(second * 1'000);
      reading.total_mib = 40'960;
      if (there) reading.processes = {{.pid = ::getpid(), .used_mib = 500}};
      reading.used_mib = there ? 500 : 0;
      round.emplace_back(reading);
    }
    monitor_.Take(base::FromMs(second * 1'000), round,
                  WhoUses(round, SeeProcesses(round), attribution_));
  }

  core::TaskRecord record_{.id = core::TaskId{7}};
  Attribution attribution_;
  Monitor monitor_{{{.uuid = "GPU-0", .total_mib = 40'960}, {.uuid = "GPU-1", .total_mib = 40'960}},
                   {}};
};

TEST_F(WrongGpusTest, ListsGpusThatWereNotAssigned) {
  See(1, true, false);
  EXPECT_THAT(WrongGpus(record_, monitor_), IsEmpty());
  See(2, true, true);
  EXPECT_THAT(WrongGpus(record_, monitor_), ElementsAre(core::GpuIndex{1}));
  See(3, false, false);
  EXPECT_THAT(WrongGpus(record_, monitor_), IsEmpty());
}

TEST_F(WrongGpusTest, ATaskThatComputesElsewhereIsNotIdle) {
  See(1, false, false);
  EXPECT_EQ(LookAtHolder(record_, monitor_, 0.01).sight, HolderSight::kIdle);
  See(2, false, true);
  EXPECT_EQ(LookAtHolder(record_, monitor_, 0.01).sight, HolderSight::kBusy);
}

}  // namespace
}  // namespace carma::daemon
