#include "config/client_socket.h"

#include "base/file.h"
#include "config/keys.h"
#include "config/toml_text.h"

namespace carma::config {
namespace {

constexpr std::string_view kName = "daemon.socket";
constexpr std::size_t kMaxFileBytes = 1 << 20;

// The socket that the daemon would use; empty if it would refuse the value.
std::string Accepted(const std::string& text) {
  Settings settings;
  return FindKey(kName)->set(settings, text) ? settings.socket : "";
}

}  // namespace

std::string ConfiguredSocket(const Sources& sources) {
  std::string socket;
  const auto take = [&](const std::string& text) {
    if (std::string accepted = Accepted(text); !accepted.empty()) socket = std::move(accepted);
  };
  for (const auto& [path, optional] : sources.files) {
    const base::Result<std::string> text = base::ReadFile(path, kMaxFileBytes);
    if (!text) continue;
    const base::Result<std::vector<Entry>> entries = ParseToml(path, *text);
    if (!entries) continue;
    for (const Entry& entry : *entries) {
      if (entry.name == kName) take(entry.text);
    }
  }
  const auto variable = sources.environment.find(VariableOf(kName));
  if (variable != sources.environment.end()) take(variable->second);
  return socket;
}

}  // namespace carma::config
