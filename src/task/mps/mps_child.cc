#include "task/mps/mps_child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/file.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/try.h"
#include "base/unique_fd.h"
#include "task/process/user.h"
#include "task/shim/environment.h"

namespace carma::task {
namespace {

using base::UniqueFd;

constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr mode_t kOthersMayWrite = S_IWGRP | S_IWOTH;

// Opens mps_dir, in which only carmad can replace files.
Result<UniqueFd> OpenBase(const std::string& dir) {
  // Every user must be able to reach their own folder below it.
  const bool root = ::geteuid() == 0;
  CARMA_TRY(base::MakeDirs(dir, root ? 0755 : 0700));
  UniqueFd fd(::open(dir.c_str(), kFolderFlags));
  if (!fd) return FailErrno(errno, dir);
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) return FailErrno(errno, dir);
  if (st.st_uid != ::geteuid() || (st.st_mode & kOthersMayWrite) != 0) {
    return Denied(dir +
                  " must belong to carmad's user and must not be writable by others "
                  "(collocation.mps_dir)");
  }
  return fd;
}

// Creates the folder if it is missing. Only its owner has access, but all users may traverse a
// shared server's folder.
Result<UniqueFd> OpenOwn(const UniqueFd& parent, const std::string& name, uid_t uid, gid_t gid,
                         bool shared = false) {
  if (::mkdirat(parent.get(), name.c_str(), 0700) != 0 && errno != EEXIST)
    return FailErrno(errno, "cannot create the folder '" + name + "' for MPS");
  UniqueFd fd(::openat(parent.get(), name.c_str(), kFolderFlags));
  struct stat st {};
  if (!fd || ::fstat(fd.get(), &st) != 0)
    return FailErrno(errno, "cannot open the folder '" + name + "' for MPS");
  if (st.st_uid != uid && st.st_uid == ::geteuid() && ::fchown(fd.get(), uid, gid) == 0)
    st.st_uid = uid;
  if (st.st_uid != uid) {
    return Denied("the folder '" + name + "' for MPS belongs to user " + std::to_string(st.st_uid) +
                  ", not " + std::to_string(uid));
  }
  if (::fchmod(fd.get(), shared ? 0711 : 0700) != 0)
    return FailErrno(errno, "chmod '" + name + "'");
  return fd;
}

Result<Unit> TakeRights(const UserInfo& user) {
  if (CanSwitchUser() && user.uid != ::getuid()) CARMA_TRY(BecomeUser(user));
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return FailErrno(errno, "no_new_privs");
  return Unit{};
}

// Keeps the previous daemon's logs under other names, because that daemon may have crashed.
void PutLogsAside(const UniqueFd& logs) {
  for (const std::string name : {"control.log", "server.log"})
    ::renameat(logs.get(), name.c_str(), logs.get(), (name + ".old").c_str());
}

Result<Unit> MakeFolders(const MpsOrder& order, const UniqueFd& mine) {
  const uid_t uid = order.id.uid;
  const gid_t gid = order.id.gid;
  const std::string name = MpsFolderName(order.id.gpus);
  CARMA_TRY(OpenOwn(mine, name, uid, gid, order.id.shared));
  const UniqueFd logs = CARMA_TRY(OpenOwn(mine, MpsLogName(order.id.gpus), uid, gid));
  if (order.argv.size() > 1 && order.argv[1] == "-d") PutLogsAside(logs);
  return Unit{};
}

std::vector<std::string> Environment(const MpsOrder& order, const UserInfo& user) {
  std::map<std::string, std::string> environment = order.environment;
  // The control daemon searches PATH for the server program. The folder of the control program
  // comes first, because it contains the server program of the same version.
  const std::string& program = order.argv.front();
  environment["PATH"] = program.substr(0, program.rfind('/')) +
                        ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  environment["HOME"] = user.home;
  if (!user.name.empty()) environment["USER"] = environment["LOGNAME"] = user.name;
  environment["CUDA_MPS_PIPE_DIRECTORY"] = MpsPipeDir(order.dir, order.id);
  environment["CUDA_MPS_LOG_DIRECTORY"] = MpsLogDir(order.dir, order.id);
  // Selects protocol 2 on driver branch 615, which also has protocol 3. Older branches ignore this
  // variable.
  environment.try_emplace("CUDA_MPS_PROTOCOL_VERSION", "2");
  environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
  environment.try_emplace("CUDA_VISIBLE_DEVICES", order.id.gpus);
  return ToBlock(environment);
}

void ResetProcess() {
  GiveUpMemoryProtection();
  ResetSignals();
  ::umask(077);
  (void)!::chdir("/");
}

Result<Unit> Become(const MpsOrder& order) {
  const uid_t uid = order.id.uid;
  if (!CanSwitchUser() && uid != ::getuid())
    return Denied("carmad does not run as root, so it cannot serve user " + std::to_string(uid));
  const UserInfo user = CARMA_TRY(LookUpUser(uid, order.id.gid));
  const UniqueFd base = CARMA_TRY(OpenBase(order.dir));
  const UniqueFd mine =
      CARMA_TRY(OpenOwn(base, MpsOwnerFolder(order.id), uid, order.id.gid, order.id.shared));
  ResetProcess();
  CARMA_TRY(TakeRights(user));
  CARMA_TRY(MakeFolders(order, mine));
  const std::vector<std::string> block = Environment(order, user);
  ::execve(order.argv.front().c_str(), base::Argv(order.argv).data(), base::Argv(block).data());
  return FailErrno(errno, "cannot run " + order.argv.front());
}

}  // namespace

