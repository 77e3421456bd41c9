#include "base/user.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/text.h"
#include "base/try.h"

namespace carma::base {
namespace {

constexpr std::size_t kMostEntryBytes = 1 << 20;
constexpr int kMaxGroups = 65'536;  // the kernel's NGROUPS_MAX

std::string TextOf(const char* text) {
  return text != nullptr ? text : "";
}

// True if a lookup failed because there is no such entry. The C library may report this with any of
// the errors below; see getpwnam_r(3).
bool IsNone(int error) {
  return error == 0 || error == ENOENT || error == ESRCH || error == EBADF || error == EPERM;
}

}  // namespace

Result<std::optional<UserEntry>> FindUser(std::uint32_t uid) {
  std::vector<char> buffer(16'384);
  passwd entry{};
  passwd* found = nullptr;
  int error = 0;
  while ((error = ::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found)) == ERANGE &&
         buffer.size() < kMostEntryBytes) {
    buffer.resize(buffer.size() * 2);
  }
  if (found != nullptr) {
    return UserEntry{TextOf(entry.pw_name), entry.pw_gid, TextOf(entry.pw_dir),
                     TextOf(entry.pw_shell)};
  }
  if (IsNone(error)) return std::nullopt;
  return Unavailable("cannot look up user {} in the user database", uid);
}

Result<std::uint32_t> FindGroup(const std::string& name) {
  std::vector<char> buffer(16'384);
  group entry{};
  group* found = nullptr;
  int error = 0;
  while ((error = ::getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found)) ==
             ERANGE &&
         buffer.size() < kMostEntryBytes) {
    buffer.resize(buffer.size() * 2);
  }
  if (found != nullptr) return entry.gr_gid;
  if (IsNone(error)) return NotFound("no group '{}'", Printable(name));
  return Unavailable("cannot look up group '{}' in the user database", Printable(name));
}

bool LacksUser(const std::string& name) {
  std::vector<char> buffer(kMostEntryBytes);
  passwd entry{};
  passwd* found = nullptr;
  const int error = ::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  return found == nullptr && IsNone(error);
}

std::string UserName(std::uint32_t uid) {
  const Result<std::optional<UserEntry>> user = FindUser(uid);
  return user && *user ? (*user)->name : fmt::format("{}", uid);
}

std::vector<std::uint32_t> GroupsOf(const std::string& name, std::uint32_t gid) {
  int count = 64;
  std::vector<gid_t> groups(static_cast<std::size_t>(count));
  while (::getgrouplist(name.c_str(), gid, groups.data(), &count) < 0 && count <= kMaxGroups)
    groups.resize(static_cast<std::size_t>(count));
  groups.resize(static_cast<std::size_t>(std::min(count, kMaxGroups)));
  return groups;
}

Result<KnownUser> KnowUser(std::uint32_t uid) {
  std::optional<UserEntry> user = CARMA_TRY(FindUser(uid));
  if (!user) return KnownUser{fmt::format("{}", uid), 0, {}};
  std::vector<std::uint32_t> groups = GroupsOf(user->name, user->gid);
  return KnownUser{std::move(user->name), user->gid, std::move(groups)};
}

}  // namespace carma::base
