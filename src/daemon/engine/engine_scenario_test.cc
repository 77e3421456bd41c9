// Runs the scenario files on the daemon's engine, including restarts. The store is real; the
// launcher, clock and host are fakes.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>

#include "base/fake_clock.h"
#include "daemon/engine/engine.h"
#include "tests/scenario/scenario.h"
#include "tests/scenario/scenario_files.h"

namespace carma::daemon {
namespace {

class EngineShell : public sim::ScenarioShell, public Engine::Host, public task::Launcher {
 public:
  EngineShell() {
    std::string folder = ::testing::TempDir() + "/carma-engine-XXXXXX";
    state_dir_ = ::mkdtemp(folder.data());
  }
  ~EngineShell() override {
    engine_.reset();
    store_.reset();
    std::filesystem::remove_all(state_dir_);
  }

  Result<Unit> Open(const core::PolicyConfig& policy, const std::vector<core::GpuInfo>& gpus,
                    const core::HostInfo& host) override {
    policy_ = policy;
    gpus_ = gpus;
    machine_ = host;
    return Begin();
  }
  core::Time Now() const override { return const_cast<base::FakeClock&>(clock_).Now(); }
  Result<Unit> AdvanceTo(core::Time when) override {
    while (wake_ && *wake_ <= when) {
      clock_.MoveTo(*std::exchange(wake_, std::nullopt));
      engine_->Post(core::WakeUp{});
      engine_->Turn();
    }
    clock_.MoveTo(when);
    return Unit{};
  }
  Result<Unit> Inject(const std::vector<core::Event>& events) override {
    for (const core::Event& event : events) {
      if (const auto* submitted = std::get_if<core::TaskSubmitted>(&event)) Keep(*submitted);
      if (const auto* machine = std::get_if<core::HostDiscovered>(&event)) machine_ = machine->host;
      if (const auto* drain = std::get_if<core::DrainRequested>(&event)) {
        engine_->Drain(*drain);
      } else if (const auto* resume = std::get_if<core::ResumeRequested>(&event)) {
        engine_->Resume(*resume);
      } else if (const auto* closed = std::get_if<core::ServerClosed>(&event)) {
        engine_->Close(*closed);
      } else if (std::holds_alternative<core::ServerOpened>(event)) {
        engine_->Open();
      } else if (const auto* told = std::get_if<core::ReservationsChanged>(&event)) {
        Book(told->periods);
      } else {
        engine_->Post(event);
      }
    }
    engine_->Turn();
    return Unit{};
  }
  Result<Unit> Restart() override {
    engine_.reset();
    store_.reset();
    wake_.reset();
    return Begin();
  }
  std::vector<sim::TimedAction> TakeActions() override { return std::exchange(actions_, {}); }
  const core::Scheduler& scheduler() const override { return engine_->scheduler(); }

 private:
  Result<Unit> Begin() {
    Result<std::unique_ptr<store::Store>> store = store::Store::Open(state_dir_);
    if (!store) return std::unexpected(store.error());
    store_ = std::move(*store);
    EngineOptions options;
    options.policy = policy_;
    options.host = machine_;
    options.state_dir = state_dir_;
    options.machine_start = "this start";
    engine_ = std::make_unique<Engine>(options, *store_, *this, clock_, *this);
    return engine_->Start(gpus_);
  }
  // Makes reservations through the engine, which numbers them from 1, as the scenarios do.
  void Book(const std::vector<core::ReservedPeriod>& periods) {
    const auto wanted = [&](core::ReservationId id) {
      return std::ranges::find(periods, id, [](const core::ReservedPeriod& each) {
               return each.booking.id;
             }) != periods.end();
    };
    std::vector<core::ReservationId> gone;
    for (const auto& [id, booking] : engine_->reservations().all()) {
      if (!wanted(id)) gone.push_back(id);
    }
    for (const core::ReservationId id : gone) ASSERT_TRUE(engine_->Unbook(id, "test"));
    for (const core::ReservedPeriod& each : periods) {
      if (engine_->reservations().Find(each.booking.id) != nullptr) continue;
      const auto id = engine_->Book(each.booking);
      ASSERT_TRUE(id) << id.error().message;
      ASSERT_EQ(*id, each.booking.id);
    }
  }
  // Stores a task directly, because Submit() would assign a number, but the scenario has its own.
  void Keep(const core::TaskSubmitted& submitted) {
    task::TaskSpec spec;
    spec.name = "t";
    spec.command = {"/bin/true"};
    spec.workdir = "/";
    spec.stdout_path = "/dev/null";
    store::StoredTask row;
    row.record.id = submitted.id;
    row.record.request = submitted.request;
    row.record.held = submitted.request->held;
    row.record.submitted = row.record.queued_since = Now();
    row.user = submitted.request->user.empty() ? "test" : submitted.request->user;
    row.name = spec.name;
    row.spec_json = task::ToJsonText(spec);
    ASSERT_TRUE(store_->Begin());
    ASSERT_TRUE(store_->PutTask(row));
    ASSERT_TRUE(store_->Commit());
  }
  void Record(core::Action action) { actions_.push_back({Now(), std::move(action)}); }

