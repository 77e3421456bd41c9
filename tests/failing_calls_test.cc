// Tests that carmad survives the failure of any single call that creates a descriptor, thread or
// process. No task must fail because of it, and carmad must work normally again afterwards.
#include "tests/failing_calls.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "base/json.h"
#include "base/unique_fd.h"
#include "cli/calls.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

class FailingCalls : public ::testing::Test {
 protected:
  FailingCalls() {
    const base::UniqueFd fd(::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_EQ(::ftruncate(fd.get(), sizeof(CallOrders)), 0);
    void* memory =
        ::mmap(nullptr, sizeof(CallOrders), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    EXPECT_NE(memory, MAP_FAILED);
    orders_ = static_cast<CallOrders*>(memory);
  }
  ~FailingCalls() override { ::munmap(orders_, sizeof(CallOrders)); }

  std::map<std::string, std::string> Environment() const {
    return {{"LD_PRELOAD", CARMA_FAILING_CALLS_LIBRARY}, {"FAILING_CALLS", file_}};
  }
  // Makes calls `first` through `last` fail, counting from now.
  void Fail(std::int64_t first, std::int64_t last) {
    orders_->first = orders_->last = 0;
    orders_->calls = 0;
    orders_->last = last;
    orders_->first = first;
  }
  void Mend() { orders_->first = orders_->last = 0; }
  std::string Told(std::int64_t first, std::int64_t last) const {
    return fmt::format("calls {} to {} failed, the last was {}\n{}", first, last,
                       std::string(orders_->failed), site_.daemon().Err());
  }

  // Repeats the submission until carmad accepts it.
  std::uint64_t Submit() {
    const base::Json body = {{"spec",
                              {{"name", "t"},
                               {"command", {"/bin/true"}},
                               {"workdir", "/"},
                               {"memory_mib", 100},
                               {"stdout_path", "/dev/null"},
                               {"environment", base::Json::object()}}}};
    std::uint64_t id = 0;
    EXPECT_TRUE(Eventually([&] {
      api::Client client(site_.socket());
      const auto answer = client.Call("POST", "/v1/tasks", base::DumpJson(body), 10);
      if (!answer) return false;
      id = base::ParseJson(*answer).value().at("first");
      return true;
    }));
    return id;
  }
  bool Lives() const {
    return !WaitReadable(site_.daemon().end_fd(), std::chrono::milliseconds(0));
  }
  // Submits a task, which must succeed even though calls `first` through `last` fail. Returns how
  // many calls were made.
  std::int64_t Work(std::int64_t first, std::int64_t last) {
    Fail(first, last);
    const std::uint64_t id = Submit();
    std::string state;
    const bool ended = Eventually([&] {
      api::Client client(site_.socket());
      const auto task = cli::AwaitTask(client, id, 10);
      if (task) state = task->value.state;
      return (task && task->value.ended_ms) || !Lives();
    });
    const std::int64_t calls = orders_->calls;
    Mend();
    EXPECT_TRUE(Lives() && ended) << Told(first, last);
    EXPECT_EQ(state, "succeeded") << Told(first, last);
    return calls;
  }

  mutable Site site_{{.settings = {{"monitor.sample_period", "\"60s\""},
                                   {"monitor.window", "\"120s\""},
                                   {"policy.settle", "false"}}}};
  const std::string file_ = site_.folder() / "orders";
  CallOrders* orders_ = nullptr;
};

TEST_F(FailingCalls, OneCallThatFailsCostsNoTask) {
  site_.Start(true, {.environment = Environment()});
  std::int64_t made = 1;
  for (std::int64_t number = 1; number <= std::min<std::int64_t>(made, 200); ++number) {
    made = std::max(made, Work(number, number));
    if (HasFailure()) return;
  }
  EXPECT_GT(made, 10) << "nothing is tested";
}

TEST_F(FailingCalls, ManyCallsThatFailCostNoTask) {
  site_.Start(true, {.environment = Environment()});
  for (const std::int64_t many : {4, 30}) {
    for (std::int64_t number = 1; number <= 40; number += 3) {
      Work(number, number + many);
      if (HasFailure()) return;
    }
  }
}

TEST_F(FailingCalls, AFailedStartIsReportedAndTheNextOneWorks) {
  Fail(0, 0);
  site_.Start(true, {.environment = Environment()});
  const std::int64_t made = orders_->calls;
  site_.Stop(SIGTERM);
  for (std::int64_t number = 1; number <= std::min<std::int64_t>(made, 150); ++number) {
    Fail(number, number);
    Child daemon = Child::Start({Program("carmad"), "--config", site_.config_file()},
                                {.environment = Environment()});
    bool serves = false;
    EXPECT_TRUE(Eventually([&] {
      if (WaitReadable(daemon.end_fd(), std::chrono::milliseconds(1))) return true;
      api::Client client(site_.socket());
      serves = cli::ListGpus(client).has_value();
      return serves;
    })) << "call "
        << number << " (" << orders_->failed << "): carmad neither serves nor exits\n"
        << daemon.Err();
    Mend();
    if (serves) daemon.Signal(SIGTERM);
    const Ran ran = daemon.Wait();
    EXPECT_EQ(ran.signal, 0) << "call " << number << " (" << orders_->failed << ")\n" << ran.Text();
    EXPECT_TRUE(serves ? ran.code == 0 : ran.code == 1 || ran.code == 2)
        << "call " << number << " (" << orders_->failed << ")\n"
        << ran.Text();
    if (HasFailure()) return;
  }
  EXPECT_GT(made, 10) << "nothing is tested";
  site_.Start();
  EXPECT_EQ(site_.Await(site_.Submit({"--", "/bin/true"})).state, "succeeded");
}

}  // namespace
}  // namespace carma::system_test
