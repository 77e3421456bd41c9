#include "api/troubles.h"

#include <fmt/format.h>

namespace carma::api {

std::string TroubleOfDriver(std::string_view why) {
  return fmt::format("driver: {}", why);
}

std::string TroubleOfStore(std::string_view why) {
  return fmt::format("store: {}", why);
}

std::string TroubleOfConfiguration(std::string_view why) {
  constexpr std::string_view kTopic = "configuration: ";
  if (why.starts_with(kTopic)) why.remove_prefix(kTopic.size());
  return fmt::format("{}the new one was rejected, so the previous one stays in force: {}", kTopic,
                     why);
}

std::string UnknownGroup(std::string_view why) {
  return fmt::format("configuration: daemon.allow_groups: {}; correct it and reload carmad", why);
}

std::string TroubleOfEstimates(std::string_view why) {
  return fmt::format("estimates: {}", why);
}

std::string ServerIsClosed(std::string_view why) {
  return fmt::format("server: {}; 'carma resume all' reopens it", why);
}

std::string TroubleOfGpu(std::int64_t index, std::string_view why) {
  return fmt::format("GPU {}: {}", index, why);
}

std::string ClosedByRule(std::int64_t index, std::string_view why) {
  return fmt::format("GPU {} accepts no new tasks: {}", index, why);
}

}  // namespace carma::api
