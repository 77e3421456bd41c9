// Actions of the core that a scenario's lines may expect.
#pragma once

#include <string>
#include <string_view>

#include "core/scheduler/events.h"

namespace carma::sim {

struct News {
  enum class Kind { kStart, kStop, kWarn, kAsk, kQueue, kReject, kEnd };
  Kind kind{};
  core::TaskId task{};
  core::Time when{};
  core::StartTask start;
  core::StopTask stop;
  core::TaskRecord record;
  bool expected = false;
};

// The word for this kind in a scenario's expectations: "start", "stop" …
std::string_view KindName(News::Kind kind);
// Formats the time since the beginning of the scenario, such as "12.5s".
std::string TimeText(core::Time time);
// Formats the news like an expectation: "start t1 gpu=0 claim_mib=12000 attempt=1 at=12.5s".
std::string Describe(const News& news);
// True for a start, stop, warning, ask (to checkpoint) or reject that no line expects. Scenarios
// may ignore other news.
bool Unexpected(const News& news);

}  // namespace carma::sim
