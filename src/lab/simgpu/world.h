// The physics of a simulated GPU server: processes on GPUs, their speeds, activity and power. The
// types are plain values without pointers, because processes share their memory. Time is passed in
// as simulated seconds. Nothing here locks, waits or reads a clock.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "lab/sim/gpu_types.h"
#include "lab/sim/models.h"

namespace carma::simgpu {

using sim::GpuType;

inline constexpr int kMaxGpus = sim::kMaxServerGpus;
// A place is a GPU or a MIG instance. GPUs have the lowest numbers.
inline constexpr int kMaxPlaces = 2 * kMaxGpus;
inline constexpr int kMaxResidents = 512;
inline constexpr std::size_t kTypeBytes = sim::kMaxTypeBytes + 1;
inline constexpr std::size_t kNameBytes = sim::kMaxNvmlNameBytes + 1;

// One process's share of one GPU or instance.
struct Share {
  std::int32_t gpu = 0;  // place number
  std::int64_t memory_mib = 0;
  double sm_active = 0;  // u of sim::Load on this GPU
};

// Describes a process when it allocates GPU memory for the first time.
struct Arrival {
  pid_t pid = 0;
  core::SharingMethod sharing = core::SharingMethod::kStreams;
  // The process's MPS server. Clients of one server compute side by side.
  std::uint32_t mps_server = 0;
  double sm_cap = 1;  // maximum share of the SMs (MPS thread percentage)
  double sensitivity = 0;
  double pressure = 0;
  double work_s = 0;  // seconds of solo work on an A100-40GB; 0: the process only holds memory
  std::vector<Share> shares;  // 1..kMaxGpus, each GPU once
  std::string group;          // full path of the process's control group; empty: none
};

inline constexpr int kMaxGroupLimits = 256;
inline constexpr std::size_t kGroupBytes = 256;
// A memory limit for a control group and its descendants on one GPU.
struct GroupLimit {
  char group[kGroupBytes];  // full path; empty: this entry is free
  std::int32_t gpu;         // place number
  std::int64_t soft_mib;    // under MPS, clients of a group above this may be evicted; 0: no limit
  std::int64_t hard_mib;    // allocations beyond this fail; kNoLimitMib: no limit
};
inline constexpr std::int64_t kNoLimitMib = -1;

// The memory errors of a GPU, and the state of their repair. A new GPU has no errors.
struct Condition {
  std::int64_t ecc_corrected = 0;    // corrected memory errors since the driver was loaded
  std::int64_t ecc_uncorrected = 0;  // uncorrected memory errors since the driver was loaded
  std::int64_t rows_remapped = 0;    // memory rows replaced by spares so far
  std::uint32_t remap_pending = 0;   // 1: another row is replaced at the next reset
  std::uint32_t remap_failed = 0;    // 1: no spares are left, so a reset does not help
  std::int32_t recovery_action = 0;  // NVML's number for the action
  friend bool operator==(const Condition&, const Condition&) = default;
};

// A critical error that the driver reported.
struct XidEvent {
  std::int32_t gpu = 0;  // place number of an instance or a whole GPU
  std::int32_t xid = 0;
  friend bool operator==(const XidEvent&, const XidEvent&) = default;
};
// Only this many recent events are stored, so a slow reader misses some, as it would with the real
// driver.
inline constexpr int kMaxXids = 64;

// A GPU or a MIG instance. An instance shares the power readings and condition of its GPU.
struct Gpu {
  char type[kTypeBytes];
  char nvml_name[kNameBytes];
  char uuid[48];
  char pci[20];
  std::int64_t total_mib;
  std::int64_t reserved_mib;
  std::int32_t sms;
  sim::PowerModel power;
  double relative_speed;
  double compute;  // share of a whole GPU's SMs; below 1 for an instance
  Condition condition;
  std::uint32_t mig;    // 1: partitioned by MIG, so processes run only on its instances
  std::int32_t parent;  // for an instance: its GPU; otherwise -1
  std::int32_t gpu_instance;
  sim::MigSlices slices;
  // Values that Recompute() derives from the residents. They are constant until the next change.
  std::int64_t used_mib;
  std::int32_t residents;
  std::int32_t working;
  double sm_active;
  double power_w;
};

struct Resident {
  std::atomic<std::uint32_t> live;  // written last on arrival and first on departure
  std::int32_t pid;
  std::uint64_t unused;  // keeps the layout
  core::SharingMethod sharing;
  std::uint32_t mps_server;
  double sm_cap;
  double sensitivity;
  double pressure;
  double joined_s;
  std::uint32_t wants_work;  // 1: it computes while it has work left
  std::uint32_t evicted;     // 1: MPS has terminated it for another client, and its memory is free
  std::int32_t share_count;
  double pace;  // derived by Recompute(): work seconds per second
  Share shares[kMaxGpus];
  char group[kGroupBytes];