std::vector<std::string> ToArguments(const MpsOrder& order) {
  std::vector<std::string> arguments{order.dir, std::to_string(order.id.uid),
                                     std::to_string(order.id.gid), MpsServerName(order.id)};
  for (const auto& [name, value] : order.environment) arguments.push_back(name + "=" + value);
  arguments.emplace_back("--");
  arguments.insert(arguments.end(), order.argv.begin(), order.argv.end());
  return arguments;
}

Result<MpsOrder> ParseMpsArguments(const std::vector<std::string>& arguments) {
  const auto fail = [] {
    return Invalid(
        "expected DIR UID GID GPU [NAME=VALUE…] -- PROGRAM [ARGUMENT…] with absolute DIR and "
        "PROGRAM");
  };
  if (arguments.size() < 6) return fail();
  // The highest valid ID; the kernel takes the next number to mean "leave unchanged".
  constexpr std::int64_t kMaxId = 0xfffffffe;
  const std::optional<std::int64_t> uid = base::ParseInt(arguments[1]);
  const std::optional<std::int64_t> gid = base::ParseInt(arguments[2]);
  if (!uid || !gid || *uid < 0 || *gid < 0 || *uid > kMaxId || *gid > kMaxId) return fail();
  MpsOrder order;
  order.dir = arguments[0];
  order.id = MpsServerNamed(static_cast<std::uint32_t>(*uid), static_cast<std::uint32_t>(*gid),
                            arguments[3]);
  std::size_t at = 4;
  for (; at < arguments.size() && arguments[at] != "--"; ++at) {
    const std::size_t equals = arguments[at].find('=');
    if (equals == 0 || equals == std::string::npos) return fail();
    order.environment[arguments[at].substr(0, equals)] = arguments[at].substr(equals + 1);
  }
  if (at + 1 >= arguments.size()) return fail();
  order.argv.assign(arguments.begin() + static_cast<std::ptrdiff_t>(at) + 1, arguments.end());
  if (!order.dir.starts_with('/') || !order.argv.front().starts_with('/')) return fail();
  return order;
}

int RunMpsChild(const std::vector<std::string>& arguments) {
  const Result<MpsOrder> order = ParseMpsArguments(arguments);
  const Result<Unit> became = order ? Become(*order) : std::unexpected(order.error());
  std::fprintf(stderr, "%s\n", base::Printable(became.error().message, 1000).c_str());
  return kMpsChildFailed;
}

}  // namespace carma::task
