// A scheduler for tests, with its events and its GPUs.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/scheduler/scheduler.h"

namespace carma::core {

inline Time At(double seconds) {
  return base::FromMs(static_cast<std::int64_t>(seconds * 1000));
}

inline std::vector<GpuInfo> Gpus(int count, std::int64_t total_mib = 40'000) {
  std::vector<GpuInfo> gpus;
  for (int i = 0; i < count; ++i)
    gpus.push_back({.uuid = "GPU-" + std::to_string(i), .type = "A", .total_mib = total_mib});
  return gpus;
}

inline GpuSampled Sampled(std::uint32_t gpu, Time taken) {
  GpuSample sample;
  sample.taken = taken;
  sample.window_from = taken - Duration{1'000};
  sample.sm_active = 0.1;
  return {GpuIndex{gpu}, sample};
}

inline TaskSubmitted Submitted(std::uint64_t id, TaskRequest request = {}) {
  return {TaskId{id}, std::move(request)};
}

inline EstimateReady Estimated(std::uint64_t id, std::int64_t mib) {
  return {TaskId{id}, Estimate{mib, "given"}};
}

template <class T>
inline std::vector<T> Of(const std::vector<Action>& actions) {
  std::vector<T> found;
  for (const Action& action : actions) {
    if (const T* each = std::get_if<T>(&action)) found.push_back(*each);
  }
  return found;
}

// A scheduler with `count` healthy, empty GPUs at time 0.
class SchedulerTest : public ::testing::Test {
 protected:
  void Begin(PolicyConfig config = {}, int count = 1) {
    scheduler_ = std::make_unique<Scheduler>(config);
    std::vector<Event> events{GpusDiscovered{Gpus(count)}};
    for (int i = 0; i < count; ++i)
      events.emplace_back(Sampled(static_cast<std::uint32_t>(i), At(0)));
    scheduler_->HandleAll(At(0), events);
  }
  std::vector<Action> Handle(double seconds, const Event& event) {
    std::vector<Action> actions = scheduler_->Handle(At(seconds), event);
    EXPECT_EQ(scheduler_->CheckBooks(), std::nullopt);
    return actions;
  }
  std::vector<Action> Run(std::uint64_t id, double seconds = 0) {
    Handle(seconds, Submitted(id));
    return Handle(seconds, Estimated(id, 1'000));
  }
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace carma::core
