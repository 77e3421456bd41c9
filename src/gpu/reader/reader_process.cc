#include "gpu/reader/reader_process.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <utility>
#include <vector>

#include "base/pidfd.h"
#include "base/spawn.h"

namespace carma::gpu {
namespace {

constexpr int kLastWaitMs = 200;

// Readers that were killed but have not exited yet. Each is reaped once it exits.
class LeftBehind {
 public:
  using Gpu = std::optional<std::uint32_t>;
  void Add(pid_t pid, Gpu gpu) {
    const std::lock_guard lock(mutex_);
    left_.emplace_back(pid, gpu);
  }
  // Reaps the readers that have exited. Returns how many of those asked about this GPU remain.
  std::size_t Reap(Gpu gpu = std::nullopt) {
    const std::lock_guard lock(mutex_);
    std::erase_if(left_,
                  [](const auto& each) { return ::waitpid(each.first, nullptr, WNOHANG) != 0; });
    return static_cast<std::size_t>(std::ranges::count(left_, gpu, &std::pair<pid_t, Gpu>::second));
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<pid_t, Gpu>> left_;
};

// Never destroyed, because a thread that hangs in the driver may release its reader while the
// program exits.
LeftBehind& TheLeftBehind() {
  static auto& left_behind = *new LeftBehind;
  return left_behind;
}

}  // namespace

Result<std::unique_ptr<ReaderProcess>> ReaderProcess::Start(const ReaderProgram& program) {
  TheLeftBehind().Reap();
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return FailErrno(errno, "socketpair");
  base::UniqueFd ours(ends[0]), theirs(ends[1]);
  const auto child = base::Spawn({program.path, program.nvml_library},
                                 {.files = {theirs.get(), "/dev/null", "/dev/null"}});
  if (!child) return FailErrno(child.error(), program.path);
  return std::unique_ptr<ReaderProcess>(
      new ReaderProcess(child->pid, base::LineSocket(std::move(ours), kMaxReaderLine)));
}

ReaderProcess::~ReaderProcess() {
  ::kill(pid_, SIGKILL);
  const base::UniqueFd handle = base::OpenPidfd(pid_);
  pollfd ended{handle.get(), POLLIN, 0};
  if (handle) ::poll(&ended, 1, kLastWaitMs);
  TheLeftBehind().Add(pid_, asking_);
  TheLeftBehind().Reap();
}

std::size_t ReaderProcess::LeftBehind(std::optional<std::uint32_t> gpu) {
  return TheLeftBehind().Reap(gpu);
}

void ReaderProcess::Ask(const ReaderRequest& request, std::optional<std::uint32_t> gpu) {
  asking_ = gpu;
  // If the reader is gone, Await() will notice it.
  (void)socket_.Send(FormatRequest(request));
}

std::expected<ReaderAnswer, NoAnswer> ReaderProcess::Await(std::chrono::milliseconds patience) {
  while (true) {
    const Result<std::string> line = socket_.Receive(patience);
    if (!line) {
      const bool late = line.error().code == ErrorCode::kUnavailable;
      return std::unexpected(NoAnswer{late, asking_});
    }
    Result<ReaderAnswer> answer = ParseAnswer(*line);
    if (!answer) return std::unexpected(NoAnswer{false, asking_});
    const Asking* const asking = std::get_if<Asking>(&*answer);
    if (!asking) return std::move(*answer);
    asking_ = asking->number;
  }
}

}  // namespace carma::gpu
