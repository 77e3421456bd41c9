// A fixture for endpoint tests: an engine with two GPUs, a launcher that starts nothing, and a
// store in a temporary folder.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fake_clock.h"
#include "base/json.h"
#include "daemon/engine/engine.h"
#include "daemon/gpus/monitor.h"
#include "daemon/http/endpoints.h"
#include "task/shim/fake_launcher.h"

namespace carma::daemon {

inline const Caller kAda{1000, 1000, "ada", false};
inline const Caller kEve{1001, 1001, "eve", false};
inline const Caller kRoot{0, 0, "root", true};

// A response. The status is 0 until the response arrives.
struct Heard {
  int status = 0;
  base::Json body;
  std::string Message() const { return body.at("error").at("message"); }
};

class EndpointTest : public ::testing::Test, public Engine::Host {
 protected:
  using Query = std::vector<std::pair<std::string, std::string>>;

  void SetUp() override {
    std::string folder = ::testing::TempDir() + "/carma-endpoints-XXXXXX";
    state_dir_ = settings_.state_dir = ::mkdtemp(folder.data());
    store_ = store::Store::Open(state_dir_).value();
    EngineOptions options;
    options.state_dir = state_dir_;
    engine_ = std::make_unique<Engine>(options, *store_, launcher_, clock_, *this);
    const std::vector<gpu::DeviceInfo> devices{{"GPU-a", "A100", "", 41'000, 1'000, true},
                                               {"GPU-b", "A100", "", 41'000, 1'000, true}};
    monitor_ = std::make_unique<Monitor>(devices, MonitorOptions{});
    ASSERT_TRUE(
        engine_->Start({{"GPU-a", "A100", 41'000, 1'000}, {"GPU-b", "A100", 41'000, 1'000}}));
    Settle();
  }
  void TearDown() override {
    engine_.reset();
    store_.reset();
    std::filesystem::remove_all(state_dir_);
  }

  // Takes a reading of every GPU, then runs until every task has been estimated.
  void Settle() {
    clock_.Advance(base::Duration(1'000));
    gpu::Reading reading;
    reading.taken = clock_.Now();
    reading.total_mib = 41'000;
    reading.reserved_mib = 1'000;
    reading.sm_active = 0.1;
    const gpu::Round round{reading, reading};
    for (core::Event& event : monitor_->Take(clock_.Now(), round)) engine_->Post(std::move(event));
    do {
      for (const EstimateJob& job : std::exchange(jobs_, {})) {
        EstimateResult result;
        result.id = result.forecast.task = job.id;
        result.estimate = estimate_;
        result.forecast.remarks = {"assumed Adam"};
        engine_->TakeEstimate(std::move(result));
      }
      engine_->Turn();
    } while (!jobs_.empty());
  }
  static task::TaskSpec Spec() {
    task::TaskSpec spec;
    spec.name = "train";
    spec.command = {"python", "train.py"};
    spec.workdir = "/";
    spec.stdout_path = "/dev/null";
    spec.environment = {{"SECRET", "of its user"}};
    return spec;
  }
  // Submits a task of user ada. The task is estimated but held, so it does not start.
  core::TaskId SubmitHeld() {
    task::TaskSpec spec = Spec();
    spec.held = true;
    return Submit(spec);
  }
  core::TaskId Submit(const task::TaskSpec& spec = Spec()) {
    core::TaskId id{};
    engine_->Submit({spec}, {kAda.uid, kAda.gid, kAda.user}, [&](Result<Submitted> answer) {
      ASSERT_TRUE(answer) << answer.error().message;
      id = answer->first;
    });
    engine_->Turn();
    Settle();
    return id;
  }
  void Start(core::TaskId id) {
    launcher_.EmitStarted(id, 1);
    engine_->PollLauncher();
    engine_->Turn();
  }
  void End(core::TaskId id, int code = 0) {
    launcher_.EmitExited(id, 1, code);
    engine_->PollLauncher();
    engine_->Turn();
  }

  static Call Asking(Query query, std::string id = "") {
    Call call;
    call.request.query = std::move(query);
    call.id = std::move(id);
    return call;
  }
  static Call By(const Caller& caller, std::string id, std::string verb = "",
                 std::string body = "") {
    Call call;
    call.caller = caller;
    call.id = std::move(id);
    call.verb = std::move(verb);
    call.request.body = std::move(body);
    return call;
  }
  // Calls the endpoint and returns the response as a client receives it.
  template <class Services>
  Heard Ask(const Services& services, Answer (*endpoint)(const Services&, const Call&),
            const Call& call) {
    return Hear([&](const api::Responder& reply) { reply(endpoint(services, call)); });
  }
  template <class Services>
  Heard Ask(const Services& services,
            Result<Unit> (*endpoint)(const Services&, const Call&, const api::Responder&),
            const Call& call) {
    return Hear([&](const api::Responder& reply) {
      if (const Result<Unit> begun = endpoint(services, call, reply); !begun)
        reply(std::unexpected(begun.error()));
    });
  }
  Heard Hear(const std::function<void(const api::Responder&)>& ask) {
    const auto heard = std::make_shared<Heard>();
    ask(api::Responder([heard](const api::Response& response) {
      heard->status = response.status;
      heard->body = base::ParseJson(response.body).value();
    }));
    Settle();
    last_heard_ = heard;
    return *heard;
  }
  // A worker that runs a job only when the test calls work_.
  AnswerLater Worker() {
    return [this](auto make, auto send) {
      if (worker_busy_) return Result<Unit>(Unavailable("busy"));
      work_ = [make, send] { send(make(true)); };
      return Result<Unit>();
    };
  }

  EngineServices Basics() { return {*engine_, *monitor_, *store_, settings_, clock_}; }
  static SharedServices Shared(EngineServices services) {
    return std::make_shared<const EngineServices>(std::move(services));
  }

  // Implements Engine::Host.
  void RequestTurn() override {}
  void RequestEstimates(std::vector<EstimateJob> jobs) override { jobs_ = std::move(jobs); }
  void WakeAt(base::Time) override {}
  void RetryTurnLater() override { FAIL() << engine_->store_trouble(); }
  void TaskChanged(const core::TaskChanged&) override {}
  std::optional<double> RecentFullness(core::GpuIndex) override { return std::nullopt; }
  std::vector<int> RecentXids(core::GpuIndex, base::Time) override { return {}; }
  void AfterNextReading(std::function<void()> call) override { call(); }

  config::Settings settings_;
  std::string state_dir_;
  base::FakeClock clock_{base::FromMs(10'000'000)};
  task::FakeLauncher launcher_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Monitor> monitor_;
  std::vector<EstimateJob> jobs_;
  core::Estimate estimate_{5'500, "structural", 5'000};  // the estimate of every task
  std::shared_ptr<Heard> last_heard_;  // response to the last request; may still arrive later
  std::function<void()> work_;         // the worker's job, if any
  bool worker_busy_ = false;
};

}  // namespace carma::daemon
