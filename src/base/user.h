// Looks up users and groups in the system's user database. The database may be on the network, so
// every call may block. Use it only in workers or short-lived programs, never on an event loop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace carma::base {

struct UserEntry {
  std::string name;
  std::uint32_t gid = 0;  // of the primary group
  std::string home;       // empty if not in the database; so is the shell
  std::string shell;
};

// Returns nothing if no user has this number. Errors: kUnavailable if the database cannot answer.
Result<std::optional<UserEntry>> FindUser(std::uint32_t uid);
// Returns the number of the group. Errors: kNotFound, kUnavailable.
Result<std::uint32_t> FindGroup(const std::string& name);
// Whether the database definitely has no such user. False if the database cannot be read.
bool LacksUser(const std::string& name);
// The user's name, or the number if the name is unknown.
std::string UserName(std::uint32_t uid);
// All groups of a user, including `gid`.
std::vector<std::uint32_t> GroupsOf(const std::string& name, std::uint32_t gid);

// A user's current entry in the user database.
struct KnownUser {
  std::string name;  // the number, if the name is unknown
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> groups;  // empty: the database has no such user
};
// Errors: kUnavailable if the database cannot answer.
Result<KnownUser> KnowUser(std::uint32_t uid);

}  // namespace carma::base
