#include "lab/simgpu/world.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string_view>

#include "base/rng.h"

namespace carma::simgpu {
namespace {

// Remaining work below this, in seconds, is a rounding error and counts as done.
constexpr double kDoneS = 1e-9;

template <std::size_t N>
void CopyText(const std::string& text, char (&target)[N]) {
  const std::size_t n = std::min(text.size(), N - 1);
  std::memcpy(target, text.data(), n);
  std::memset(target + n, 0, N - n);
}

// True if `group` is `above` or one of its descendants.
bool Within(std::string_view group, std::string_view above) {
  return !above.empty() && group.starts_with(above) &&
         (group.size() == above.size() || group[above.size()] == '/');
}

// The resident's share of a place; null if it has none.
const Share* FindShare(const Resident& resident, int place) {
  const std::span<const Share> held = resident.held();
  const auto found = std::ranges::find(held, place, &Share::gpu);
  return found == held.end() ? nullptr : &*found;
}

bool Works(const World& world, int slot) {
  const Resident& resident = world.residents[slot];
  return IsLive(resident) && resident.wants_work != 0 && world.motion().work_left_s[slot] > kDoneS;
}

std::string MakeUuid(const char* kind, std::uint64_t seed, int index) {
  base::Rng rng(seed * 1'000 + static_cast<std::uint64_t>(index));
  const std::uint64_t a = rng.Next(), b = rng.Next();
  char text[48];
  std::snprintf(text, sizeof text, "%s-%08x-%04x-%04x-%04x-%012llx", kind,
                static_cast<unsigned>(a >> 32), static_cast<unsigned>(a >> 16) & 0xffff,
                static_cast<unsigned>(a) & 0xffff, static_cast<unsigned>(b >> 48),
                static_cast<unsigned long long>(b & 0xffff'ffff'ffff));
  return text;
}

// The residents that compute on one GPU, with their loads and resulting speeds.
struct Crowd {
  std::size_t count = 0;
  core::SharingMethod sharing = core::SharingMethod::kMps;
  std::array<int, kMaxResidents> slots;
  std::array<sim::Load, kMaxResidents> loads;
  // Speed when running alone at this place, relative to a whole GPU of this type.
  std::array<double, kMaxResidents> bases;
  std::array<double, kMaxResidents> speeds;
};

// Speed relative to running without a limit on SMs. The limit comes from a MIG instance or an MPS
// thread percentage. A task that gets half of the SMs that it would keep busy runs at half speed.
double BaseSpeed(const World& world, const Resident& resident, const Share& share) {
  const double allowed = resident.sm_cap * world.gpus[share.gpu].compute;
  return share.sm_active <= allowed ? 1 : allowed / share.sm_active;
}

// The load that a resident puts on its neighbours on one GPU or instance: its activity as a share
// of the SMs there, and a pressure proportional to its speed.
sim::Load LoadThere(const World& world, const Resident& resident, const Share& share, double base) {
  return {.sm_active = std::min(1.0, share.sm_active * base / world.gpus[share.gpu].compute),
          .sensitivity = resident.sensitivity,
          .pressure = resident.pressure * base};
}

// The resident's share of the place; null if it is not computing there.
const Share* WorkingShare(const World& world, int slot, int place) {
  return Works(world, slot) ? FindShare(world.residents[slot], place) : nullptr;
}

void Gather(const World& world, int gpu, Crowd& crowd) {
  crowd.count = 0;
  crowd.sharing = core::SharingMethod::kStreams;
  for (int slot = 0; slot < world.slots; ++slot) {
    const Share* const share = WorkingShare(world, slot, gpu);
    if (share == nullptr) continue;
    const Resident& resident = world.residents[slot];
    const std::size_t place = crowd.count++;
    crowd.slots[place] = slot;
    crowd.bases[place] = BaseSpeed(world, resident, *share);
    crowd.loads[place] = LoadThere(world, resident, *share, crowd.bases[place]);
    // The driver time-slices among MPS servers and processes outside MPS.
    const bool client = resident.sharing == core::SharingMethod::kMps;
    if (client) crowd.sharing = core::SharingMethod::kMps;
    crowd.loads[place].user = client ? resident.mps_server & ~core::kNoMpsClient
                                     : core::kNoMpsClient | static_cast<std::uint32_t>(slot);
  }
}

void RecomputeMemory(World& world) {
  for (int g = 0; g < world.place_count; ++g) world.gpus[g].used_mib = world.gpus[g].residents = 0;
  for (const int slot : LiveSlots(world)) {
    for (const Share& share : world.residents[slot].held()) {
      world.gpus[share.gpu].used_mib += share.memory_mib;
      ++world.gpus[share.gpu].residents;
    }
  }
}

// A multi-GPU task advances at the pace of its slowest GPU.
void RecomputePaces(World& world, Crowd& crowd) {
  for (int slot = 0; slot < world.slots; ++slot) world.residents[slot].pace = INFINITY;
  for (int g = 0; g < world.place_count; ++g) {
    Gather(world, g, crowd);
    sim::Speeds(world.interference, crowd.sharing, std::span(crowd.loads).first(crowd.count),
                std::span(crowd.speeds).first(crowd.count));
    for (std::size_t i = 0; i < crowd.count; ++i) {
      Resident& resident = world.residents[crowd.slots[i]];
      const double pace = crowd.speeds[i] * crowd.bases[i] * world.gpus[g].relative_speed;
      resident.pace = std::min(resident.pace, pace);
    }
  }
  for (int slot = 0; slot < world.slots; ++slot) {
    if (!Works(world, slot)) world.residents[slot].pace = 0;
  }
}

void RecomputeActivity(World& world, Crowd& crowd) {
  for (int g = 0; g < world.place_count; ++g) {
    Gpu& gpu = world.gpus[g];
    Gather(world, g, crowd);
    for (std::size_t i = 0; i < crowd.count; ++i) {
      const double alone = gpu.relative_speed * crowd.bases[i];
      crowd.speeds[i] = world.residents[crowd.slots[i]].pace / alone;
    }
    gpu.working = static_cast<std::int32_t>(crowd.count);
    gpu.sm_active = 0;
    if (crowd.count == 0) continue;
    gpu.sm_active = sim::SmActivity(world.interference, crowd.sharing,
                                    std::span(crowd.loads).first(crowd.count),
                                    std::span(crowd.speeds).first(crowd.count));
  }
}

// Adds up the instances' activity and memory for their GPU. Only the whole GPU draws power.
void AddUpInstances(World& world) {
  for (int g = world.gpu_count; g < world.place_count; ++g) {
    const Gpu& instance = world.gpus[g];
    Gpu& gpu = world.gpus[instance.parent];
    gpu.used_mib += instance.used_mib;
    gpu.residents += instance.residents;
    gpu.working += instance.working;
    gpu.sm_active += instance.sm_active * instance.compute;
  }
  for (int g = 0; g < world.gpu_count; ++g)
    world.gpus[g].power_w = sim::PowerW(world.gpus[g].power, world.gpus[g].sm_active);
}

// Advances over a period during which nothing changes.
void Step(World& world, double to_s) {
  const std::uint32_t current = world.current.load(std::memory_order_relaxed) & 1;
  const Motion& from = world.motions[current];
  Motion& to = world.motions[1 - current];
  const double dt = to_s - from.now_s;
  for (int slot = 0; slot < world.slots; ++slot) {
    const double left = from.work_left_s[slot] - world.residents[slot].pace * dt;
    to.work_left_s[slot] = left > kDoneS ? left : 0;
  }
  for (int g = 0; g < world.place_count; ++g) {
    const Gpu& gpu = world.gpus[g];
    const Totals& before = from.totals[g];
    to.totals[g] = {before.energy_j + gpu.power_w * dt, before.sm_s + gpu.sm_active * dt,
                    before.busy_s + (gpu.working > 0 ? dt : 0),
                    before.memory_mib_s + static_cast<double>(gpu.used_mib) * dt};
  }
  to.now_s = to_s;
  world.current.store(1 - current, std::memory_order_release);
}

// The earliest time at which a resident finishes at its current speed.
double NextFinish(const World& world) {
  const Motion& motion = world.motion();
  double next = INFINITY;
  for (int slot = 0; slot < world.slots; ++slot) {
    const Resident& resident = world.residents[slot];
    if (!IsLive(resident) || resident.pace <= 0 || motion.work_left_s[slot] <= kDoneS) continue;
    next = std::min(next, motion.now_s + motion.work_left_s[slot] / resident.pace);
  }
  return next;
}

void InitGpu(Gpu& gpu, const GpuType& type, std::uint64_t seed, int number) {
  gpu = {};
  CopyText(type.type, gpu.type);
  CopyText(type.nvml_name, gpu.nvml_name);
  CopyText(MakeUuid("GPU", seed, number), gpu.uuid);
  // Bus numbers have gaps, as on real boards, and follow the order of the list.
  std::snprintf(gpu.pci, sizeof gpu.pci, "00000000:%02X:00.0",
                static_cast<unsigned>(3 + 3 * number) & 0xff);
  gpu.total_mib = type.total_mib;
  gpu.reserved_mib = type.reserved_mib;
  gpu.sms = type.sms;
  gpu.power = type.power;
  gpu.relative_speed = type.relative_speed;
  gpu.compute = 1;
  gpu.parent = -1;
}

// An instance gets its slices' share of the GPU. NVIDIA's real instances are slightly smaller.
void InitInstance(World& world, int place, int parent, const GpuType& type,
                  const sim::MigSlices& slices, std::uint64_t seed) {
  const Gpu& whole = world.gpus[parent];
  Gpu& gpu = world.gpus[place];
  gpu = whole;
  gpu.mig = 0;
  CopyText(type.nvml_name + " MIG " + sim::MigProfileName(type, slices), gpu.nvml_name);
  CopyText(MakeUuid("MIG", seed, place), gpu.uuid);
  gpu.total_mib = whole.total_mib * slices.memory / sim::kMigMemorySlices;
  gpu.reserved_mib = whole.reserved_mib * slices.memory / sim::kMigMemorySlices;
  gpu.compute = static_cast<double>(slices.compute) / sim::kMigComputeSlices;
  // A slice has an even number of SMs, about an eighth of the GPU's: 14 of 108 on an A100.
  gpu.sms = 2 * static_cast<int>(std::lround(whole.sms / 16.0)) * slices.compute;
  gpu.parent = parent;
  gpu.slices = slices;
}

}  // namespace

bool TooManyInstances(std::span<const sim::ShapedGpu> gpus) {
  std::size_t places = gpus.size();
  for (const sim::ShapedGpu& gpu : gpus) places += gpu.mig ? gpu.mig->size() : 0;
  return places > kMaxPlaces;
}

void InitWorld(World& world, std::span<const sim::ShapedGpu> gpus, std::uint64_t seed) {
  world.gpu_count = static_cast<std::int32_t>(gpus.size());
  world.place_count = world.gpu_count;
  world.interference = {};
  for (int g = 0; g < world.gpu_count; ++g) {
    const sim::ShapedGpu& shaped = gpus[static_cast<std::size_t>(g)];
    InitGpu(world.gpus[g], shaped.type, seed, g);
    world.gpus[g].mig = shaped.mig ? 1 : 0;
    if (!shaped.mig) continue;
    for (std::size_t i = 0; i < shaped.mig->size(); ++i) {
      const int place = world.place_count++;
      InitInstance(world, place, g, shaped.type, (*shaped.mig)[i], seed);
      world.gpus[place].gpu_instance = static_cast<std::int32_t>(i) + 1;
    }
  }
  Recompute(world);
}

bool Advance(World& world, double now_s) {
  bool finished = false;
  // Every pass but the last finishes the work of at least one resident.
  for (int pass = 0; pass <= kMaxResidents; ++pass) {
    if (now_s <= world.motion().now_s) return finished;
    const double next = NextFinish(world);
    if (next > now_s) break;
    Step(world, next);
    Recompute(world);
    finished = true;
  }
  if (now_s > world.motion().now_s) Step(world, now_s);
  return finished;
}

void Recompute(World& world) {
  Crowd crowd;
  RecomputeMemory(world);
  RecomputePaces(world, crowd);
  RecomputeActivity(world, crowd);
  AddUpInstances(world);
}

Readings ReadingsOf(const World& world, int gpu) {
  const Gpu& now = world.gpus[gpu];
  const Motion& motion = world.motion();
  return {motion.now_s, now.used_mib, now.sm_active, now.power_w, motion.totals[gpu]};
}

std::optional<Shortage> FindShortage(const World& world, std::span<const Share> wanted,
                                     const std::string& group) {
  for (const Share& share : wanted) {
    const Gpu& gpu = world.gpus[share.gpu];
    std::int64_t usable = gpu.total_mib - gpu.reserved_mib;
    std::int64_t free = usable - gpu.used_mib;
    for (const GroupLimit& limit : world.limits) {
      if (limit.gpu != share.gpu || limit.hard_mib == kNoLimitMib || !Within(group, limit.group))
        continue;
      const std::int64_t left = limit.hard_mib - GroupUsed(world, share.gpu, limit.group);
      if (left >= free) continue;
      free = std::max<std::int64_t>(left, 0);
      usable = limit.hard_mib;
    }
    if (share.memory_mib > free) return Shortage{share.gpu, share.memory_mib, free, usable};
  }
  return std::nullopt;
}

const GroupLimit* FindLimit(const World& world, int gpu, const std::string& group) {
  const auto* found = std::ranges::find_if(world.limits, [&](const GroupLimit& limit) {
    return limit.group[0] != 0 && limit.gpu == gpu && group == limit.group;
  });
  return found == std::end(world.limits) ? nullptr : found;
}

MemoryView MemoryFor(const World& world, int gpu, const std::string& group) {
  const Gpu& there = world.gpus[gpu];
  const auto shortage = FindShortage(
      world, std::array{Share{gpu, std::numeric_limits<std::int64_t>::max(), 0}}, group);
  const GroupLimit* own = FindLimit(world, gpu, group);
  const bool limited = own != nullptr && own->hard_mib != kNoLimitMib;
  return {limited ? std::min(own->hard_mib, there.total_mib) : there.total_mib,
          shortage ? shortage->free_mib : 0};
}

std::int64_t GroupUsed(const World& world, int gpu, const std::string& group) {
  std::int64_t used = 0;
  for (const int slot : LiveSlots(world)) {
    const Resident& resident = world.residents[slot];
    const Share* const share = Within(resident.group, group) ? FindShare(resident, gpu) : nullptr;
    used += share == nullptr ? 0 : share->memory_mib;
  }
  return used;
}

bool SetLimit(World& world, const GroupLimit& limit) {
  if (limit.group[0] == 0 || limit.group[kGroupBytes - 1] != 0) return false;
  const bool removes = limit.soft_mib == 0 && limit.hard_mib == kNoLimitMib;
  auto* entry = std::ranges::find_if(world.limits, [&limit](const GroupLimit& each) {
    return each.gpu == limit.gpu && std::strcmp(each.group, limit.group) == 0;
  });
  if (entry == std::end(world.limits) && !removes) {
    entry = std::ranges::find_if(world.limits,
                                 [](const GroupLimit& each) { return each.group[0] == 0; });
  }
  if (entry == std::end(world.limits)) return removes;
  *entry = removes ? GroupLimit{} : limit;
  return true;
}

namespace {

std::int64_t SoftLimit(const World& world, int gpu, const std::string& group) {
  const GroupLimit* limit = FindLimit(world, gpu, group);
  return limit == nullptr ? 0 : limit->soft_mib;
}

// Finds a client with memory on this GPU whose group exceeds its soft limit; -1 if there is none.
// Never returns a client of `group`.
int FindVictim(const World& world, int gpu, const std::string& group) {
  for (const int slot : LiveSlots(world)) {
    const Resident& resident = world.residents[slot];
    if (resident.sharing != core::SharingMethod::kMps || group == resident.group) continue;
    const Share* const own = FindShare(resident, gpu);
    if (own == nullptr || own->memory_mib <= 0) continue;
    const std::int64_t soft = SoftLimit(world, gpu, resident.group);
    if (soft > 0 && GroupUsed(world, gpu, resident.group) > soft) return slot;
  }
  return -1;
}

}  // namespace

void EvictFor(World& world, std::span<const Share> wanted, const std::string& group) {
  for (const Share& share : wanted) {
    const Gpu& gpu = world.gpus[share.gpu];
    const std::int64_t after = GroupUsed(world, share.gpu, group) + share.memory_mib;
    if (group.empty() || after > SoftLimit(world, share.gpu, group)) continue;
    while (share.memory_mib > gpu.total_mib - gpu.reserved_mib - gpu.used_mib) {
      const int victim = FindVictim(world, share.gpu, group);
      if (victim < 0) break;
      Resident& resident = world.residents[victim];
      resident.evicted = 1;
      resident.wants_work = 0;
      for (Share& held : resident.held()) held.memory_mib = 0;
      Recompute(world);
    }
  }
}

int FreeSlot(const World& world) {
  const Resident* const free = std::ranges::find_if_not(world.residents, IsLive);
  return free == std::end(world.residents) ? -1 : static_cast<int>(free - world.residents);
}

void Place(World& world, int slot, const Arrival& arrival) {
  Resident& resident = world.residents[slot];
  resident.pid = arrival.pid;
  resident.sharing = arrival.sharing;
  resident.mps_server = arrival.mps_server;
  resident.sm_cap = arrival.sm_cap;
  resident.sensitivity = arrival.sensitivity;
  resident.pressure = arrival.pressure;
  resident.joined_s = world.motion().now_s;
  resident.wants_work = arrival.work_s > 0 ? 1 : 0;
  resident.evicted = 0;
  CopyText(arrival.group, resident.group);
  resident.share_count = static_cast<std::int32_t>(arrival.shares.size());
  std::copy(arrival.shares.begin(), arrival.shares.end(), resident.shares);
  resident.pace = 0;
  world.motion().work_left_s[slot] = arrival.work_s;
  world.slots = std::max(world.slots, slot + 1);
  resident.live.store(1, std::memory_order_release);
  Recompute(world);
}

void Remove(World& world, int slot) {
  world.residents[slot].live.store(0, std::memory_order_release);
  Recompute(world);
}

void Grow(World& world, int slot, std::span<const Share> more) {
  Resident& resident = world.residents[slot];
  for (const Share& share : more) {
    for (Share& held : resident.held())
      if (held.gpu == share.gpu) held.memory_mib += share.memory_mib;
  }
  Recompute(world);
}

void Stop(World& world, int slot) {
  world.residents[slot].wants_work = 0;
  Recompute(world);
}

double KernelShare(const World& world, int slot, int place) {
  double own = 0, all = 0;
  for (int other = 0; other < world.slots; ++other) {
    const Share* const share = WorkingShare(world, other, place);
    if (share == nullptr) continue;
    const double done = share->sm_active * world.residents[other].pace;
    all += done;
    if (other == slot) own = done;
  }
  return all > 0 ? own / all : 0;
}

void Announce(World& world, XidEvent event) {
  world.xids[world.xid_count % kMaxXids] = event;
  ++world.xid_count;
}

void ResetCondition(Condition& condition) {
  condition.ecc_corrected = condition.ecc_uncorrected = 0;
  condition.rows_remapped += condition.remap_pending;
  condition.remap_pending = 0;
  condition.recovery_action = 0;
}

bool Plausible(const World& world) {
  if (world.gpu_count < 1 || world.gpu_count > kMaxGpus) return false;
  if (world.place_count < world.gpu_count || world.place_count > kMaxPlaces) return false;
  for (int g = world.gpu_count; g < world.place_count; ++g) {
    if (world.gpus[g].parent < 0 || world.gpus[g].parent >= world.gpu_count) return false;
  }
  if (world.slots < 0 || world.slots > kMaxResidents) return false;
  return std::ranges::all_of(LiveSlots(world), [&world](int slot) {
    const Resident& resident = world.residents[slot];
    return resident.share_count >= 1 && resident.share_count <= kMaxGpus &&
           std::ranges::all_of(resident.held(), [&world](const Share& share) {
             return share.gpu >= 0 && share.gpu < world.place_count;
           });
  });
}

}  // namespace carma::simgpu
