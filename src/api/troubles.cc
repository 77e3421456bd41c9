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
  return fmt::format("configuration: the previous one stays in force: {}", why);
}

std::string TroubleOfEstimates(std::string_view why) {
  return fmt::format("estimates: {}", why);
}

std::string ServerIsClosed(std::string_view why) {
  return fmt::format("server: {}; carma resume all opens it", why);
}

std::string TroubleOfGpu(std::int64_t index, std::string_view why) {
  return fmt::format("GPU {}: {}", index, why);
}

std::string ClosedByRule(std::int64_t index, std::string_view why) {
  return fmt::format("GPU {} takes no new tasks: {}", index, why);
}

}  // namespace carma::api
