#include "cli/client/server_settings.h"

#include <cstdlib>
#include <optional>

namespace carma::cli {

base::Result<config::Settings> LoadServerSettings(const std::string& file, bool of_root) {
  const std::optional<std::string> named = file.empty() ? std::nullopt : std::optional(file);
  base::Result<config::Loaded> loaded = config::Load(config::StandardSources(named, of_root));
  if (!loaded) return std::unexpected(loaded.error());
  const std::string& simulated = loaded->settings.simgpu_state;
  if (!simulated.empty()) ::setenv("CARMA_SIMGPU_STATE", simulated.c_str(), 1);
  return std::move(loaded->settings);
}

}  // namespace carma::cli
