// Tests each recipe in docs/server/sharing.md on a server with four GPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "config/settings.h"
#include "core/scheduler/scheduler.h"
#include "test_paths.h"

namespace carma::daemon {
namespace {

core::PolicyConfig Recipe(const std::string& name) {
  const std::string text =
      *base::ReadFile(std::string(CARMA_SOURCE_DIR) + "/docs/server/sharing.md", 1 << 20);
  const std::string begin = "<!-- recipe: " + name + " -->\n```toml\n";
  const std::size_t at = text.find(begin);
  EXPECT_NE(at, std::string::npos) << name;
  const std::size_t from = at + begin.size();
  const auto loaded =
      config::LoadText(name, text.substr(from, text.find("```", from) - from), true);
  EXPECT_TRUE(loaded) << loaded.error().message;
  core::PolicyConfig policy = loaded->settings.policy;
  policy.max_tasks_per_gpu = 1;
  return policy;
}

// A server on which each task runs for an hour on one GPU.
class Server {
 public:
  explicit Server(const core::PolicyConfig& policy) : core_(policy) {
    std::vector<core::GpuInfo> gpus;
    for (int i = 0; i < 4; ++i)
      gpus.push_back({.uuid = "GPU-" + std::to_string(i), .total_mib = 40'000});
    Tell(core::GpusDiscovered{gpus});
  }
  std::uint64_t Submit(const std::string& user, const std::string& account = "",
                       const std::string& qos = "") {
    core::TaskRequest request;
    request.user = user;
    request.uid =
        uids_.try_emplace(user, static_cast<std::uint32_t>(1001 + uids_.size())).first->second;
    if (!account.empty()) request.account = account;
    if (!qos.empty()) request.qos = qos;
    if (trains_) request.checkpoint_signal = "USR1";
    EXPECT_TRUE(core::MayName(core_.config(), request));
    const core::TaskId id{++last_};
    Tell(core::TaskSubmitted{id, request});
    Tell(core::EstimateReady{id, core::Estimate{1'000, "given"}, {}, {}});
    return last_;
  }
  void Reserve(const core::Reservation& booking) {
    Tell(core::ReservationsChanged{{{booking, booking.from, booking.from + booking.length}}});
  }
  core::Time now() const { return now_; }
  bool Refuses(const std::string& user, const core::TaskRequest& asked) {
    core::TaskRequest request = asked;
    request.user = user;
    request.uid = uids_[user];
    return core_.LimitOnSubmission(request, 1).has_value();
  }
  // Submits a task that can save a checkpoint when it is asked to stop.
  void Train(const std::string& user) {
    trains_ = true;
    Submit(user);
    trains_ = false;
  }
  void Pass(core::Duration span) {
    now_ += span;
    Tell(core::WakeUp{});
  }
  // The task saves a checkpoint and exits with code 85, so it is requeued.
  void Save(std::uint64_t id) {
    Tell(core::TaskExited{core::TaskId{id}, 1, {.kind = core::ExitKind::kFailed, .code = 85}});
  }
  const std::vector<std::uint64_t>& Asked() const { return asked_; }
  // Lets an hour pass, after which all running tasks end.
  void Hour() {
    now_ += core::Duration(3'600'000);
    for (const std::uint64_t id : std::exchange(running_, {}))
      Tell(core::TaskExited{core::TaskId{id}, 1, {}});
  }
  // Number of running tasks by user or account.
  std::map<std::string, int> Running() {
    Tell(core::WakeUp{});
    std::map<std::string, int> of;
    for (const auto& [id, task] : core_.Tasks()) {
      if (core::HoldsGpus(task.state)) ++of[task.request->account.value_or(task.request->user)];
    }
    return of;
  }
  core::ReasonCode Why(std::uint64_t id) { return core_.ReasonFor(core::TaskId{id}, now_).code; }

 private:
  void Tell(const core::Event& event) {
    // Sends samples with each event, because GPUs without recent samples would be closed.
    std::vector<core::Event> events{event};
    for (std::uint32_t i = 0; i < 4 && !core_.GpuInfos().empty(); ++i)
      events.emplace_back(core::GpuSampled{core::GpuIndex{i}, {.taken = now_, .sm_active = 0.0}});
    std::vector<core::Event> started;
    for (const core::Action& action : core_.HandleAll(now_, events)) {
      if (const auto* ask = std::get_if<core::AskToSave>(&action))
        asked_.push_back(core::Number(ask->id));
      const auto* start = std::get_if<core::StartTask>(&action);
      if (start == nullptr) continue;
      running_.push_back(core::Number(start->id));
      started.emplace_back(core::TaskStarted{start->id, start->attempt});
    }
    core_.HandleAll(now_, started);
    EXPECT_EQ(core_.CheckBooks(), std::nullopt);
  }

  core::Scheduler core_;
  core::Time now_ = base::FromMs(1'000'000'000);
  std::uint64_t last_ = 0;
  std::map<std::string, std::uint32_t> uids_;
  std::vector<std::uint64_t> running_;
  std::vector<std::uint64_t> asked_;
  bool trains_ = false;
};

using Counts = std::map<std::string, int>;

TEST(SharingRecipes, ALabOfTen) {
  Server server(Recipe("lab"));
  for (int i = 0; i < 300; ++i) server.Submit("ada");
  EXPECT_EQ(server.Running(), (Counts{{"ada", 4}}));
  for (int i = 0; i < 20; ++i) server.Submit("bob");
  server.Hour();
  EXPECT_EQ(server.Running(), (Counts{{"bob", 4}})) << "ada has already used four GPU hours";
  server.Hour();
  EXPECT_EQ(server.Running(), (Counts{{"ada", 2}, {"bob", 2}}));
  const std::uint64_t look = server.Submit("ada", "", "interactive");
  const std::uint64_t second = server.Submit("ada", "", "interactive");
  EXPECT_EQ(server.Why(look), core::ReasonCode::kTasksPerGpu) << "no task is ahead of it";
  server.Hour();
  EXPECT_EQ(server.Why(second), core::ReasonCode::kLimit);
}

TEST(SharingRecipes, ACourseOfSixty) {
  Server server(Recipe("course"));
  for (int i = 0; i < 5; ++i) server.Submit("ada", "course");
  const std::uint64_t last = server.Submit("ada", "course");
  EXPECT_EQ(server.Running(), (Counts{{"course", 1}}));
  EXPECT_EQ(server.Why(last), core::ReasonCode::kLimit);
  for (const char* student : {"bob", "eve", "fay", "gil"}) server.Submit(student, "course");
  EXPECT_EQ(server.Running(), (Counts{{"course", 4}}));
  EXPECT_TRUE(server.Refuses("ada", {.gpus = 2}));
  EXPECT_TRUE(server.Refuses("ada", {.time_limit = core::Duration(7'201'000)}));
  EXPECT_FALSE(server.Refuses("ada", {}));
}

TEST(SharingRecipes, LongTrainingsAndShortTries) {
  Server server(Recipe("slots"));
  for (int i = 0; i < 4; ++i) server.Train("ada");
  server.Pass(core::Duration(13 * 3'600'000LL));
  const std::uint64_t spare = server.Submit("bob", "", "background");
  EXPECT_TRUE(server.Asked().empty());
  EXPECT_EQ(server.Why(spare), core::ReasonCode::kTasksPerGpu)
      << "no task is preempted for one of lower priority";
  const std::uint64_t look = server.Submit("bob", "", "interactive");
  EXPECT_EQ(server.Asked(), (std::vector<std::uint64_t>{1})) << "its time slice was over";
  EXPECT_EQ(server.Why(1), core::ReasonCode::kTimeSlot);
  server.Save(1);
  EXPECT_EQ(server.Why(1), core::ReasonCode::kTimeSlot);
  EXPECT_EQ(server.Running(), (Counts{{"ada", 3}, {"bob", 1}}));
  EXPECT_EQ(server.Why(look), core::ReasonCode::kNone) << "it runs";
}

TEST(SharingRecipes, APayingGroupAndGuests) {
  Server server(Recipe("group"));
  for (int i = 0; i < 40; ++i) {
    server.Submit(i % 2 == 0 ? "ada" : "bob", "vision");
    server.Submit(i % 2 == 0 ? "gus" : "gil", "guests");
  }
  Counts hours;
  for (int hour = 0; hour < 8; ++hour) {
    for (const auto& [account, tasks] : server.Running()) hours[account] += tasks;
    server.Hour();
  }
  EXPECT_EQ(hours["vision"] + hours["guests"], 32);
  EXPECT_NEAR(hours["vision"], 24, 2) << "three quarters";
}

TEST(SharingRecipes, AGpuForPeopleAtTheDesk) {
  Server server(Recipe("desk"));
  server.Reserve({.on_gpus = {"GPU-0"},
                  .from = server.now() + std::chrono::minutes(210),
                  .length = std::chrono::hours(9)});
  for (int i = 0; i < 4; ++i) server.Submit("ada");
  EXPECT_EQ(server.Running(), (Counts{{"ada", 4}})) << "the reservation begins after the lead time";
  server.Hour();
  for (int i = 0; i < 3; ++i) server.Submit("ada");
  const std::uint64_t last = server.Submit("ada");
  EXPECT_EQ(server.Running(), (Counts{{"ada", 3}}));
  EXPECT_EQ(server.Why(last), core::ReasonCode::kResources);
  for (int hour = 1; hour < 13; ++hour) server.Hour();
  for (int i = 0; i < 4; ++i) server.Submit("ada");
  EXPECT_EQ(server.Running(), (Counts{{"ada", 4}})) << "in the evening";
}

}  // namespace
}  // namespace carma::daemon
