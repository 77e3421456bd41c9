// Users, accounts, classes and groups that the settings name.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/settings.h"

namespace carma::config {

struct NameMistake {
  std::string key;   // "limits.rules"
  std::string what;  // "no account 'vsion' in fair.accounts, did you mean vision?"
};
// Accounts and classes that are not configured, and classes and weights that are given twice.
std::vector<NameMistake> NameMistakes(const Settings& settings);

// Users of the system that any key names.
std::set<std::string> NamedUsers(const Settings& settings);

// Whether the groups of daemon.socket_group and daemon.allow_groups exist, without which carmad
// does not start. May wait for a name service. Errors: kNotFound, kUnavailable, with the key.
Result<Unit> CheckGroups(const Settings& settings);

}  // namespace carma::config
