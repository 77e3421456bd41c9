// Actions of the core while a scenario was played, as far as a reader would call them news.
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

// "start", "stop" … in the words of a scenario's expectations.
std::string_view KindName(News::Kind kind);
// "12.5s", from the beginning of the play.
std::string TimeText(core::Time time);
// The news in the words of an expectation.
std::string Describe(const News& news);
// Starts, stops, warnings and rejects must be expected; other news need not be.
bool Unexpected(const News& news);

}  // namespace carma::sim
