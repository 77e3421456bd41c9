#include "base/host.h"

#include <unistd.h>

#include <array>

namespace carma::base {

std::string HostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string ShortHostName() {
  const std::string name = HostName();
  return name.substr(0, name.find('.'));
}

}  // namespace carma::base
