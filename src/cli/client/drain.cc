// `carma drain` and `carma resume`: choose which GPUs accept tasks, or close the whole server
// before its machine goes down.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "api/troubles.h"
#include "base/json.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/calls.h"
#include "cli/client/gpu_text.h"
#include "cli/client/verbs.h"
#include "task/describe/option_values.h"

namespace carma::cli {
namespace {

constexpr std::chrono::milliseconds kLookAgain{200};
// How long to wait for a daemon that does not answer, because it may be restarting.
constexpr std::chrono::seconds kAwayAtMost{15};
const std::vector<std::string> kAll{"all"};
constexpr std::int64_t kMostGpus = 1024;  // in one range

Result<std::vector<std::string>> NamedGpus(Context& context,
                                           const std::vector<std::string>& words) {
  auto names = SplitGpuNames(words);
  if (!names || *names != kAll) return names;
  const auto gpus = CARMA_TRY(ListGpus(context.client()));
  names->clear();
  for (const api::GpuView& gpu : gpus.value) names->push_back(gpu.uuid);
  return names;
}

// The sentence that reports the result of drain or resume for one GPU.
std::string StandingText(const std::string& verb, const api::GpuView& gpu) {
  const std::string& state = gpu.state;
  if (verb == "resume" && IsDown(gpu))
    return " is open, and will accept tasks as soon as it responds";
  if (verb == "resume" && IsClosed(gpu)) return " is open, but is not accepting new tasks yet";
  if (state == "drng" && gpu.leave_by_ms)
    return " accepts no new tasks; running tasks must stop by " +
           base::FormatTime(base::FromMs(*gpu.leave_by_ms));
  if (state == "drng") return " accepts no new tasks; running tasks continue";
  if (state == "drain") return " accepts no new tasks and is empty";
  return " is accepting tasks again";
}

// Changes the GPUs and returns their new states. Reports GPUs that could not be changed.
std::vector<Answer<api::GpuView>> ChangeEach(Context& context, const std::string& verb,
                                             const std::vector<std::string>& names,
                                             const std::string& reason,
                                             std::optional<base::Time> empty_by) {
  std::vector<Answer<api::GpuView>> changed;
  if (empty_by) CloseGpus(context.client(), names, reason);
  for (const std::string& name : names) {
    auto gpu = ChangeGpu(context.client(), name, verb, reason, empty_by);
    if (!gpu) {
      context.Fail(gpu.error());
      continue;
    }
    if (!context.json) {
      Print(context, fmt::format("GPU {}{}\n", gpu->value.index, StandingText(verb, gpu->value)));
    }
    changed.push_back(*std::move(gpu));
  }
  return changed;
}

void PrintJson(Context& context, const std::vector<Answer<api::GpuView>>& gpus) {
  std::vector<std::string> texts;
  for (const Answer<api::GpuView>& gpu : gpus) texts.push_back(gpu.text);
  Print(context, JsonList(texts) + "\n");
}

// ---- the whole server ----

std::string TasksThatRun(std::int64_t count) {
  return base::Counted(count, "task") + (count == 1 ? " is still running" : " are still running");
}

// Waits until no tasks are left on the server, but not beyond the tasks' deadline. On a simulated
// server, the wait is shorter because its clock runs faster.
Called<api::StatusView> AwaitEmptyServer(Context& context, const api::StatusView& closed) {
  using Clock = std::chrono::steady_clock;
  const double left_ms =
      static_cast<double>(closed.gone_by_ms.value_or(0) - closed.now_ms) / closed.time_scale;
  const auto until =
      Clock::now() + std::chrono::milliseconds(std::max<std::int64_t>(0, std::llround(left_ms)));
  auto answered = Clock::now();
  while (true) {
    Called<api::StatusView> status = GetStatus(context.client());
    const auto now = Clock::now();
    if (status) {
      answered = now;
      const std::int64_t tasks = RunningTasks(status->value);
      if (status->value.closed.empty() && !status->value.starting)
        return Conflict("the server was reopened in the meantime");
      if (tasks == 0 && !status->value.starting) return status;
      if (now >= until) return Unavailable(TasksThatRun(tasks));
    } else if (status.error().code != ErrorCode::kUnavailable || now >= answered + kAwayAtMost) {
      return status;
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

Result<Unit> CloseUntilBoot(Context& context, const GpuChangeFlags& flags,
                            std::optional<base::Time> empty_by) {
  auto status = CARMA_TRY(CloseServer(context.client(), flags.reason, empty_by));
  const std::int64_t tasks = RunningTasks(status.value);
  const bool print = !context.json;
  if (print && tasks == 0)
    Print(context, "The server will start no new tasks, and none are running\n");
  if (print && tasks > 0) {
    Print(context,
          fmt::format("The server will start no new tasks; running tasks must stop by {}\n",
                      base::FormatTime(base::FromMs(status.value.leave_by_ms.value_or(0)))));
  }
  if (flags.wait && tasks > 0) {
    status = CARMA_TRY(AwaitEmptyServer(context, status.value));
    if (print) Print(context, "No more tasks are running\n");
  }
  if (context.json) Print(context, status.text + "\n");
  return Unit{};
}

// ---- single GPUs ----

// Waits until no tasks are left on the GPUs, and returns the GPUs.
Result<std::vector<Answer<api::GpuView>>> AwaitEmptyGpus(
    Context& context, const std::vector<Answer<api::GpuView>>& drained) {
  using Clock = std::chrono::steady_clock;
  auto answered = Clock::now();
  while (true) {
    const auto gpus = ListGpus(context.client());
    if (!gpus) {
      const bool away = gpus.error().code == ErrorCode::kUnavailable;
      if (!away || Clock::now() >= answered + kAwayAtMost) return std::unexpected(gpus.error());
      std::this_thread::sleep_for(kLookAgain);
      continue;
    }
    answered = Clock::now();
    bool empty = true;
    std::vector<Answer<api::GpuView>> now;
    for (const Answer<api::GpuView>& each : drained) {
      const auto at = std::ranges::find(gpus->value, each.value.uuid, &api::GpuView::uuid);
      if (at == gpus->value.end()) continue;
      empty = empty && at->state != "drng";
      now.push_back({*at, base::DumpJson(api::ToJson(*at))});
    }
    if (empty) return now;
    std::this_thread::sleep_for(kLookAgain);
  }
}

}  // namespace

Result<std::vector<std::string>> SplitGpuNames(const std::vector<std::string>& words) {
  std::vector<std::string> names;
  for (const std::string& word : words) {
    for (std::string_view name : base::Split(word, ',')) {
      if (name.empty())
        return Invalid("GPU '" + base::Printable(word, 60) + "': expected an index or a UUID");
      const std::size_t dash = name.find('-');
      const auto first = base::ParseInt(name.substr(0, dash));
      if (!first || dash == name.npos) {
        names.emplace_back(name);
        continue;
      }
      const auto last = base::ParseInt(name.substr(dash + 1));
      if (!last || *last < *first || *last - *first >= kMostGpus)
        return Invalid("GPU '{}': expected a range such as 0-3", base::Printable(name, 60));
      for (std::int64_t gpu = *first; gpu <= *last; ++gpu) names.push_back(std::to_string(gpu));
    }
  }
  return names;
}

Result<Unit> RunDrain(Context& context, const GpuChangeFlags& flags) {
  std::optional<base::Time> empty_by;
  if (!flags.by.empty()) {
    const auto status = CARMA_TRY(GetStatus(context.client()));
    const base::Time now = base::FromMs(status.value.now_ms);
    empty_by = CARMA_TRY(base::Wrap(task::ParseBegin(flags.by, now), "--by"));
    if (*empty_by < now)
      return Invalid("--by: {} is in the past; use --by now to stop the tasks immediately",
                     base::FormatTime(*empty_by));
  }
  if (flags.until_boot && flags.gpus != kAll)
    return Invalid("--until-boot: expected 'all', not individual GPUs");
  if (flags.until_boot) return CloseUntilBoot(context, flags, empty_by);
  const auto names = CARMA_TRY(NamedGpus(context, flags.gpus));
  std::vector<Answer<api::GpuView>> drained =
      ChangeEach(context, "drain", names, flags.reason, empty_by);
  if (flags.wait && !drained.empty()) {
    drained = CARMA_TRY(AwaitEmptyGpus(context, drained));
    if (!context.json) Print(context, "No tasks are left on these GPUs\n");
  }
  if (context.json) PrintJson(context, drained);
  return Unit{};
}

Result<Unit> RunResume(Context& context, const GpuChangeFlags& flags) {
  if (flags.gpus == kAll) {
    const auto status = CARMA_TRY(GetStatus(context.client()));
    if (!status.value.closed.empty()) {
      CARMA_TRY(OpenServer(context.client()));
      if (!context.json) Print(context, "The server is accepting tasks again\n");
    }
  }
  const auto names = CARMA_TRY(NamedGpus(context, flags.gpus));
  const auto opened = ChangeEach(context, "resume", names, "", std::nullopt);
  if (context.json) PrintJson(context, opened);
  if (std::ranges::none_of(opened, [](const auto& gpu) { return IsClosed(gpu.value); }))
    return Unit{};
  const auto status = GetStatus(context.client());
  if (status && !status->value.closed.empty())
    return Conflict(api::ServerIsClosed(status->value.closed));
  return Unit{};
}

}  // namespace carma::cli
