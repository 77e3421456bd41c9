// Where a client finds the daemon that a configuration describes.
#pragma once

#include <string>

#include "config/settings.h"

namespace carma::config {

// The default socket of root's carmad.
inline constexpr char kServerSocket[] = "/run/carma/carmad.sock";

// daemon.socket in the sources, later ones winning; empty: not set. Mistakes are ignored: only the
// daemon must check its configuration, and its socket should be found even if another key is wrong.
std::string ConfiguredSocket(const Sources& sources);

}  // namespace carma::config
