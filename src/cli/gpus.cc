// gpus, drain, resume, status: the server.
#include <algorithm>
#include <chrono>
#include <thread>

#include "base/text.h"
#include "cli/calls.h"
#include "cli/gpu_text.h"
#include "cli/verbs.h"

namespace carma::cli {
namespace {

constexpr std::chrono::milliseconds kStatusRetry{50};

base::Result<std::vector<std::string>> NamedGpus(Context& context,
                                                 const std::vector<std::string>& words) {
  std::vector<std::string> names;
  for (const std::string& word : words) {
    for (std::string_view name : base::Split(word, ',')) {
      if (name.empty()) {
        return base::Fail(base::ErrorCode::kInvalid,
                          "GPU '" + base::Printable(word, 60) + "': expected an index or a UUID");
      }
      names.emplace_back(name);
    }
  }
  if (names != std::vector<std::string>{"all"}) return names;
  const auto gpus = ListGpus(context.client());
  if (!gpus) return std::unexpected(gpus.error());
  names.clear();
  for (const api::GpuView& gpu : gpus->value) names.push_back(gpu.uuid);
  return names;
}

}  // namespace

void RunGpus(Context& context, bool watch, double interval_s) {
  Show(context, watch, interval_s, [&]() -> base::Result<std::string> {
    auto gpus = ListGpus(context.client());
    if (!gpus) return std::unexpected(gpus.error());
    if (context.json) return gpus->text + "\n";
    return GpuTable(gpus->value, ScreenOf(context.out));
  });
}

void RunGpuChange(Context& context, const std::string& verb, const std::vector<std::string>& gpus,
                  const std::string& reason) {
  const auto names = NamedGpus(context, gpus);
  if (!names) return context.Fail(names.error());
  std::vector<std::string> texts;
  for (const std::string& name : *names) {
    auto gpu = ChangeGpu(context.client(), name, verb, reason);
    if (!gpu) {
      context.Fail(gpu.error());
    } else if (context.json) {
      texts.push_back(std::move(gpu->text));
    } else {
      Print(context, "GPU " + std::to_string(gpu->value.index) + " is " +
                         base::Printable(gpu->value.state, 20) + "\n");
    }
  }
  if (context.json) Print(context, JsonList(texts) + "\n");
}

void RunStatus(Context& context, double wait_s) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(wait_s);
  auto status = GetStatus(context.client());
  while (!status && status.error().code == base::ErrorCode::kUnavailable &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kStatusRetry);
    status = GetStatus(context.client());
  }
  if (!status) return context.Fail(status.error());
  Print(context, context.json ? status->text + "\n" : StatusText(status->value));
}

}  // namespace carma::cli
