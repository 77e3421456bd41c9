#include "daemon/notices.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/spawn.h"
#include "base/text.h"

namespace carma::daemon {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;
using base::Unit;

constexpr const char* kPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// Empty: it ended in time; else why it shall end now.
std::string AwaitEnd(const base::UniqueFd& process, int stop, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return fmt::format("took more than {} ms", limit.count());
    pollfd waiting[] = {{process.get(), POLLIN, 0}, {stop, POLLIN, 0}};
    if (::poll(waiting, 2, static_cast<int>(left.count()) + 1) < 0 && errno != EINTR)
      return std::strerror(errno);
    if (waiting[0].revents != 0) return "";
    if (waiting[1].revents != 0) return "was ended with the daemon";
  }
}

}  // namespace

std::string ToLine(const IdleNotice& notice) {
  const double idle_s = base::Seconds(notice.now - notice.idle_since);
  return base::DumpJson(
      {{"event", "idle_holder"},
       {"text", fmt::format("Task {} ({}) of {} has not used its GPUs for {}", notice.task,
                            base::Printable(notice.name, 100), base::Printable(notice.user, 100),
                            base::FormatSpan(notice.now - notice.idle_since))},
       {"task", notice.task},
       {"attempt", notice.attempt},
       {"name", notice.name},
       {"user", notice.user},
       {"uid", notice.uid},
       {"gpu_uuids", notice.gpu_uuids},
       {"idle_since_ms", base::ToMs(notice.idle_since)},
       {"now_ms", base::ToMs(notice.now)},
       {"idle_s", idle_s},
       {"action", notice.action}});
}

Result<Unit> RunNotice(const std::vector<std::string>& program, const std::string& line,
                       std::chrono::milliseconds limit, int stop) {
  const Result<base::UniqueFd> input = base::MemoryFile(line + "\n");
  if (!input) return std::unexpected(input.error());
  // A process group of its own, so that what it starts is ended with it.
  const auto child = base::Spawn(program, {.files = {input->get(), "/dev/null", STDERR_FILENO},
                                           .environment = std::vector<std::string>{kPath},
                                           .folder = "/"});
  if (!child)
    return Fail(ErrorCode::kUnavailable,
                fmt::format("cannot be started: {}", std::strerror(child.error())));
  const std::string trouble =
      child->process ? AwaitEnd(child->process, stop, limit) : std::string("cannot be watched");
  if (!trouble.empty()) ::kill(-child->pid, SIGKILL);
  int status = 0;
  while (::waitpid(child->pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!trouble.empty()) return Fail(ErrorCode::kUnavailable, trouble);
  if (WIFSIGNALED(status))
    return Fail(ErrorCode::kUnavailable, fmt::format("ended by signal {}", WTERMSIG(status)));
  if (WEXITSTATUS(status) != 0)
    return Fail(ErrorCode::kUnavailable, fmt::format("exit status {}", WEXITSTATUS(status)));
  return Unit{};
}

Notices::Notices(NoticesOptions options)
    : options_(std::move(options)), stop_(::eventfd(0, EFD_CLOEXEC)) {}

Notices::~Notices() {
  // The worker, a member, then waits for its job.
  stopping_ = true;
  (void)::eventfd_write(stop_.get(), 1);
}

void Notices::Tell(std::string line) {
  if (options_.program.empty()) return;
  if (waiting_ >= options_.most) {
    base::LogWarn("notice_dropped", {{"program", options_.program.front()}, {"line", line}});
    return;
  }
  ++waiting_;
  worker_.Do([this, program = options_.program, line = std::move(line)] {
    --waiting_;
    if (stopping_) return;
    const Result<Unit> ran = RunNotice(program, line, options_.limit, stop_.get());
    if (ran) return;
    base::LogWarn("notice_failed",
                  {{"program", program.front()}, {"why", ran.error().message}, {"line", line}});
  });
}

}  // namespace carma::daemon
