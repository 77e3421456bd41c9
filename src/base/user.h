// Who a user is, as the system's user database says. It may be on the network: everything here
// blocks; worker or short-lived program only, never a loop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace carma::base {

struct UserEntry {
  std::string name;
  std::uint32_t gid = 0;  // of its first group
  std::string home;       // this and the shell: empty where the database leaves them out
  std::string shell;
};

// Empty: the database does not know the number. Errors: kUnavailable if it cannot answer.
Result<std::optional<UserEntry>> FindUser(std::uint32_t uid);
// Number of a group. Errors: kNotFound, kUnavailable.
Result<std::uint32_t> FindGroup(const std::string& name);
// Its name, or the number where no name can be had.
std::string UserName(std::uint32_t uid);

}  // namespace carma::base
