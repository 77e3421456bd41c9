// Checks the users, accounts, classes and groups that the settings name.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/settings.h"

namespace carma::config {

struct NameMistake {
  std::string key;   // "limits.rules"
  std::string what;  // "no account 'vsion' in fair.accounts, did you mean vision?"
};
// Finds accounts and classes that are not configured, and classes and weights that are configured
// twice.
std::vector<NameMistake> NameMistakes(const Settings& settings);

// Returns the system users named in the configuration, each mapped to the first key that names that
// user.
std::map<std::string, std::string> NamedUsers(const Settings& settings);

inline constexpr std::string_view kAllowGroups = "daemon.allow_groups";

// Finds configured users, and groups in daemon.allow_groups, that do not exist on this machine
// because they are misspelt or have been removed. May wait for a name service.
std::vector<NameMistake> UnknownNames(const Settings& settings);

// Checks that the group named by daemon.socket_group exists. Without it, carmad does not start. May
// wait for a name service. Returns kNotFound or kUnavailable with the key.
Result<Unit> CheckSocketGroup(const Settings& settings);

}  // namespace carma::config
