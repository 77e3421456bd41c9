// wait: until tasks have ended, across restarts of the daemon.
#include <algorithm>
#include <chrono>
#include <thread>

#include "base/text.h"
#include "cli/calls.h"
#include "cli/task_text.h"
#include "cli/verbs.h"

namespace carma::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPoll{300};
constexpr std::chrono::seconds kRetry{1};

class Waiter {
 public:
  Waiter(Context& context, std::optional<base::Duration> timeout) : context_(context) {
    if (timeout) deadline_ = SteadyClock::now() + *timeout;
  }

  // Empty value: the time is over. Errors: the daemon's, and that it was never there.
  base::Result<std::optional<Answer<api::TaskView>>> Await(std::uint64_t id) {
    for (;;) {
      auto task = AwaitTask(context_.client(), id, static_cast<int>(Left().count()));
      const bool gone = !task && task.error().code == base::ErrorCode::kUnavailable;
      if (!task && !(gone && connected_)) return std::unexpected(task.error());
      if (gone) {
        Reconnect(task.error());
      } else {
        connected_ = true;
        told_ = false;
        if (HasEnded(task->value)) return std::optional(std::move(*task));
      }
      if (deadline_ && SteadyClock::now() >= *deadline_) return std::nullopt;
    }
  }

 private:
  // Whole seconds for the next poll.
  std::chrono::seconds Left() const {
    if (!deadline_) return kPoll;
    const auto left = std::chrono::ceil<std::chrono::seconds>(*deadline_ - SteadyClock::now());
    return std::clamp(left, std::chrono::seconds(0), kPoll);
  }

  // Tasks outlive the daemon, so a restart is no reason to give up.
  void Reconnect(const base::Error& error) {
    if (!told_) Warn(context_, error.message + "; waiting for it");
    told_ = true;
    std::this_thread::sleep_for(kRetry);
  }

  Context& context_;
  std::optional<SteadyClock::time_point> deadline_;
  bool connected_ = false;
  bool told_ = false;
};

}  // namespace

void AwaitTasks(Context& context, const std::vector<std::uint64_t>& tasks, const WaitFlags& flags) {
  Waiter waiter(context, flags.timeout);
  int highest = 0;
  std::vector<std::string> texts;
  for (std::uint64_t id : tasks) {
    auto task = waiter.Await(id);
    if (!task) return context.Fail(task.error());
    if (!*task) {
      context.Fail({base::ErrorCode::kUnavailable, "task " + std::to_string(id) +
                                                       " has not ended within " +
                                                       base::FormatSpan(*flags.timeout)});
      context.exit_code = kExitTimeout;
      return;
    }
    const api::TaskView& view = (*task)->value;
    highest = std::max(highest, ExitCodeOf(view));
    if (context.json) {
      texts.push_back(std::move((*task)->text));
    } else if (!flags.quiet) {
      Print(context, "Task " + std::to_string(id) + " " + EndText(view) + "\n");
      std::fflush(context.out);
    }
  }
  if (context.json) Print(context, JsonList(texts) + "\n");
  context.exit_code = highest;
}

void RunWait(Context& context, const WaitFlags& flags) {
  const auto ids = ResolveTasks(context, flags.tasks, "@");
  if (!ids) return context.Fail(ids.error());
  AwaitTasks(context, *ids, flags);
}

}  // namespace carma::cli
