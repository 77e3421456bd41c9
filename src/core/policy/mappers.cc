#include <algorithm>
#include <array>
#include <type_traits>

#include "core/policy/policy.h"

namespace carma::core {
namespace {

class FirstFit : public Mapper {
 public:
  double Score(const Need&, const GpuView&) const override { return 0; }
};

class MostFreeMemory : public Mapper {
 public:
  double Score(const Need&, const GpuView& gpu) const override {
    return static_cast<double>(gpu.free_mib);
  }
};

class LeastFreeMemory : public Mapper {
 public:
  double Score(const Need&, const GpuView& gpu) const override {
    return -static_cast<double>(gpu.free_mib);
  }
};

class LeastUtilised : public Mapper {
 public:
  double Score(const Need&, const GpuView& gpu) const override { return -gpu.Activity(); }
};

class MostUtilised : public Mapper {
 public:
  double Score(const Need&, const GpuView& gpu) const override { return gpu.Activity(); }
};

class RoundRobin : public Mapper {
 public:
  double Score(const Need&, const GpuView& gpu) const override { return gpu.index < next_ ? 0 : 1; }
  void Placed(std::span<const Placement> placement) override {
    if (!placement.empty()) next_ = GpuIndex{Number(placement.back().gpu) + 1};
  }

 private:
  GpuIndex next_{};  // the GPU tried first; a value past the last GPU means 0
};

// The score is the throughput that the task adds to the GPU, minus the cost to the task and its
// neighbours. As in bin packing, large tasks and nearly full GPUs come first, because small tasks
// are easy to place at the end. docs/server/policies.md has the formula.
class ByWork : public Mapper {
 public:
  explicit ByWork(const PolicyConfig& config) : config_(config) {}
  double Score(const Need& need, const GpuView& gpu) const override {
    const Neighbour newcomer = OnPart(need.load, gpu);
    const ThroughputEstimate& with =
        gpu.outlook.With(gpu.residents, newcomer, SaturationOf({}, SharingOn(config_, gpu.mig)));
    const double length = need.alone ? std::min(1.0, base::Seconds(*need.alone) / kLongS) : 1.0;
    const double taken = ShareOf(need.memory_mib.value_or(0), gpu);
    const double left = need.nobody_behind ? 0 : ShareOf(gpu.free_mib, gpu) - taken;
    const double more = gpu.pace * gpu.compute * (with.delivered - gpu.delivered);
    return more - kOfOwnSlowdown * (with.newcomer / gpu.pace - 1) * length -
           kOfNeighbours * (with.slowest - gpu.slowest) + kOfMemory * taken - kOfMemoryLeft * left +
           kPerHour * base::Seconds(need.waited) / 3600;
  }

 private:
  static constexpr double kOfOwnSlowdown = 0.065;
  static constexpr double kOfNeighbours = 0.05;
  static constexpr double kOfMemory = 0.3;
  static constexpr double kOfMemoryLeft = 0.2;
  static constexpr double kPerHour = 0.056;
  static constexpr double kLongS = 2000;  // a slowdown costs less for tasks shorter than this
  static double ShareOf(std::int64_t mib, const GpuView& gpu) {
    return static_cast<double>(mib) / static_cast<double>(std::max<std::int64_t>(1, gpu.total_mib));
  }
  PolicyConfig config_;
};

// Ranks GPUs by the configured expression (policy.score).
class ByRule : public Mapper {
 public:
  explicit ByRule(const PolicyConfig& config) : config_(config) {}
  double Score(const Need& need, const GpuView& gpu) const override {
    return config_.score ? config_.score->Value(config_, need, gpu) : 0;
  }

 private:
  PolicyConfig config_;
};

template <class T>
std::unique_ptr<Mapper> Make([[maybe_unused]] const PolicyConfig& config) {
  if constexpr (std::is_constructible_v<T, const PolicyConfig&>) {
    return std::make_unique<T>(config);
  } else {
    return std::make_unique<T>();
  }
}

// The section "By work" of docs/evidence/policies.md shows what these values gain.
constexpr MapperValues kByWorkValues{.sm_cap = 0.95,
                                     .floor_share = 0.375,
                                     .min_gain = 0.06,
                                     .backfill = 1000,
                                     .pass_limit = Duration{7'200'000}};

constexpr std::array kMappers{
    MapperEntry{kNeverSharing, "", "lowest-numbered idle GPU; GPUs are never shared",
                &Make<FirstFit>, MapperValues{}, /*shares=*/false},
    MapperEntry{"round-robin", "rr", "GPUs in turn", &Make<RoundRobin>},
    MapperEntry{"magm", "most-free-memory", "most free memory", &Make<MostFreeMemory>},
    MapperEntry{"lug", "least-utilised", "lowest SM activity", &Make<LeastUtilised>},
    MapperEntry{"mug", "most-utilised", "highest SM activity", &Make<MostUtilised>},
    MapperEntry{"first-fit", "off", "lowest-numbered GPU that fits", &Make<FirstFit>},
    MapperEntry{"best-fit", "obf", "least free memory among GPUs that fit", &Make<LeastFreeMemory>},
    MapperEntry{"worst-fit", "owf", "most free memory among GPUs that fit", &Make<MostFreeMemory>},
    MapperEntry{"by-work", "bw", "task and GPU that add the most throughput", &Make<ByWork>,
                kByWorkValues, /*shares=*/true, /*chooses_task=*/true},
    MapperEntry{kScoreMapper, "", "task and GPU with the highest policy.score", &Make<ByRule>,
                MapperValues{}, /*shares=*/true, /*chooses_task=*/true},
};

bool Names(const MapperEntry& entry, std::string_view word) {
  return !word.empty() && (entry.name == word || entry.alias == word);
}

}  // namespace

std::span<const MapperEntry> Mappers() {
  return kMappers;
}

void UseMapperValues(PolicyConfig& config) {
  MapperValues& values = config;
  if (const MapperEntry* entry = FindMapper(config.mapper)) values = entry->values;
}

const MapperEntry* FindMapper(std::string_view name_or_alias) {
  for (const MapperEntry& entry : kMappers) {
    if (Names(entry, name_or_alias)) return &entry;
  }
  return nullptr;
}

bool Shares(const PolicyConfig& config) {
  // Compares the name only with mappers that do not share, because every decision calls this
  // function.
  return std::ranges::none_of(kMappers, [&config](const MapperEntry& entry) {
    return !entry.shares && Names(entry, config.mapper);
  });
}

}  // namespace carma::core
