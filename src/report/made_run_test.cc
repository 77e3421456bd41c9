#include "report/made_run_test.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/rng.h"

namespace carma::report {
namespace {

struct Kind {
  const char* name;
  const char* group;
  double solo_s;
  double mib;
  double sm_active;
};
constexpr Kind kKinds[] = {
    {"mnist", "light", 180, 2'400, 0.12},           {"resnet18-cifar", "light", 420, 3'300, 0.3},
    {"resnet50-b64", "medium", 1'500, 9'100, 0.55}, {"bert-base", "medium", 1'900, 13'500, 0.75},
    {"vgg16-b128", "heavy", 4'200, 15'900, 0.8},    {"xlnet-large", "heavy", 5'400, 21'000, 0.9}};

core::Time AtSecond(double s) {
  return base::FromMs(std::llround(s * 1000));
}

// Adds the activity of a GPU's tasks, with one point each time its set of tasks changes.
void FillPoints(const std::multimap<core::Time, std::pair<const Kind*, int>>& changes,
                RunGpu& gpu) {
  std::map<const Kind*, int> residents;
  gpu.points.push_back({.at = {}, .used_mib = 450, .sm_active = 0, .power_w = 57});
  for (auto it = changes.begin(); it != changes.end();) {
    const core::Time at = it->first;
    for (; it != changes.end() && it->first == at; ++it)
      residents[it->second.first] += it->second.second;
    GpuPoint point{.at = at, .used_mib = 450};
    double idle = 1;
    for (const auto& [kind, count] : residents) {
      point.used_mib += count * kind->mib;
      idle *= std::pow(1 - kind->sm_active, count);
    }
    point.sm_active = 1 - idle;
    point.power_w = 54 + 220 * (1 - std::exp(-1.5 * point.sm_active)) / (1 - std::exp(-1.5));
    gpu.points.push_back(point);
  }
}

}  // namespace

RunRecord Make(const MadeRun& options) {
  base::Rng rng(options.seed);
  RunRecord run{.label = options.label, .provenance = "made for a test", .simulated = true};
  struct Slot {
    double free_s = 0;
  };
  std::vector<std::vector<Slot>> slots(
      static_cast<std::size_t>(options.gpus),
      std::vector<Slot>(static_cast<std::size_t>(options.most_per_gpu)));
  std::vector<std::multimap<core::Time, std::pair<const Kind*, int>>> changes(slots.size());
  const auto busy_at = [](const std::vector<Slot>& gpu, double s) {
    return std::ranges::count_if(gpu, [s](const Slot& slot) { return slot.free_s > s; });
  };
  double now_s = 0;
  for (int i = 0; i < options.tasks; ++i) {
    const Kind& kind = kKinds[rng.Below(std::size(kKinds))];
    if (i > 0) now_s += rng.Exponential(2'400.0 / options.gpus);
    RunTask& task = run.tasks.emplace_back();
    task.id = static_cast<std::uint64_t>(i) + 1;
    task.name = kind.name;
    task.group = kind.group;
    task.submitted = AtSecond(now_s);
    task.solo_s = kind.solo_s;
    double ready_s = now_s;
    for (bool crashes = rng.Uniform() < options.crash_share;; crashes = false) {
      std::size_t gpu = 0;
      Slot* slot = nullptr;
      for (std::size_t g = 0; g < slots.size(); ++g) {
        for (Slot& each : slots[g]) {
          const bool better =
              slot == nullptr || each.free_s < slot->free_s ||
              (each.free_s <= ready_s && busy_at(slots[g], ready_s) < busy_at(slots[gpu], ready_s));
          if (better) slot = &each, gpu = g;
        }
      }
      const double start_s = std::max(ready_s + 5, slot->free_s);
      const auto others = static_cast<double>(busy_at(slots[gpu], start_s));
      const double length_s =
          crashes ? 40 : kind.solo_s * (1 + 0.35 * others) * (0.97 + 0.06 * rng.Uniform());
      slot->free_s = start_s + length_s;
      task.attempts.push_back({.started = AtSecond(start_s),
                               .ended = AtSecond(slot->free_s),
                               .end = crashes ? AttemptEnd::kOutOfMemory : AttemptEnd::kSucceeded,
                               .gpus = {static_cast<int>(gpu)}});
      changes[gpu].insert({AtSecond(start_s + 14), {&kind, 1}});
      changes[gpu].insert({AtSecond(slot->free_s), {&kind, -1}});
      ready_s = slot->free_s;
      if (!crashes) break;
    }
    task.ended = task.attempts.back().ended;
    run.to = std::max(run.to, *task.ended);
  }
  for (int g = 0; g < options.gpus; ++g) {
    RunGpu& gpu = run.gpus.emplace_back();
    gpu.name = "GPU " + std::to_string(g);
    gpu.type = "A100-40GB";
    gpu.usable_mib = 40'536;
    FillPoints(changes[static_cast<std::size_t>(g)], gpu);
  }
  return run;
}

}  // namespace carma::report
