#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "cli/client/gpu_text.h"
#include "cli/client/task_text.h"
#include "cli/client/task_words.h"
#include "cli/ids.h"
#include "core/policy/policy.h"

namespace carma::cli {
namespace {

// Returns the reason with these words in place of the GPU's name.
std::string OfAnyGpu(const api::VerdictView& verdict, std::string_view words) {
  const std::string gpu = fmt::format("GPU {}", verdict.gpu);
  std::string text = verdict.reason_text;
  for (std::size_t at = 0; (at = text.find(gpu, at)) != std::string::npos;) {
    const std::size_t end = at + gpu.size();
    // "GPU 1" must not match "GPU 12".
    const bool longer = end < text.size() && text[end] >= '0' && text[end] <= '9';
    if (!longer) text.replace(at, gpu.size(), words);
    at += longer ? gpu.size() : words.size();
  }
  return text;
}

// The memory of several GPUs: "2.0G", or "2.0G to 14.0G".
std::string MemoryRange(const std::vector<const api::VerdictView*>& verdicts,
                        std::int64_t api::VerdictView::*memory_mib) {
  const auto of = [&](const api::VerdictView* each) { return each->*memory_mib; };
  const auto [least, most] = std::ranges::minmax(verdicts | std::views::transform(of));
  return least == most ? base::FormatMib(least)
                       : base::FormatMib(least) + " to " + base::FormatMib(most);
}

// "GPU 1 (10.0G promised of 30.0G claimed, 9.0G in use)". Omits the claims if promises or claims
// differ between the GPUs, because a range of claims is of no use.
std::string GpusInUse(const std::vector<const api::VerdictView*>& verdicts) {
  const api::VerdictView& first = *verdicts.front();
  const bool even = std::ranges::all_of(verdicts, [&](const api::VerdictView* each) {
    return each->promised_mib == first.promised_mib && each->claimed_mib == first.claimed_mib;
  });
  const std::string promised =
      even ? PromisedText(first.promised_mib, first.claimed_mib)
           : MemoryRange(verdicts, &api::VerdictView::promised_mib) + " promised";
  std::vector<std::uint64_t> gpus;
  for (const api::VerdictView* each : verdicts)
    gpus.push_back(static_cast<std::uint64_t>(each->gpu));
  return fmt::format("GPU{} {} ({}, {} in use{})", gpus.size() == 1 ? "" : "s", RangesText(gpus),
                     promised, MemoryRange(verdicts, &api::VerdictView::used_mib),
                     gpus.size() == 1 ? "" : " each");
}

// Writes the sentence for GPUs with the same verdict.
std::string Verdict(const std::vector<const api::VerdictView*>& verdicts) {
  const api::VerdictView& verdict = *verdicts.front();
  const std::string gpus = GpusInUse(verdicts) + " ";
  const std::string why = verdict.reason_text.empty() ? verdict.reason
                          : verdicts.size() == 1      ? verdict.reason_text
                                                      : OfAnyGpu(verdict, "each GPU");
  const std::string because =
      why.empty() ? "." : ": " + base::Printable(base::LocalTimes(why), 400);
  const auto fit = base::FromWord<core::Fit>(verdict.fit);
  if (fit == core::Fit::kFits) return gpus + "could take it" + because;
  if (fit == core::Fit::kNever) return gpus + "can never take it" + because;
  return gpus + "cannot take it now" + because;
}

}  // namespace

std::string VerdictsText(const std::vector<api::VerdictView>& verdicts) {
  using Said = std::tuple<std::string, std::string, std::string>;
  std::vector<std::pair<Said, std::vector<const api::VerdictView*>>> groups;
  for (const api::VerdictView& verdict : verdicts) {
    // Compares the texts as shown, because the times in the daemon's texts may differ by
    // milliseconds.
    Said said{verdict.fit, verdict.reason, base::LocalTimes(OfAnyGpu(verdict, "each GPU"))};
    const auto same =
        std::ranges::find(groups, said, [](const auto& group) { return group.first; });
    if (same == groups.end()) {
      groups.push_back({std::move(said), {&verdict}});
    } else {
      same->second.push_back(&verdict);
    }
  }
  std::string out;
  for (const auto& [unused, alike] : groups) out += "  " + Verdict(alike) + "\n";
  return out;
}

}  // namespace carma::cli
