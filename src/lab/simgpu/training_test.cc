// Tests with real processes on a simulated server whose clock runs fast. They wait for the
// processes to act, never for a fixed time.
#include "lab/simgpu/training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "base/clock.h"
#include "base/process_id.h"
#include "base/unique_fd.h"
#include "lab/simgpu/process_fixture.h"
#include "lab/simgpu/server_fixture.h"
#include "lab/simgpu/visible_gpus.h"

namespace carma::simgpu {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TrainingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = Server::Attach(server_.path());
    ASSERT_TRUE(server);
    shared_ = std::move(*server);
  }
  void TearDown() override {
    EXPECT_THAT(*shared_->Residents(), ::testing::IsEmpty());
    EXPECT_EQ(shared_->Look(0)->used_mib, 0);
  }
  TrainingOptions Options() const {
    TrainingOptions options;
    options.state_path = server_.path();
    options.memory_mib = {8'000};
    options.solo_s = 20;
    options.load_s = 14;
    options.epochs = 4;
    return options;
  }
  std::unique_ptr<Residency> Hold(std::int64_t memory_mib) {
    std::optional<Shortage> shortage;
    return std::move(*shared_->Join({.pid = ::getpid(), .shares = {{0, memory_mib, 0}}}, shortage));
  }

  TestServer server_{"2xA100-40GB", {.time_scale = 2'000}};
  std::unique_ptr<Server> shared_;
};

TEST_F(TrainingTest, ATaskLoadsWorksReportsAndLeaves) {
  const double began_s = shared_->Now();
  Process task(Options());
  EXPECT_EQ(task.Wait(), 0) << task.err();
  EXPECT_THAT(task.out(),
              HasSubstr("epoch 1/4 done\nepoch 2/4 done\nepoch 3/4 done\nepoch 4/4 done\n"));
  EXPECT_GE(shared_->Now() - began_s, 34 - 10e-3 * 2'000) << "at most one kernel tick early";
  EXPECT_NEAR(shared_->Look(0)->totals.busy_s, 20, 1e-3) << "the work ends exactly on time";
}

TEST_F(TrainingTest, EveryRunEndsAsItsOptionsState) {
  struct Case {
    const char* name;
    std::function<void(TrainingOptions&)> change;
    int exit_code;  // negative: the signal that killed it
    const char* out;
    const char* err;
  };
  const Case cases[] = {
      {"quick task", [](auto& o) { o.solo_s = o.load_s = 0; }, 0, "training finished", ""},
      {"PyTorch out of memory while allocating states", [](auto& o) { o.memory_mib = {70'000}; }, 1,
       "loading",
       "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 41.02 GiB. GPU 0 has a total "
       "capacity of 39.59 GiB of which 38.61 GiB is free."},
      {"PyTorch out of memory at the first batch", [](auto& o) { o.memory_mib = {50'000}; }, 1,
       "loading",
       "Tried to allocate 19.53 GiB. GPU 0 has a total capacity of 39.59 GiB of which 9.31 GiB is "
       "free. "
       "Including non-PyTorch memory, this process has 29.30 GiB memory in use."},
      {"TensorFlow out of memory",
       [](auto& o) { o.memory_mib = {70'000}, o.framework = Framework::kTensorFlow; }, 1, "loading",
       "RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[168000,256,256]"},
      {"JAX out of memory", [](auto& o) { o.memory_mib = {70'000}, o.framework = Framework::kJax; },
       1, "loading",
       "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 44040192000 bytes."},
      {"late growth", [](auto& o) { o.grow_at = 0.5, o.grow_mib = 40'000; }, 1, "epoch 2/4 done",
       "torch.OutOfMemoryError"},
      {"growth that fits", [](auto& o) { o.grow_at = 0.5, o.grow_mib = 4'000; }, 0,
       "training finished", ""},
      {"a crash unrelated to memory", [](auto& o) { o.fail_at = 0.5, o.exit_code = 7; }, 7,
       "epoch 2/4 done", "KeyError: 'label'"},
      {"a signal to itself", [](auto& o) { o.kill_self_at = 0.25, o.signal = SIGABRT; }, -SIGABRT,
       "epoch 1/4 done", ""},
      {"TensorFlow's harmless warning", [](auto& o) { o.warn_oom = true; }, 0, "training finished",
       "The caller indicates that this is not a failure"},
      {"no GPU visible", [](auto& o) { o.visible_devices = ""; }, 1, "",
       "No CUDA GPUs are available"},
      {"a GPU twice", [](auto& o) { o.visible_devices = "0,0"; }, 2, "", "twice"},
      {"no server", [](auto& o) { o.state_path += ".none"; }, 2, "", "No such file"},
      {"no server named", [](auto& o) { o.state_path.clear(); }, 2, "", "CARMA_SIMGPU_STATE"},
  };
  const auto neighbour = Hold(1'000);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    TrainingOptions options = Options();
    c.change(options);
    Process task(options);
    EXPECT_EQ(task.Wait(), c.exit_code);
    EXPECT_THAT(task.out(), HasSubstr(c.out));
    EXPECT_THAT(task.err(), HasSubstr(c.err));
    if (c.exit_code == 7) {
      EXPECT_THAT(task.err(), Not(HasSubstr("memory")));
    }
    EXPECT_EQ(shared_->Look(0)->used_mib, 1'000);
  }
}

TEST_F(TrainingTest, SigtermEndsATaskCleanlyAtAnyTime) {
  for (const bool loading : {true, false}) {
    TrainingOptions options = Options();
    if (loading) options.load_s = 1e9;
    options.hang_at = 0.25;
    Process task(options);
    ASSERT_TRUE(task.ReadUntil(loading ? "loading" : "epoch 1/4 done"));
    task.Kill(SIGTERM);
    EXPECT_EQ(task.Wait(), 143);
    EXPECT_THAT(task.err(), HasSubstr("received SIGTERM"));
  }
}

TEST_F(TrainingTest, ATaskThatIgnoresSigtermNeedsSigkill) {
  TrainingOptions options = Options();
  options.ignore_term = true;
  options.hang_at = 0.5;
  Process task(options);
  ASSERT_TRUE(task.ReadUntil("epoch 1/4 done"));
  task.Kill(SIGTERM);
  ASSERT_TRUE(task.ReadUntil("epoch 2/4 done"));
  EXPECT_EQ(shared_->Look(0)->used_mib, 8'000);
  task.Kill(SIGKILL);
  EXPECT_EQ(task.Wait(), -SIGKILL);
}

TEST_F(TrainingTest, AGrandchildCanUseTheGpu) {
  TrainingOptions options = Options();
  options.double_fork = true;
  options.hang_at = 0.25;
  Process task(options);
  ASSERT_TRUE(task.ReadUntil("epoch 1/4 done"));
  const auto residents = shared_->Residents();
  ASSERT_EQ(residents->size(), 1u);
  EXPECT_NE((*residents)[0].pid, task.pid());
  const auto stat = base::ReadProcessStat((*residents)[0].pid);
  ASSERT_TRUE(stat);
  EXPECT_NE(stat->session, ::getsid(0));
  EXPECT_NE(stat->parent, task.pid());
  ::kill(stat->id.pid, SIGTERM);
  EXPECT_EQ(task.Wait(), 143) << "the grandchild's exit code";
}

TEST_F(TrainingTest, ContinuesFromItsCheckpoint) {
  TrainingOptions options = Options();
  options.checkpoint_signal = SIGUSR1;
  options.checkpoint_file = server_.folder() + "/checkpoint";
  options.hang_at = 0.5;
  {
    Process task(options);
    ASSERT_TRUE(task.ReadUntil("epoch 2/4 done"));
    task.Kill(SIGUSR1);
    ASSERT_TRUE(task.ReadUntil("checkpoint saved"));
    task.Kill(SIGKILL);
    EXPECT_EQ(task.Wait(), -SIGKILL);
  }
  options.hang_at.reset();
  Process again(options);
  EXPECT_EQ(again.Wait(), 0);
  EXPECT_THAT(again.out(), HasSubstr("resumed from " + options.checkpoint_file));
  EXPECT_THAT(again.out(), Not(HasSubstr("epoch 1/4")));
  EXPECT_THAT(again.out(), HasSubstr("epoch 4/4 done"));
}

TEST_F(TrainingTest, IgnoresAForeignCheckpointFile) {
  TrainingOptions options = Options();
  options.checkpoint_file = server_.folder() + "/checkpoint";
  for (const char* text : {"", "nonsense", "carma-simtask checkpoint 1\nwork_left_s nan\n",
                           "carma-simtask checkpoint 1\nwork_left_s 1e9\n"}) {
    ASSERT_TRUE(base::WriteFileAtomic(options.checkpoint_file, text));
    Process task(options);
    EXPECT_EQ(task.Wait(), 0);
    EXPECT_THAT(task.out(), HasSubstr("epoch 1/4"));
  }
}

TEST_F(TrainingTest, AFloodHasTheRequestedSize) {
  TrainingOptions options = Options();
  options.log_flood_bytes = 300'000;
  options.epochs = 0;
  Process task(options);
  EXPECT_EQ(task.Wait(), 0);
  EXPECT_EQ(std::ranges::count(task.out(), '#') * 100 / 99, 300'000);
}

TEST_F(TrainingTest, ATaskOnTwoGpusNeedsBoth) {
  TrainingOptions options = Options();
  options.visible_devices = shared_->places()[1].uuid + "," + shared_->places()[0].uuid;
  options.memory_mib = {1'000, 2'000};
  options.hang_at = 0.25;
  Process task(options);
  ASSERT_TRUE(task.ReadUntil("epoch 1/4 done"));
  EXPECT_EQ(shared_->Look(1)->used_mib, 1'000);
  EXPECT_EQ(shared_->Look(0)->used_mib, 2'000);
  task.Kill(SIGKILL);
  EXPECT_EQ(task.Wait(), -SIGKILL);
}

TEST_F(TrainingTest, ReadsVisibleDevicesAsCudaDoes) {
  const std::vector<GpuIdentity>& gpus = shared_->places();
  struct Case {
    std::string text;
    std::vector<int> expected;
  };
  const Case cases[] = {{"0", {0}},
                        {"1,0", {1, 0}},
                        {" 1 ", {1}},
                        {gpus[1].uuid, {1}},
                        {gpus[1].uuid.substr(0, 9) + ",0", {1, 0}},
                        {"GPU-", {}},  // ambiguous: both UUIDs begin like this
                        {"0,7,1", {0}},
                        {"0,-1,1", {0}},
                        {"", {}},
                        {"MIG-x", {}}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    EXPECT_EQ(VisibleGpus(gpus, c.text).value(), c.expected);
  }
  EXPECT_FALSE(VisibleGpus(gpus, "1," + gpus[1].uuid));
}

TEST(DividedTraining, ATaskSeesOnlyItsInstanceAndComputesThere) {
  TestServer server("A100-40GB,A100-80GB:mig=3g.40gb+1g.10gb,A100-40GB:mig=",
                    {.time_scale = 2'000});
  const auto shared = Server::Attach(server.path());
  ASSERT_TRUE(shared);
  const std::vector<GpuIdentity>& places = (*shared)->places();
  struct Case {
    std::string text;
    std::vector<int> expected;
  };
  const Case cases[] = {
      {places[4].uuid, {4}},
      {"1", {3}},  // a MIG GPU stands for its first instance
      {places[1].uuid, {3}},
      {places[4].uuid + "," + places[3].uuid, {4}},  // one instance, and nothing else
      {"0," + places[3].uuid, {0}},
      {"2", {}},  // partitioned, but has no instances
      {"3", {}},  // instances have no numbers
  };
  for (const Case& c : cases) EXPECT_EQ(VisibleGpus(places, c.text).value(), c.expected) << c.text;
  const std::vector<GpuIdentity> only = {places[4]};
  EXPECT_EQ(VisibleGpus(only, "0").value(), std::vector<int>{0}) << "as an MPS server lists it";

  TrainingOptions options;
  options.state_path = server.path();
  options.visible_devices = places[4].uuid;
  options.memory_mib = {10'200};
  Process too_big(options);
  EXPECT_EQ(too_big.Wait(), 1);
  EXPECT_THAT(too_big.err(), HasSubstr("GPU 0 has a total capacity of 9.90 GiB"));
  options.memory_mib = {8'000};
  options.sm_active = {0.5};
  options.solo_s = 10;
  Process task(options);
  EXPECT_EQ(task.Wait(), 0) << task.err();
  EXPECT_NEAR((*shared)->Look(4)->totals.busy_s, 10 / 1.15 / (1.0 / 7 / 0.5), 1e-3);
  EXPECT_EQ((*shared)->Look(3)->totals.busy_s, 0);
}

TEST_F(TrainingTest, AFaultOfItsKernelIsAnnouncedUnlessItIsSilent) {
  TrainingOptions options = Options();
  options.fault_at = 0.5;
  options.xid = 43;
  Process task(options);
  EXPECT_EQ(task.Wait(), 1);
  EXPECT_THAT(task.out(), HasSubstr("epoch 2/4 done"));
  EXPECT_THAT(task.out(), Not(HasSubstr("epoch 3/4 done")));
  EXPECT_THAT(task.err(), HasSubstr("CUDA error: an illegal memory access was encountered"));
  EXPECT_EQ(shared_->XidsFrom(0)->events, (std::vector<XidEvent>{{0, 43}}));
  options.xid = 0;
  options.framework = Framework::kJax;
  Process silent(options);
  EXPECT_EQ(silent.Wait(), 1);
  EXPECT_THAT(silent.err(), HasSubstr("INTERNAL: CUDA error: CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_EQ(shared_->XidsFrom(0)->count, 1u);
}

TEST(ProcessStart, LiesBeforeNowWithinTheKernelsTick) {
  const std::int64_t start = ProcessStartNs();
  EXPECT_LE(start, base::BootTimeNs());
  EXPECT_NEAR(static_cast<double>(start),
              static_cast<double>(base::SelfProcess().start_ticks) * 1e7, 1.0e7 + 1);
}

}  // namespace
}  // namespace carma::simgpu
