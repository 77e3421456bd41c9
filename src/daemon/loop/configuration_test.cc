#include "daemon/loop/configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <functional>

#include "base/file.h"

namespace carma::daemon {
namespace {

namespace asio = boost::asio;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kLongest = std::chrono::seconds(30);

class ConfigurationTest : public ::testing::Test {
 protected:
  ConfigurationTest() {
    std::string pattern = ::testing::TempDir() + "carma-configuration-XXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    Write("");
    configuration_ = std::make_unique<Configuration>(
        loop_, *config::Load(Sources()), [this] { return Sources(); }, clock_,
        [this](Configuration::InForce taken) {
          taken_.push_back(std::move(taken));
          if (on_take_) on_take_();
        });
  }
  ~ConfigurationTest() override { std::filesystem::remove_all(dir_); }

  config::Sources Sources() const {
    return {
        .files = {{dir_ + "/carma.toml", false}}, .environment = {}, .overrides = {}, .root = true};
  }
  void Write(const std::string& text) const {
    EXPECT_TRUE(base::WriteFileAtomic(dir_ + "/carma.toml", text));
  }
  void Until(const std::function<bool()>& so) {
    const auto patience = std::chrono::steady_clock::now() + kLongest;
    while (!so() && std::chrono::steady_clock::now() < patience) loop_->run_one_for(kLongest);
    ASSERT_TRUE(so());
  }
  bool Told(const std::string& what) const {
    return configuration_->trouble().find(what) != std::string::npos;
  }

  std::string dir_;
  base::SystemClock clock_;
  std::shared_ptr<asio::io_context> loop_ = std::make_shared<asio::io_context>(1);
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(*loop_);
  std::vector<Configuration::InForce> taken_;
  std::function<void()> on_take_;
  std::unique_ptr<Configuration> configuration_;
};

TEST_F(ConfigurationTest, ProfilesAreReadAgainWithTheConfiguration) {
  const std::string path = dir_ + "/profiles.csv";
  const std::string header =
      "workload,gpu_type,sm_active,sensitivity,pressure,load_s,time_s,iterations,memory_mib,runs,"
      "time_spread,meetings,fit_error,signature\n";
  Write("estimate.profiles = '" + path + "'\n");
  configuration_->ReadAgain();
  Until([&] { return Told("estimate.profiles: "); });
  EXPECT_THAT(taken_, IsEmpty()) << "no such file";
  ASSERT_TRUE(base::WriteFileAtomic(path, header + "mine,A100,0.4,,,1,60,,2000,3,0,0,,1000-abc\n"));
  configuration_->ReadAgain();
  Until([&] { return taken_.size() == 1; });
  ASSERT_NE(taken_[0].profiles, nullptr);
  EXPECT_NE(taken_[0].profiles->Of("1000-abc", "A100"), nullptr);
  ASSERT_TRUE(base::WriteFileAtomic(path, header + "mine,A100,4,,,1,60,,2000,3,0,0,,1000-abc\n"));
  configuration_->ReadAgain();
  Until([&] { return Told("profiles.csv:2"); });
  EXPECT_EQ(taken_.size(), 1U);
  Write("");
  configuration_->ReadAgain();
  Until([&] { return taken_.size() == 2; });
  EXPECT_EQ(taken_[1].profiles, nullptr);
}

TEST_F(ConfigurationTest, AppliesReloadableKeysAndNamesTheOthers) {
  const base::Time before = configuration_->read_at();
  Write("task.max_queued = 7\nmonitor.window = '5m'\ndaemon.allow_groups = ['root']\n");
  configuration_->ReadAgain();
  Until([&] { return taken_.size() == 1; });
  EXPECT_EQ(taken_[0].settings.max_queued_tasks, 7U);
  EXPECT_EQ(taken_[0].settings.window, base::Duration(60'000)) << "changes only at a restart";
  EXPECT_THAT(taken_[0].allow_groups, ElementsAre(0U));
  EXPECT_THAT(configuration_->need_restart(), ElementsAre("monitor.window"));
  EXPECT_GE(configuration_->read_at(), before);
  Write("");
  configuration_->ReadAgain();
  Until([&] { return taken_.size() == 2; });
  EXPECT_EQ(taken_[1].settings.max_queued_tasks, config::Settings{}.max_queued_tasks);
  EXPECT_THAT(configuration_->need_restart(), IsEmpty());
}

TEST_F(ConfigurationTest, AMistakeChangesNothingUntilItIsCorrected) {
  Write("task.max_queued = 7\n\npolicy.sm_cap = 80\n");
  configuration_->ReadAgain();
  Until([&] { return Told("carma.toml:3: policy.sm_cap"); });
  Write("daemon.socket_group = 'nogroup_x'\n");
  configuration_->ReadAgain();
  Until([&] { return Told("daemon.socket_group: no group 'nogroup_x'"); });
  EXPECT_THAT(taken_, IsEmpty());
  Write("");
  configuration_->ReadAgain();
  Until([&] { return taken_.size() == 1; });
  EXPECT_EQ(configuration_->trouble(), "");
}

TEST_F(ConfigurationTest, ARemovedGroupAdmitsNoUser) {
  Write("daemon.allow_groups = ['nogroup_x']\n");
  configuration_->ReadAgain();
  Until([&] { return !configuration_->unknown_groups().empty(); });
  EXPECT_EQ(configuration_->trouble(), "");
  EXPECT_THAT(configuration_->unknown_groups(), ElementsAre("no group 'nogroup_x'"));
  ASSERT_EQ(taken_.size(), 1U);
  EXPECT_THAT(taken_[0].allow_groups, ElementsAre(kNoGroup)) << "an empty list would admit all";
  Write("daemon.allow_groups = ['root']\n");
  configuration_->ReadAgain();
  Until([&] { return configuration_->unknown_groups().empty(); });
  EXPECT_THAT(taken_.back().allow_groups, ElementsAre(0U));
}

// An unknown administrator is only logged.
TEST_F(ConfigurationTest, UsersAndGroupsThatDoNotExistAreLogged) {
  ::testing::internal::CaptureStderr();
  Write("daemon.admins = ['nobodyhere']\ndaemon.allow_groups = ['nogroup_x']\n");
  configuration_->ReadAgain();
  Until([&] { return !configuration_->unknown_groups().empty(); });
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("event=unknown_name key=daemon.admins why=\"no user 'nobodyhere'\""));
  EXPECT_THAT(log, HasSubstr(dir_ + "/carma.toml:2"));
}

TEST_F(ConfigurationTest, ReadsOnceMoreIfCalledDuringAReading) {
  Write("task.max_queued = 7\n");
  on_take_ = [this] { Write("task.max_queued = 8\n"); };
  for (int i = 0; i < 4; ++i) configuration_->ReadAgain();
  Until([&] { return taken_.size() == 2; });
  EXPECT_EQ(taken_[1].settings.max_queued_tasks, 8U);
  loop_->poll();
  EXPECT_EQ(taken_.size(), 2U) << "once more, not three times";
}

}  // namespace
}  // namespace carma::daemon
