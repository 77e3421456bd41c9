// A fixture with the services that the tests of task endpoints need.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "daemon/http/endpoints/endpoint_fixture.h"
#include "daemon/http/endpoints/tasks.h"

namespace carma::daemon {

class TasksTest : public EndpointTest {
 protected:
  SharedServices Services() {
    EngineServices services = Basics();
    services.when_final = [this](core::TaskId id, int seconds, std::function<void()> call) {
      awaited_ = core::Number(id);
      wait_s_ = seconds;
      when_final_ = std::move(call);
    };
    services.lines = lines_;
    services.from_snapshot = [this](auto uid, const PrepareAnswer& prepare, const auto& send) {
      ++snapshots_;
      AnswerAtOnce(uid, prepare, send);
    };
    return Shared(std::move(services));
  }
  Heard Change(const Caller& caller, const std::string& verb, const std::string& id = "1") {
    return Ask(Services(), &ChangeTask, By(caller, id, verb));
  }

  static task::TaskSpec OnAllGpus() {
    task::TaskSpec spec = Spec();
    spec.gpus = 2;
    spec.exclusive = true;
    return spec;
  }
  // Submits this many tasks that need all GPUs, and waits until they are in the queue.
  void SubmitArray(int count, const Caller& caller) {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
    std::iota(indices.begin(), indices.end(), 0);
    const std::size_t before = engine_->scheduler().InLine(SIZE_MAX).with_gpus.size();
    engine_->Submit(TaskList::Array(OnAllGpus(), indices), {caller.uid, caller.gid, caller.user},
                    [](const auto& answer) { ASSERT_TRUE(answer) << answer.error().message; });
    const auto stands = [&] { return engine_->scheduler().InLine(SIZE_MAX).with_gpus.size(); };
    for (int turns = 0; turns < 1'000 && stands() + 1 < before + count; ++turns) Settle();
  }

  std::uint64_t awaited_ = 0;
  int wait_s_ = 0;
  int snapshots_ = 0;  // responses built from a snapshot
  std::function<void()> when_final_;
  std::shared_ptr<QueueSnapshots> lines_ = std::make_shared<QueueSnapshots>();
};

}  // namespace carma::daemon
