// What the core asked for while a scenario was played, as far as a person would call it news.
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

// "start", "stop" … as a scenario's expectations have it.
std::string_view KindName(News::Kind kind);
// "12.5s", from the beginning of the play.
std::string TimeText(core::Time time);
// In the words of an expectation.
std::string Describe(const News& news);
// Starts, stops, warnings and rejects must be expected; other news may go unmentioned.
bool Unexpected(const News& news);

}  // namespace carma::sim
