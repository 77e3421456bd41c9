// Where a client finds the daemon that a configuration describes.
#pragma once

#include <string>

#include "config/settings.h"

namespace carma::config {

// Where root's carmad listens unless it is told otherwise.
inline constexpr char kServerSocket[] = "/run/carma/carmad.sock";

// What the sources say of daemon.socket, later ones winning; empty: nothing. Mistakes are passed
// over: the configuration is the daemon's affair, and its socket should be found although another
// key is wrong.
std::string ConfiguredSocket(const Sources& sources);

}  // namespace carma::config
