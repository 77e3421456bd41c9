// `carma gpus` and `carma status`: the state of the server.
#include <algorithm>
#include <chrono>
#include <thread>

#include "base/text.h"
#include "base/try.h"
#include "cli/calls.h"
#include "cli/client/gpu_text.h"
#include "cli/client/verbs.h"
#include "cli/terminal.h"

namespace carma::cli {
namespace {

constexpr std::chrono::milliseconds kStatusRetry{50};

constexpr int kUsualPoints = 60;
constexpr int kFewestPoints = 10;

// Returns the named GPUs in the given order, or all GPUs if no names are given.
Result<std::vector<api::GpuView>> Chosen(const std::vector<api::GpuView>& gpus,
                                         const std::vector<std::string>& words) {
  const auto names = CARMA_TRY(SplitGpuNames(words));
  if (names.empty() || names == std::vector<std::string>{"all"}) return gpus;
  std::vector<api::GpuView> chosen;
  for (const std::string& name : names) {
    const auto found = std::ranges::find_if(gpus, [&](const api::GpuView& gpu) {
      return gpu.uuid == name || std::to_string(gpu.index) == name;
    });
    if (found == gpus.end()) {
      const bool names_one =
          base::ParseInt(name) || name.starts_with("GPU-") || name.starts_with("MIG-");
      return Fail(names_one ? ErrorCode::kNotFound : ErrorCode::kInvalid,
                  "GPU '{}': expected a UUID or an index below {}", base::Printable(name, 60),
                  gpus.size());
    }
    chosen.push_back(*found);
  }
  return chosen;
}

// The requested or default number of points, but no more bars than fit in a line of the terminal.
int PointsFor(const Context& context, const GpusFlags& flags) {
  const int points = flags.points.value_or(kUsualPoints);
  const int width = ScreenOf(context.out).width;
  if (context.json || flags.csv || width == 0) return points;
  return std::min(points, std::max(kFewestPoints, width - kHistoryMargin));
}

Result<std::string> RenderHistory(Context& context, const GpusFlags& flags) {
  const auto gpus = CARMA_TRY(ListGpus(context.client()));
  const auto chosen = CARMA_TRY(Chosen(gpus.value, flags.gpus));
  // The daemon's clock may differ from this machine's, for example on a simulated server.
  const std::int64_t now_ms = CARMA_TRY(GetStatus(context.client())).value.now_ms;
  const HistorySpan span{.from_ms = std::max<std::int64_t>(0, now_ms - flags.history->count()),
                         .to_ms = now_ms,
                         .points = PointsFor(context, flags)};
  std::vector<std::string> texts;
  std::vector<api::GpuHistoryView> histories;
  std::string bars = HistoryTitle(span);
  for (const api::GpuView& gpu : chosen) {
    auto history =
        CARMA_TRY(GetGpuHistory(context.client(), gpu.uuid, span.from_ms, span.to_ms, span.points));
    bars += HistoryBars(history.value, gpu.total_mib, span);
    texts.push_back(std::move(history.text));
    histories.push_back(std::move(history.value));
  }
  if (context.json) return JsonList(texts) + "\n";
  return flags.csv ? HistoryCsv(histories) : bars;
}

Result<std::string> RenderDetails(Context& context, const std::vector<api::GpuView>& gpus) {
  const auto status = CARMA_TRY(GetStatus(context.client()));
  std::string text;
  for (const api::GpuView& gpu : gpus)
    text += GpuDetails(gpu, status.value.now_ms, ScreenOf(context.out));
  return text;
}

Result<std::string> RenderGpus(Context& context, const GpusFlags& flags) {
  auto gpus = CARMA_TRY(ListGpus(context.client()));
  if (context.json && flags.gpus.empty()) return gpus.text + "\n";
  const auto chosen = CARMA_TRY(Chosen(gpus.value, flags.gpus));
  if (context.json) return GpusJson(chosen) + "\n";
  return flags.verbose ? RenderDetails(context, chosen) : GpuTable(chosen, ScreenOf(context.out));
}

}  // namespace

Result<Unit> RunGpus(Context& context, const GpusFlags& flags) {
  if (flags.history && *flags.history < base::Duration(1'000))
    return Invalid("--history: expected a span of at least one second");
  return Show(context, flags.watch, flags.interval_s, [&] {
    return flags.history ? RenderHistory(context, flags) : RenderGpus(context, flags);
  });
}

Result<Unit> RunStatus(Context& context, double wait_s) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(wait_s);
  auto status = GetStatus(context.client());
  const auto to_be_awaited = [&status] {
    return status ? status->value.starting : status.error().code == ErrorCode::kUnavailable;
  };
  while (to_be_awaited() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kStatusRetry);
    status = GetStatus(context.client());
  }
  if (!status) return std::unexpected(status.error());
  Print(context, context.json
                     ? status->text + "\n"
                     : WrapTo(StatusText(status->value), ScreenOf(context.out), kStatusIndent));
  return Unit{};
}

}  // namespace carma::cli
