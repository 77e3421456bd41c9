// Any bytes are a configuration or a one-line error, never a crash.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "config/settings.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const carma::base::Result<carma::config::Loaded> loaded =
      carma::config::LoadText("fuzz.toml", text, /*root=*/true);
  // The line is printed as it is: it must be one line.
  if (!loaded && loaded.error().message.find('\n') != std::string::npos) __builtin_trap();
  return 0;
}
