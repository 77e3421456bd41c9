// Looks up users and groups in the system's user database. The database may be on the network, so
// every call may block. Never call from an event loop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace carma::base {

struct UserEntry {
  std::string name;
  std::uint32_t gid = 0;  // the primary group's GID
  std::string home;       // home and shell are empty if not in the database
  std::string shell;
};

// Returns nothing if there is no user with this UID, and kUnavailable if the database does not
// respond.
Result<std::optional<UserEntry>> FindUser(std::uint32_t uid);
// Returns the GID, kNotFound if there is no such group, or kUnavailable (see FindUser()).
Result<std::uint32_t> FindGroup(const std::string& name);
// True if the database definitely has no such user. False if the database cannot be read.
bool LacksUser(const std::string& name);
// The user's name, or the UID if the name is unknown.
std::string UserName(std::uint32_t uid);
// All groups of a user, including `gid`.
std::vector<std::uint32_t> GroupsOf(const std::string& name, std::uint32_t gid);

// A user's current entry in the user database.
struct KnownUser {
  std::string name;  // the UID, if the name is unknown
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> groups;  // empty if the database has no such user
};
// Returns kUnavailable if the database does not respond.
Result<KnownUser> KnowUser(std::uint32_t uid);

}  // namespace carma::base
