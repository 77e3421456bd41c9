// `carma logs`: shows a task's output file, which it reads with the caller's own permissions.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>

#include "base/text.h"
#include "base/try.h"
#include "base/unique_fd.h"
#include "cli/calls.h"
#include "cli/client/output_reader.h"
#include "cli/client/task_words.h"
#include "cli/client/verbs.h"
#include "task/shim/launcher.h"

namespace carma::cli {
namespace {

constexpr int kOutputPollS = 5;
constexpr int kStartPollS = 1;
constexpr std::chrono::seconds kRetry{1};

bool IsSet(int event_fd) {
  pollfd poll{.fd = event_fd, .events = POLLIN};
  return ::poll(&poll, 1, 0) > 0;
}

// Copies new output until `ended` is set, and then copies the rest.
Result<Unit> CopyUntil(OutputReader& reader, FileWatch& watch, int ended, std::FILE* out) {
  for (;;) {
    const bool last = IsSet(ended);  // if set before the copy, the copy is complete
    const bool read = CARMA_TRY(reader.CopyNew(out));
    if (last || !read) return Unit{};
    watch.Wait(ended);
  }
}

// Polls the task until `done` returns true. Keeps polling while the daemon restarts, because the
// task keeps running; `done` is then called with null.
Result<Unit> AwaitUntil(api::Client& client, std::uint64_t id, int poll_s,
                        const std::function<bool(const api::TaskView*)>& done) {
  for (;;) {
    const auto task = AwaitTask(client, id, poll_s);
    if (!task && task.error().code != ErrorCode::kUnavailable) return std::unexpected(task.error());
    if (done(task ? &task->value : nullptr)) return Unit{};
    if (!task) std::this_thread::sleep_for(kRetry);
  }
}

bool HasStarted(const api::TaskView& task) {
  return task.attempt > 1 || (task.attempt == 1 && task.state != "launching");
}

// Explains why a task that never started has no output; empty if the task has started.
std::string NeverStarted(const api::TaskView& task) {
  if (!HasEnded(task)) return "";
  if (task.reason == "LaunchFailed") {
    std::string_view why = task.reason_text;
    if (why.ends_with('.')) why.remove_suffix(1);
    return fmt::format("task {} has no output: {}", task.id, why);
  }
  if (task.attempt > 0) return "";
  return fmt::format("task {} never started ({}), so it has no output", task.id, EndText(task));
}

base::Error Unreadable(const base::Error& error, const api::TaskView& task,
                       const std::string& path) {
  const std::string who = "task " + std::to_string(task.id);
  if (path == "/dev/null") {
    const bool leased = !task.origin.empty();
    return {ErrorCode::kNotFound,
            who + (leased ? " is a lease: CARMA does not capture its output"
                          : " has no output file: its output went to carma run's terminal or "
                            "/dev/null; -o FILE keeps a copy")};
  }
  if (error.code != ErrorCode::kNotFound)
    return {error.code, "the output of " + who + " is in " + path + ": " + error.message};
  if (std::string why = NeverStarted(task); !why.empty()) return {error.code, std::move(why)};
  return {error.code, HasStarted(task) ? "output file " + path + " of " + who + " is missing"
                                       : who + " has not started; its output will be in " + path};
}

Result<Unit> Follow(Context& context, std::uint64_t id, OutputReader& reader,
                    const std::string& path) {
  const base::UniqueFd ended(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!ended) return FailErrno(errno, "eventfd");
  FileWatch watch(path);
  std::atomic<bool> copying = true;
  Result<Unit> copied;
  std::thread copier([&] {
    copied = CopyUntil(reader, watch, ended.get(), context.out);
    copying = false;
  });
  const auto awaited = AwaitUntil(
      context.client(), id, kOutputPollS,
      [&](const api::TaskView* task) { return !copying || (task != nullptr && HasEnded(*task)); });
  const std::uint64_t one = 1;
  (void)!::write(ended.get(), &one, sizeof one);  // cannot fail, because the counter is 0
  copier.join();
  if (!copied) return copied;
  if (!awaited || reader.opened()) return awaited;
  const auto task = GetTask(context.client(), id);
  if (!task || !HasEnded(task->value)) return Unit{};
  // The task has ended without creating the expected file.
  return std::unexpected(Unreadable({ErrorCode::kNotFound, ""}, task->value, path));
}

// Returns a sentence that says where the task's older output is if its output file was rotated
// (task.max_output); empty if it was not. A file from before the submission belongs to another
// task. path: the output file.
std::string OlderOutput(const api::TaskView& task, const std::string& path) {
  std::error_code none;
  const std::string file = std::filesystem::canonical(path, none).string();
  const auto is_older_output = [&](int number) {
    struct stat info {};
    return ::stat(fmt::format("{}.{}", file, number).c_str(), &info) == 0 &&
           S_ISREG(info.st_mode) && info.st_mtim.tv_sec >= task.submitted_ms / 1000;
  };
  int files = 0;
  while (!none && is_older_output(files + 1)) ++files;
  if (files == 0) return "";
  return fmt::format("carma: older output of task {} is in {}.1{}\n", task.id,
                     base::Printable(file, 4096),
                     files == 1 ? "" : fmt::format(" (newest) to .{}", files));
}

// The line above each output, as tail(1) prints it for several files.
std::string Heading(const api::TaskView& task, bool first) {
  return fmt::format("{}==> task {} {} <==\n", first ? "" : "\n", task.id, Line(task.name));
}

// heading: text printed above the output.
Result<Unit> ShowLog(Context& context, const api::TaskView& task, const LogsFlags& flags,
                     const std::string& heading) {
  const std::string& path =
      flags.errors && !task.stderr_path.empty() ? task.stderr_path : task.stdout_path;
  OutputReader reader(path);
  const bool follow = flags.follow && !HasEnded(task);
  auto opened = reader.Open();
  // If the task has not started, another task or program wrote this file.
  const bool stale = opened && (!HasStarted(task) || !NeverStarted(task).empty());
  if (stale) {
    reader = OutputReader(path);
    opened = std::unexpected(base::Error{ErrorCode::kNotFound, ""});
  }
  const bool will_come = follow && !opened && opened.error().code == ErrorCode::kNotFound;
  if (!opened && !will_come) return std::unexpected(Unreadable(opened.error(), task, path));
  if (opened && flags.lines) CARMA_TRY(reader.SkipToLast(*flags.lines));
  if (opened) Print(context, heading);
  if (opened && !flags.lines) std::fputs(OlderOutput(task, path).c_str(), context.err);
  if (will_come) {
    std::fprintf(context.err, "carma: task %s is %s; waiting for its output\n",
                 std::to_string(task.id).c_str(), base::Printable(task.state, 40).c_str());
  }
  if (stale) {
    api::TaskView now;
    CARMA_TRY(AwaitUntil(context.client(), task.id, kStartPollS, [&](const api::TaskView* seen) {
      if (seen != nullptr) now = *seen;
      return seen != nullptr && (HasStarted(now) || HasEnded(now));
    }));
    if (!HasStarted(now)) return std::unexpected(Unreadable(opened.error(), now, path));
    // A task that appends to its file keeps the old output, which may be long.
    if (flags.lines && reader.Open()) CARMA_TRY(reader.SkipToLast(*flags.lines));
  }
  if (follow) return Follow(context, task.id, reader, path);
  if (const auto copied = reader.CopyNew(context.out); !copied) context.Fail(copied.error());
  if (task.exit_detail.contains(task::kOutputLostText))
    Warn(context, fmt::format("task {}: {}", task.id, base::Printable(task.exit_detail, 400)));
  return Unit{};
}

}  // namespace

Result<Unit> RunLogs(Context& context, const LogsFlags& flags) {
  const auto ids = CARMA_TRY(ResolveTasks(context, flags.tasks));
  if (flags.follow && ids.size() != 1) return Invalid("logs -f: expected one task");
  const bool several = ids.size() > 1;
  std::vector<std::string> texts;
  for (std::uint64_t id : ids) {
    const auto task = GetTask(context.client(), id);
    if (!task) {
      context.Fail(task.error());
    } else if (context.json) {
      texts.push_back("{\"id\":" + std::to_string(id) +
                      ",\"stdout_path\":" + JsonString(task->value.stdout_path) +
                      ",\"stderr_path\":" + JsonString(task->value.stderr_path) + "}");
    } else {
      context.Report(ShowLog(context, task->value, flags,
                             several ? Heading(task->value, id == ids.front()) : ""));
    }
  }
  if (context.json) PrintNamed(context, texts, several);
  return Unit{};
}

}  // namespace carma::cli
