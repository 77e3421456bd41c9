#include <algorithm>
#include <numeric>

#include "core/policy.h"

namespace carma::core {
namespace {

// Best first by a value of the view, least first; equal ones by GPU index.
template <class Value>
void RankBy(std::span<const GpuView> eligible, std::vector<std::size_t>& order, Value value) {
  order.resize(eligible.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto left = value(eligible[a]);
    const auto right = value(eligible[b]);
    if (left != right) return left < right;
    return eligible[a].index < eligible[b].index;
  });
}

// A GPU with nobody on it is not busy, whatever its window still remembers; one with tasks whose
// activity is unknown counts by its upper bound, at worst as full.
double Activity(const GpuView& gpu) {
  if (gpu.Idle()) return 0.0;
  return gpu.sm_active.value_or(gpu.utilization.value_or(1.0));
}

class FirstFit : public Mapper {
 public:
  void Rank(const Need&, std::span<const GpuView> eligible,
            std::vector<std::size_t>& order) override {
    RankBy(eligible, order, [](const GpuView&) { return 0; });
  }
};

class MostFreeMemory : public Mapper {
 public:
  void Rank(const Need&, std::span<const GpuView> eligible,
            std::vector<std::size_t>& order) override {
    RankBy(eligible, order, [](const GpuView& gpu) { return -gpu.free_mib; });
  }
};

class LeastFreeMemory : public Mapper {
 public:
  void Rank(const Need&, std::span<const GpuView> eligible,
            std::vector<std::size_t>& order) override {
    RankBy(eligible, order, [](const GpuView& gpu) { return gpu.free_mib; });
  }
};

class LeastUtilised : public Mapper {
 public:
  void Rank(const Need&, std::span<const GpuView> eligible,
            std::vector<std::size_t>& order) override {
    RankBy(eligible, order, [](const GpuView& gpu) { return Activity(gpu); });
  }
};

class MostUtilised : public Mapper {
 public:
  void Rank(const Need&, std::span<const GpuView> eligible,
            std::vector<std::size_t>& order) override {
    RankBy(eligible, order, [](const GpuView& gpu) { return -Activity(gpu); });
  }
};

class RoundRobin : public Mapper {
 public:
  void Rank(const Need&, std::span<const GpuView> eligible,
            std::vector<std::size_t>& order) override {
    RankBy(eligible, order, [this](const GpuView& gpu) { return gpu.index < next_ ? 1 : 0; });
  }
  void Placed(std::span<const Placement> placement) override {
    if (!placement.empty()) next_ = GpuIndex{Number(placement.back().gpu) + 1};
  }

 private:
  GpuIndex next_{};  // first GPU of the ring; past the last one is the same as 0
};

template <class T>
std::unique_ptr<Mapper> Make(const PolicyConfig&) {
  return std::make_unique<T>();
}

constexpr std::array kMappers{
    MapperEntry{kNeverSharing, "", "lowest-numbered idle GPU; no task ever shares one",
                &Make<FirstFit>, /*shares=*/false},
    MapperEntry{"round-robin", "rr", "next GPU of the ring", &Make<RoundRobin>},
    MapperEntry{"magm", "most-free-memory", "most free memory", &Make<MostFreeMemory>},
    MapperEntry{"lug", "least-utilised", "lowest SM activity", &Make<LeastUtilised>},
    MapperEntry{"mug", "most-utilised", "highest SM activity", &Make<MostUtilised>},
    MapperEntry{"first-fit", "off", "lowest-numbered GPU that fits", &Make<FirstFit>},
    MapperEntry{"best-fit", "obf", "least free memory that fits", &Make<LeastFreeMemory>},
    MapperEntry{"worst-fit", "owf", "most free memory that fits", &Make<MostFreeMemory>},
};

bool Names(const MapperEntry& entry, std::string_view word) {
  return !word.empty() && (entry.name == word || entry.alias == word);
}

}  // namespace

std::span<const MapperEntry> Mappers() {
  return kMappers;
}

const MapperEntry* FindMapper(std::string_view name_or_alias) {
  for (const MapperEntry& entry : kMappers) {
    if (Names(entry, name_or_alias)) return &entry;
  }
  return nullptr;
}

bool Shares(const PolicyConfig& config) {
  // Asked at every decision: of the names only those are compared that do not share.
  return std::ranges::none_of(kMappers, [&config](const MapperEntry& entry) {
    return !entry.shares && Names(entry, config.mapper);
  });
}

}  // namespace carma::core
