#include "task/shim/container_guard.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <utility>

#include "base/fields_json.h"
#include "base/file.h"
#include "base/json.h"
#include "base/spawn.h"
#include "base/try.h"
#include "task/process/process_tree.h"
#include "task/shim/container_processes.h"

namespace carma::task {
namespace {

using base::UniqueFd;

// The guard's descriptors.
constexpr int kAliveFd = 3;
constexpr int kDoneFd = 4;
constexpr int kOrderFd = 5;
constexpr std::size_t kMaxGuardBytes = 64 << 20;
constexpr char kOnlyScript = 's';
constexpr std::chrono::milliseconds kPatience{60'000};

Result<GuardOrder> ReadOrder() {
  const std::string text = CARMA_TRY(base::ReadAll(kOrderFd, kMaxGuardBytes));
  const base::Json json = CARMA_TRY(base::ParseJson(text));
  return base::FieldsFromJson<GuardOrder>(json, "", base::Unknown::kRefused);
}

// Permanently switches to the user, deletes the copy of the script and, if `removes`, executes the
// removal command. Returns only if there is nothing to execute or a step fails.
void CleanUpAsUser(const GuardOrder& order, bool removes) {
  if (order.switches_user && !BecomeUser(order.user)) return;
  if (!order.script.empty()) ::unlink(order.script.c_str());
  if (!removes || order.removal.empty()) return;
  if (!order.keeps_setuid && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return;
  ResetSignals();
  (void)!::chdir("/");
  const std::vector<char*> argv = base::Argv(order.removal), block = base::Argv(order.block);
  ::execve(argv.front(), argv.data(), block.data());
}

void CleanUp(const GuardOrder& order, bool removes) {
  const pid_t child = ::fork();
  if (child == 0) {
    CleanUpAsUser(order, removes);
    ::_exit(0);
  }
  if (child > 0) ::waitpid(child, nullptr, 0);
  // Podman leaves behind a process that keeps the user's namespaces for its next invocation.
  for (const base::ProcessStat& left : Descendants(::getpid())) Tell(left.id, {SIGKILL});
  EndContainerGroup(order.group, order.limits);
}

}  // namespace

Result<ContainerGuard> ContainerGuard::Start(const GuardOrder& order) {
  const UniqueFd text = CARMA_TRY(
      base::MemoryFile(base::DumpJson(base::FieldsToJson(order, base::Absent::kLeftOut))));
  base::Pipe alive = CARMA_TRY(base::MakePipe());
  base::Pipe done = CARMA_TRY(base::MakePipe(false));
  const auto guard = base::Spawn({"/proc/self/exe", "--guard"},
                                 {.files = {"/dev/null", "/dev/null", "/dev/null", alive.read.get(),
                                            done.write.get(), text.get()},
                                  .environment = std::vector<std::string>{"PATH=/usr/bin:/bin"},
                                  .session = true,
                                  .block_signals = true});
  if (!guard) return FailErrno(guard.error(), "cannot start the container guard");
  // The started process exits at once; the guard continues in its child, whose parent is init.
  ::waitpid(guard->pid, nullptr, 0);
  ContainerGuard started;
  started.alive_ = std::move(alive.write);
  started.done_ = std::move(done.read);
  return started;
}

void ContainerGuard::Finish(bool removes) {
  if (!alive_) return;
  if (!removes) (void)!::write(alive_.get(), &kOnlyScript, 1);
  alive_.reset();
  pollfd end{done_.get(), POLLIN, 0};
  ::poll(&end, 1, static_cast<int>(kPatience.count()));
  done_.reset();
}

int RunGuard() {
  if (::fork() != 0) return 0;
  for (const int ours : {kAliveFd, kDoneFd, kOrderFd}) ::fcntl(ours, F_SETFD, FD_CLOEXEC);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const Result<GuardOrder> order = ReadOrder();
  if (!order) return 1;
  char word = 0;
  const bool removes = ::read(kAliveFd, &word, 1) != 1 || word != kOnlyScript;
  CleanUp(*order, removes);
  return 0;
}

}  // namespace carma::task