  // Implements Engine::Host.
  void RequestTurn() override {}
  void RequestEstimates(std::vector<EstimateJob> jobs) override {
    for (const EstimateJob& job : jobs) Record(core::RequestEstimate{job.id});
  }
  void WakeAt(base::Time when) override {
    wake_ = when;
    Record(core::WakeAt{when});
  }
  void RetryTurnLater() override { FAIL() << "the store failed: " << engine_->store_trouble(); }
  void TaskChanged(const core::TaskChanged& change) override {
    Record(core::TaskChanged{change.record});
  }
  std::optional<double> RecentFullness(core::GpuIndex) override { return std::nullopt; }
  std::vector<int> RecentXids(core::GpuIndex, base::Time) override { return {}; }
  void AfterNextReading(std::function<void()> call) override { call(); }

  // Implements task::Launcher.
  void Start(task::LaunchOrder order) override {
    const core::TaskRecord* record = engine_->scheduler().Find(order.id);
    ASSERT_NE(record, nullptr);
    const bool alone = record->request->exclusive || record->request->gpus == 0 ||
                       !core::Shares(engine_->scheduler().config());
    Record(core::StartTask{order.id, order.attempt, record->attempt->placement, alone});
  }
  void Warn(core::TaskId id, int attempt) override { Record(core::WarnTask{id, attempt}); }
  void AskToSave(core::TaskId id, int attempt, base::Time leaves_by) override {
    Record(core::AskToSave{id, attempt, leaves_by});
  }
  void Stop(core::TaskId id, int attempt, const std::string&) override {
    const core::TaskRecord* record = engine_ ? engine_->scheduler().Find(id) : nullptr;
    Record(core::StopTask{id, attempt,
                          record != nullptr ? record->attempt->stopping : core::StopCause::kNone});
  }
  void Adopt(const task::KnownAttempt&) override {}
  void Forget(core::TaskId, int, const std::string&) override {}
  int PollFd() const override { return -1; }
  void Poll(const Sink&) override {}

  core::PolicyConfig policy_;
  std::vector<core::GpuInfo> gpus_;
  core::HostInfo machine_;
  std::string state_dir_;
  base::FakeClock clock_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Engine> engine_;
  std::optional<core::Time> wake_;
  std::vector<sim::TimedAction> actions_;
};

class EngineScenario : public ::testing::TestWithParam<std::string> {};

TEST_P(EngineScenario, GivesTheSameActionsAsTheSimulator) {
  EngineShell shell;
  const Result<Unit> played = sim::RunScenarioFile(GetParam(), shell);
  EXPECT_TRUE(played) << played.error().message;
}

INSTANTIATE_TEST_SUITE_P(Files, EngineScenario, ::testing::ValuesIn(sim::ScenarioFiles()),
                         sim::ScenarioName);

}  // namespace
}  // namespace carma::daemon
