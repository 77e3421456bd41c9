// `carma wait`: waits until tasks have ended, even if the daemon restarts in the meantime.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/text.h"
#include "base/try.h"
#include "cli/calls.h"
#include "cli/client/task_words.h"
#include "cli/client/verbs.h"

namespace carma::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPoll{300};
constexpr std::chrono::seconds kCallAgain{1};
constexpr std::chrono::seconds kLongestCall{2};

class Waiter {
 public:
  Waiter(Context& context, std::optional<base::Duration> timeout, bool tell_start = false)
      : context_(context), tell_start_(tell_start) {
    if (timeout) deadline_ = SteadyClock::now() + *timeout;
  }

  // Returns the first task that has ended. Each request waits a few seconds for one of the tasks.
  // All tasks are checked between requests.
  Result<std::optional<Answer<api::TaskView>>> AwaitAny(const std::vector<std::uint64_t>& ids) {
    for (std::size_t next = 0;; next = (next + 1) % ids.size()) {
      for (const std::uint64_t id : ids) {
        auto task = GetTask(context_.client(), id);
        if (!task && !(task.error().code == ErrorCode::kUnavailable && connected_))
          return std::unexpected(task.error());
        if (!task) break;
        connected_ = true;
        if (HasEnded(task->value)) return std::optional(std::move(*task));
      }
      if (deadline_ && SteadyClock::now() >= *deadline_) return std::nullopt;
      const auto patience = std::min(Left(), kLongestCall);
      const auto task = AwaitTask(context_.client(), ids[next], static_cast<int>(patience.count()));
      if (!task) Reconnect(task.error());
    }
  }

  // Returns an empty value if the time runs out, the daemon's error if it refuses the call, and
  // kUnavailable if the daemon never answered.
  Result<std::optional<Answer<api::TaskView>>> Await(std::uint64_t id) {
    for (;;) {
      // The first poll does not wait. If it fails, there is no daemon. If a later one fails, the
      // daemon is restarting, and this loop waits for it.
      const auto most = tell_start_ ? std::min(Left(), kLongestCall) : Left();
      const auto patience = connected_ ? most : std::chrono::seconds(0);
      auto task = AwaitTask(context_.client(), id, static_cast<int>(patience.count()));
      const bool gone = !task && task.error().code == ErrorCode::kUnavailable;
      if (!task && !(gone && connected_)) return std::unexpected(task.error());
      if (gone) {
        Reconnect(task.error());
      } else {
        connected_ = true;
        told_ = false;
        if (HasEnded(task->value)) return std::optional(std::move(*task));
        if (tell_start_ && task->value.state == "running") {
          std::fprintf(context_.err, "carma: task %llu is running\n",
                       static_cast<unsigned long long>(id));
          tell_start_ = false;
        }
      }
      if (deadline_ && SteadyClock::now() >= *deadline_) return std::nullopt;
    }
  }

 private:
  // Whole seconds that the next poll may take.
  std::chrono::seconds Left() const {
    if (!deadline_) return kPoll;
    const auto left = std::chrono::ceil<std::chrono::seconds>(*deadline_ - SteadyClock::now());
    return std::clamp(left, std::chrono::seconds(0), kPoll);
  }

  // Waits until the daemon is back. Tasks survive its restart, so there is no reason to give up.
  void Reconnect(const base::Error& error) {
    if (!told_) Warn(context_, error.message + "; waiting for it");
    told_ = true;
    std::this_thread::sleep_for(kCallAgain);
  }

  Context& context_;
  std::optional<SteadyClock::time_point> deadline_;
  bool tell_start_;
  bool connected_ = false;
  bool told_ = false;
};

}  // namespace

void AwaitTasks(Context& context, const std::vector<std::uint64_t>& tasks, const WaitFlags& flags) {
  Waiter waiter(context, flags.timeout, flags.tell_start);
  int highest = 0;
  std::vector<std::string> texts;
  const auto print_json = [&] {
    if (context.json) Print(context, JsonList(texts) + "\n");
  };
  const bool any = flags.any && !tasks.empty();
  for (std::size_t i = 0; i < (any ? 1 : tasks.size()); ++i) {
    auto task = any ? waiter.AwaitAny(tasks) : waiter.Await(tasks[i]);
    if (!task || !*task) print_json();  // the tasks that have ended
    if (!task) return context.Fail(task.error());
    if (!*task) {
      const std::string what = any ? "no task has" : fmt::format("task {} has not", tasks[i]);
      context.Fail(
          Unavailable("{} ended within {}", what, base::FormatSpan(*flags.timeout)).error());
      context.exit_code = kExitTimeout;
      return;
    }
    const api::TaskView& view = (*task)->value;
    const std::uint64_t id = view.id;
    highest = std::max(highest, ExitCodeOf(view));
    if (context.json) {
      texts.push_back(std::move((*task)->text));
    } else if (!flags.quiet) {
      Print(context, "Task " + std::to_string(id) + " " + EndText(view) + "\n");
      std::fflush(context.out);
    }
  }
  print_json();
  context.exit_code = highest;
}

Result<Unit> RunWait(Context& context, const WaitFlags& flags) {
  AwaitTasks(context, CARMA_TRY(ResolveTasks(context, flags.tasks, Last::kArray)), flags);
  return Unit{};
}

}  // namespace carma::cli
