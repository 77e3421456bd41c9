#include "daemon/gpus/core_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace carma::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

class CoreMeterTest : public ::testing::Test {
 protected:
  CoreMeterTest() : proc_(testing::TempDir() + "core_meter." + std::to_string(::getpid())) {
    std::filesystem::create_directories(proc_);
  }
  ~CoreMeterTest() override { std::filesystem::remove_all(proc_); }

  void Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = proc_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void Cores(double busy_s) {
    const auto ticks = static_cast<long>(busy_s * static_cast<double>(::sysconf(_SC_CLK_TCK)));
    Write("stat", "cpu  " + std::to_string(ticks) +
                      " 0 0 999 77 0 0 0 0 0\ncpu0 1 0\ncpu1 1 0\ncpu2 1 0\ncpu3 1 0\nintr 5\n");
  }
  void Process(int pid, double own_s, double waited_for_s, const std::string& children) {
    const auto ticks = [](double s) {
      return std::to_string(static_cast<long>(s * static_cast<double>(::sysconf(_SC_CLK_TCK))));
    };
    const std::string name = std::to_string(pid);
    Write(name + "/stat", name + " (a) b) S 1 1 1 0 -1 0 0 0 0 0 " + ticks(own_s) + " 0 " +
                              ticks(waited_for_s) + " 0 20 0 1 0 5\n");
    Write(name + "/task/" + name + "/children", children);
  }

  std::filesystem::path proc_;
};

TEST_F(CoreMeterTest, CountsTheMachineAndTheTreeOfEachTask) {
  CoreMeter meter(proc_.string());
  const std::map<core::TaskId, pid_t> mains{{core::TaskId{7}, 40}};
  Cores(100);
  Process(40, 10, 0, "41 ");
  Process(41, 5, 0, "");
  EXPECT_EQ(meter.Read(base::FromMs(0), mains), std::nullopt) << "one reading is not enough";
  Cores(106);
  Process(40, 11, 0, "41 ");
  Process(41, 8, 0, "");
  const auto sample = meter.Read(base::FromMs(2'000), mains);
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->cpus, 4);
  EXPECT_DOUBLE_EQ(sample->used_cpus, 3);
  EXPECT_THAT(sample->tasks_cpus, ElementsAre(Pair(core::TaskId{7}, 2)));
  Process(40, 11, 8, "");  // the child has exited, and its parent has reaped it
  const auto after = meter.Read(base::FromMs(4'000), mains);
  ASSERT_TRUE(after);
  EXPECT_THAT(after->tasks_cpus, ElementsAre(Pair(core::TaskId{7}, 1)));
}

TEST_F(CoreMeterTest, IgnoresReadingsOlderThanTenSeconds) {
  CoreMeter meter(proc_.string());
  Cores(0);
  meter.Read(base::FromMs(0), {});
  Cores(40);
  meter.Read(base::FromMs(10'000), {});
  const auto sample = meter.Read(base::FromMs(20'000), {});
  ASSERT_TRUE(sample);
  EXPECT_DOUBLE_EQ(sample->used_cpus, 0);
}

TEST_F(CoreMeterTest, ReportsNothingIfProcCannotBeRead) {
  CoreMeter meter(proc_.string() + "/nowhere");
  EXPECT_EQ(meter.Read(base::FromMs(0), {}), std::nullopt);
  EXPECT_EQ(meter.Read(base::FromMs(1'000), {}), std::nullopt);
}

}  // namespace
}  // namespace carma::daemon