  std::span<Share> held() { return {shares, static_cast<std::size_t>(share_count)}; }
  std::span<const Share> held() const { return {shares, static_cast<std::size_t>(share_count)}; }
};

// Integrals over time since the server was created.
struct Totals {
  double energy_j;
  double sm_s;    // integral of the SM activity
  double busy_s;  // time with at least one kernel running
  double memory_mib_s;
};

// All time-dependent state. There are two copies: Advance() writes the spare copy and then makes it
// current, so a process that is killed halfway leaves the old state intact.
struct Motion {
  double now_s;
  double work_left_s[kMaxResidents];
  Totals totals[kMaxPlaces];
};

// Readings of one GPU or instance at one moment.
struct Readings {
  double now_s;
  std::int64_t used_mib;
  double sm_active;  // at this moment
  double power_w;
  Totals totals;
};

struct World {
  std::int32_t gpu_count;
  std::int32_t place_count;
  std::int32_t slots;  // number of slots that have ever been used
  sim::Interference interference;
  std::atomic<std::uint32_t> current;  // index of the current motion
  std::uint64_t xid_count;             // number of errors since the server was created
  XidEvent xids[kMaxXids];             // error number n is at index n % kMaxXids
  std::uint32_t limits_memory;         // 1: the driver can limit the memory of groups
  GroupLimit limits[kMaxGroupLimits];
  Gpu gpus[kMaxPlaces];
  Motion motions[2];
  Resident residents[kMaxResidents];

  const Motion& motion() const { return motions[current.load(std::memory_order_relaxed) & 1]; }
  Motion& motion() { return motions[current.load(std::memory_order_relaxed) & 1]; }
};
static_assert(std::is_standard_layout_v<World>);

// True if the server has more instances than a world can hold.
bool TooManyInstances(std::span<const sim::ShapedGpu> gpus);
// Initialises an empty server at time 0 in zeroed memory. UUIDs depend only on the seed and the
// place's number.
void InitWorld(World& world, std::span<const sim::ShapedGpu> gpus, std::uint64_t seed);

// Advances the world to now_s, and recomputes it each time a resident finishes its work. (A
// finished resident only holds memory.) Does nothing if now_s is before the world's time. Returns
// true if any resident finished.
bool Advance(World& world, double now_s);

// Computes memory, speeds, activity and power from the residents. Must be called after every change
// to the residents.
void Recompute(World& world);

Readings ReadingsOf(const World& world, int gpu);

// A GPU that has too little free memory for a request.
struct Shortage {
  int gpu = 0;
  std::int64_t wanted_mib = 0;
  std::int64_t free_mib = 0;
  std::int64_t usable_mib = 0;
};
// The GPU on which the shares do not fit. Empty if all shares fit and stay within the group's
// limits (Arrival::group).
std::optional<Shortage> FindShortage(const World& world, std::span<const Share> wanted,
                                     const std::string& group = {});
// A GPU's memory as cudaMemGetInfo reports it to a process of the group. The total is the group's
// own hard limit, if it has one. Limits of parent groups do not change the total.
struct MemoryView {
  std::int64_t total_mib = 0;  // without a limit, includes the driver's share
  std::int64_t free_mib = 0;
};
MemoryView MemoryFor(const World& world, int gpu, const std::string& group);
std::int64_t GroupUsed(const World& world, int gpu, const std::string& group);
// Null if the group has no limit of its own.
const GroupLimit* FindLimit(const World& world, int gpu, const std::string& group);
// A soft limit of 0 without a hard limit removes the entry. Returns false if no entry is free or
// the path is too long.
bool SetLimit(World& world, const GroupLimit& limit);
// Makes room for an MPS client that is within its soft limit but finds the GPU full. Like NVIDIA's
// server, terminates clients whose groups exceed their soft limits, until `wanted` fits or no such
// client is left.
void EvictFor(World& world, std::span<const Share> wanted, const std::string& group);

inline bool IsLive(const Resident& resident) {
  return resident.live.load(std::memory_order_acquire) != 0;
}
// The slots of the residents that have not left.
inline auto LiveSlots(const World& world) {
  return std::views::iota(0, world.slots) |
         std::views::filter([&world](int slot) { return IsLive(world.residents[slot]); });
}
// A free slot; -1 if the table is full.
int FreeSlot(const World& world);
// Writes the arrival to `slot`, which must be free, and updates all speeds. The arrival must fit.
void Place(World& world, int slot, const Arrival& arrival);
void Remove(World& world, int slot);
// Allocates the memory in `more` on the resident's GPUs.
void Grow(World& world, int slot, std::span<const Share> more);
// Stops computing without finishing the work; the memory stays allocated.
void Stop(World& world, int slot);

// Fraction of GPU time that this process's kernels get when processes take turns. Proportional to
// the process's SM activity and speed; 0 if the process does not compute on this GPU.
double KernelShare(const World& world, int slot, int place);

// Announces a critical error on the event's GPU.
void Announce(World& world, XidEvent event);

// Resets a GPU: clears the errors counted since the driver was loaded, and remaps the rows that are
// waiting for a reset.
void ResetCondition(Condition& condition);

// Returns false if CARMA cannot have written these bytes (counts out of range, unknown GPUs).
bool Plausible(const World& world);

}  // namespace carma::simgpu
