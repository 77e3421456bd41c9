#include "base/spawn.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/file.h"
#include "base/pidfd.h"
#include "base/try.h"

namespace carma::base {
namespace {

// Owns the two attribute objects of posix_spawn and destroys them.
class Plan {
 public:
  explicit Plan(const SpawnOptions& options) {
    ::posix_spawnattr_init(&attributes);
    ::posix_spawn_file_actions_init(&actions);
    sigset_t all, blocked;
    ::sigfillset(&all);
    ::sigemptyset(&blocked);
    if (options.block_signals) blocked = all;
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setsigmask(&attributes, &blocked);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    const int apart = options.session ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP;
    ::posix_spawnattr_setflags(
        &attributes, static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | apart));
    int place = 0;
    for (const auto& file : options.files) Add(place++, file);
    ::posix_spawn_file_actions_addclosefrom_np(&actions, place);
    if (!options.folder.empty())
      ::posix_spawn_file_actions_addchdir_np(&actions, options.folder.c_str());
  }
  ~Plan() {
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;

 private:
  void Add(int place, const std::variant<int, std::string>& file) {
    if (const int* const ours = std::get_if<int>(&file)) {
      ::posix_spawn_file_actions_adddup2(&actions, *ours, place);
      return;
    }
    const int flags = place == 0 ? O_RDONLY : O_WRONLY | O_CREAT | O_APPEND;
    ::posix_spawn_file_actions_addopen(&actions, place, std::get<std::string>(file).c_str(), flags,
                                       0600);
  }
};

}  // namespace

std::vector<char*> Argv(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

Result<Pipe> MakePipe(bool blocking_read) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return FailErrno(errno, "pipe");
  Pipe pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
  for (UniqueFd* const end : {&pipe.read, &pipe.write}) {
    if (end->get() <= 2) end->reset(::fcntl(end->get(), F_DUPFD_CLOEXEC, 3));
    if (!*end) return FailErrno(errno, "pipe");
  }
  // Only our end gets O_NONBLOCK; the program at the other end does not expect it.
  if (!blocking_read) ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

Result<UniqueFd> MemoryFile(std::string_view text) {
  constexpr int kBehindPlaces = 10;
  UniqueFd file(::memfd_create("carma", MFD_CLOEXEC));
  if (file && file.get() < kBehindPlaces)
    file.reset(::fcntl(file.get(), F_DUPFD_CLOEXEC, kBehindPlaces));
  if (!file) return Unavailable(std::string("memory: ") + std::strerror(errno));
  CARMA_TRY(WriteAll(file.get(), text));
  if (::lseek(file.get(), 0, SEEK_SET) != 0)
    return Unavailable(std::string("memory: ") + std::strerror(errno));
  return file;
}

std::expected<Spawned, int> Spawn(const std::vector<std::string>& words,
                                  const SpawnOptions& options) {
  const Plan plan(options);
  std::vector<char*> block;
  if (options.environment) block = Argv(*options.environment);
  pid_t pid = 0;
  const int error =
      ::posix_spawnp(&pid, words.front().c_str(), &plan.actions, &plan.attributes,
                     Argv(words).data(), options.environment ? block.data() : environ);
  if (error != 0) return std::unexpected(error);
  // The child has not been reaped yet, so no other process can have its pid.
  return Spawned{pid, OpenPidfd(pid)};
}

}  // namespace carma::base
