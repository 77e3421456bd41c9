#include "core/scheduler/trial.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "core/policy/gpu_links.h"
#include "core/queue/dependencies.h"
#include "core/values/gpu_choice.h"

namespace carma::core {

Trial Try(const Scheduler& scheduler, const TaskRequest& request,
          const std::optional<Estimate>& estimate, Time now) {
  if (std::optional<Reason> never = scheduler.NeverFits(request, estimate))
    return {Fit::kNever, std::move(*never)};
  if (const auto named = MayName(scheduler.config(), request); !named)
    return {Fit::kNever, {ReasonCode::kLimit, named.error().message}};
  if (const std::optional<LimitHit> hit = scheduler.LimitOnSubmission(request, 1))
    return {Fit::kNever, {ReasonCode::kLimit, TextOf(*hit)}};
  if (std::optional<Reason> never = NeverMetByEnds(request.dependencies))
    return {Fit::kNever, std::move(*never)};
  if (request.held) return {Fit::kNotNow, {ReasonCode::kHeld, "submitted on hold"}};
  if (request.begin && *request.begin > now)
    return {Fit::kNotNow,
            {ReasonCode::kBeginTime,
             fmt::format("May not start before {}.", base::FormatTimeIso(*request.begin))}};
  if (std::optional<Reason> unmet = UnmetDependency({.request = request}, scheduler.Tasks()))
    return {Fit::kNotNow, std::move(*unmet)};
  if (std::optional<Reason> barred = scheduler.BarredFor(request, estimate, now))
    return {Fit::kNotNow, std::move(*barred)};
  // Tasks ahead of the new task do not block it if it is considered together with them.
  const PolicyConfig& config = scheduler.config();
  const std::size_t looked_at =
      config.recovery_blocks ? 1 : static_cast<std::size_t>(config.backfill);
  if (const std::size_t ahead = scheduler.AheadOf(request); ahead >= looked_at) {
    return {Fit::kNotNow,
            {ReasonCode::kPriority, ahead == 1 ? "1 task is ahead of it"
                                               : fmt::format("{} tasks are ahead of it", ahead)}};
  }
  if (Verdict by_host = scheduler.HostFor(request, now).verdict; by_host.fit != Fit::kFits)
    return {by_host.fit, std::move(by_host.reason)};
  if (request.gpus == 0) return {};
  const Need need = scheduler.NeedOfNew(request, estimate);
  int fitting = 0;
  std::vector<GpuLinks::Candidate> open;
  Trial trial{Fit::kNotNow, {ReasonCode::kResources, "too few GPUs can take it now"}};
  for (const GpuView& gpu : scheduler.Gpus(now)) {
    const Verdict verdict = CheckGuards(scheduler.config(), need, gpu);
    if (verdict.fit == Fit::kFits) {
      ++fitting;
      open.push_back({gpu.index, 0});
    } else if (verdict.fit == Fit::kNotNow && trial.reason.code == ReasonCode::kResources) {
      trial.reason = verdict.reason;  // from the first GPU that may take it later
    }
  }
  if (fitting < request.gpus) return trial;
  if (need.linked && GpuLinks(scheduler.GpuInfos()).ChooseFor(need, std::move(open)).empty())
    return {Fit::kNotNow,
            {ReasonCode::kNotLinked, "the GPUs that can take it are not connected to each other"}};
  return {};
}

void NoteTooLarge(const Scheduler& scheduler, const TaskRequest& request,
                  const std::optional<Estimate>& estimate, std::vector<std::string>& remarks) {
  if (request.gpus == 0 || !estimate || !estimate->predicted_mib) return;
  const std::vector<GpuInfo>& gpus = scheduler.GpuInfos();
  const GpuChoice choice(request, gpus);
  std::int64_t largest_mib = 0;
  for (std::uint32_t i = 0; i < gpus.size(); ++i) {
    if (choice.Allows(GpuIndex{i})) largest_mib = std::max(largest_mib, gpus[i].UsableMib());
  }
  if (*estimate->predicted_mib <= largest_mib) return;
  remarks.insert(
      remarks.begin(),
      fmt::format(
          "No GPU here is large enough: the prediction is {} per GPU, and the largest GPU that the "
          "task may use has {}. Use more GPUs or a smaller batch, or set --memory if you know that "
          "the task needs less.",
          base::FormatMib(*estimate->predicted_mib), base::FormatMib(largest_mib)));
}

}  // namespace carma::core
