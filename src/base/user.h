// Users and groups from the system's user database. It may be on the network, so every call blocks:
// only for workers or short-lived programs, never on a loop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace carma::base {

struct UserEntry {
  std::string name;
  std::uint32_t gid = 0;  // of its first group
  std::string home;       // like the shell empty if not in the database
  std::string shell;
};

// Empty: unknown number. Errors: kUnavailable if the database cannot answer.
Result<std::optional<UserEntry>> FindUser(std::uint32_t uid);
// Number of a group. Errors: kNotFound, kUnavailable.
Result<std::uint32_t> FindGroup(const std::string& name);
// Whether the database has no such user; false if it cannot answer.
bool LacksUser(const std::string& name);
// Its name, or the number if the name is unknown.
std::string UserName(std::uint32_t uid);
// All groups of a user, `gid` among them.
std::vector<std::uint32_t> GroupsOf(const std::string& name, std::uint32_t gid);

// What the user database has about a user at the moment.
struct KnownUser {
  std::string name;  // or the number
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> groups;  // empty: the database has no such user
};
// Errors: kUnavailable if the database cannot answer.
Result<KnownUser> KnowUser(std::uint32_t uid);

}  // namespace carma::base
