// Builds the messages in StatusView::troubles. The daemon uses these functions to report problems;
// commands use them to recognise and skip problems that they already show elsewhere.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace carma::api {

inline constexpr std::string_view kDriverIsWell = "ok";  // StatusView::driver

// why: StatusView::driver.
inline std::string TroubleOfDriver(std::string_view why) {
  return fmt::format("driver: {}", why);
}
inline std::string TroubleOfStore(std::string_view why) {
  return fmt::format("store: {}", why);
}
// The configuration was reread and rejected.
inline std::string TroubleOfConfiguration(std::string_view why) {
  constexpr std::string_view kTopic = "configuration: ";
  if (why.starts_with(kTopic)) why.remove_prefix(kTopic.size());
  return fmt::format("{}the new version was rejected; the previous one stays in force: {}", kTopic,
                     why);
}
// A group in daemon.allow_groups does not exist. why: the error message that names it.
inline std::string UnknownGroup(std::string_view why) {
  return fmt::format("configuration: daemon.allow_groups: {}; correct it and reload carmad", why);
}
// Predictions have become inaccurate, or estimate.profiles cannot be read. why: which predictions,
// and how they are wrong; or the error.
inline std::string TroubleOfEstimates(std::string_view why) {
  return fmt::format("estimates: {}", why);
}
// The whole server has been closed to new tasks. It reopens when it is resumed or when its machine
// reboots. why: StatusView::closed.
inline std::string ServerIsClosed(std::string_view why) {
  return fmt::format("server: {}; 'carma resume all' reopens it", why);
}
// Something is wrong with one GPU. why: GpuView::trouble, or one of its alerts.
inline std::string TroubleOfGpu(std::int64_t index, std::string_view why) {
  return fmt::format("GPU {}: {}", index, why);
}
// The health rules have closed the GPU to new tasks.
inline std::string ClosedByRule(std::int64_t index, std::string_view why) {
  return fmt::format("GPU {} accepts no new tasks: {}", index, why);
}

}  // namespace carma::api
