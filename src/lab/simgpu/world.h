// The physics of a simulated GPU server: who is on which GPU, how fast everybody is, what it draws.
// Plain values without pointers, so that they can live in memory shared by processes. Time is
// handed in, in simulated seconds; nothing here locks, waits or reads a clock.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "lab/sim/gpu_types.h"
#include "lab/sim/models.h"

namespace carma::simgpu {

using sim::GpuType;

inline constexpr int kMaxGpus = sim::kMaxServerGpus;
// GPUs and the instances of divided ones: places where processes live, numbered GPUs first.
inline constexpr int kMaxPlaces = 2 * kMaxGpus;
inline constexpr int kMaxResidents = 512;
inline constexpr std::size_t kTypeBytes = sim::kMaxTypeBytes + 1;
inline constexpr std::size_t kNameBytes = sim::kMaxNvmlNameBytes + 1;

// One process's part of one GPU, or of one instance.
struct Share {
  std::int32_t gpu = 0;  // the place's number
  std::int64_t memory_mib = 0;
  double sm_active = 0;  // u of sim::Load on this GPU
};

// What a process brings when it first allocates.
struct Arrival {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;
  core::SharingMethod sharing = core::SharingMethod::kStreams;
  std::uint32_t mps_server = 0;  // under MPS: clients of one server compute side by side
  double sm_cap = 1;             // of the SMs, what it may use at most (thread percentage of MPS)
  double sensitivity = 0;
  double pressure = 0;
  double work_s = 0;          // seconds of work alone on an A100-40GB; 0: it only holds memory
  std::vector<Share> shares;  // 1..kMaxGpus, each GPU once
  std::string group;          // full path of its control group; empty: of no group
};

// What a control group may take of one GPU, groups below it included.
inline constexpr int kMaxGroupLimits = 256;
inline constexpr std::size_t kGroupBytes = 256;
struct GroupLimit {
  char group[kGroupBytes];  // full path; empty: a free entry
  std::int32_t gpu;         // the place
  std::int64_t soft_mib;    // beyond it, it gives way under MPS; 0: nothing is guaranteed
  std::int64_t hard_mib;    // allocations beyond it fail; kNoLimitMib: none
};
inline constexpr std::int64_t kNoLimitMib = -1;

// What is wrong with a GPU until somebody resets it. A new one has nothing.
struct Condition {
  std::int64_t ecc_corrected = 0;    // errors of memory since the driver was loaded
  std::int64_t ecc_uncorrected = 0;  // the same, beyond repair
  std::int64_t rows_remapped = 0;    // rows of memory replaced by spares, ever
  std::uint32_t remap_pending = 0;   // one more will be at the next reset
  std::uint32_t remap_failed = 0;    // the spares are used up: no reset helps
  std::int32_t recovery_action = 0;  // NVML's number
  friend bool operator==(const Condition&, const Condition&) = default;
};

// A critical error that the driver announced.
struct XidEvent {
  std::int32_t gpu = 0;  // the place: of an instance alone, or of a whole GPU
  std::int32_t xid = 0;
  friend bool operator==(const XidEvent&, const XidEvent&) = default;
};
// The last of them are kept; whoever looks more seldom misses some, as with the real driver.
inline constexpr int kMaxXids = 64;

// A GPU, or an instance of one. Of an instance, power and condition are its GPU's.
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
  double compute;  // share of the SMs of its kind: 1 but for an instance
  Condition condition;
  std::uint32_t mig;    // divided: processes live on its instances alone
  std::int32_t parent;  // of an instance: the GPU; else -1
  std::int32_t gpu_instance;
  sim::MigSlices slices;
  // Derived from the residents by Recompute(): they hold from the last change to the next.
  std::int64_t used_mib;
  std::int32_t residents;
  std::int32_t working;
  double sm_active;
  double power_w;
};

struct Resident {
  std::atomic<std::uint32_t> live;  // written last on arrival and first on departure
  std::int32_t pid;
  std::uint64_t start_ticks;
  core::SharingMethod sharing;
  std::uint32_t mps_server;
  double sm_cap;
  double sensitivity;
  double pressure;
  double joined_s;
  std::uint32_t wants_work;  // it computes while it has work left
  std::uint32_t evicted;     // MPS ended it for one within its soft limit; its memory is free
  std::int32_t share_count;
  double pace;  // derived: work seconds per second
  Share shares[kMaxGpus];
  char group[kGroupBytes];
};

// Integrals over time since the server was made.
struct Totals {
  double energy_j;
  double sm_s;    // SM activity
  double busy_s;  // time with at least one kernel running
  double memory_mib_s;
};

// Everything that moves when time passes, twice: an advance writes the one that is not current and
// then switches, so that a process killed in the middle leaves the old moment whole.
struct Motion {
  double now_s;
  double work_left_s[kMaxResidents];
  Totals totals[kMaxPlaces];
};

struct World {
  std::int32_t gpu_count;
  std::int32_t place_count;
  std::int32_t slots;  // residents beyond this slot have never been used
  sim::Interference interference;
  std::atomic<std::uint32_t> current;  // of the two motions
  std::uint64_t xid_count;             // since the server was made
  XidEvent xids[kMaxXids];             // number n lies at n % kMaxXids
  std::uint32_t limits_memory;         // the driver can limit the memory of groups
  GroupLimit limits[kMaxGroupLimits];
  Gpu gpus[kMaxPlaces];
  Motion motions[2];
  Resident residents[kMaxResidents];

  const Motion& motion() const { return motions[current.load(std::memory_order_relaxed) & 1]; }
  Motion& motion() { return motions[current.load(std::memory_order_relaxed) & 1]; }
};
static_assert(std::is_standard_layout_v<World>);

// The server has more instances than a world holds.
bool TooManyInstances(std::span<const sim::ShapedGpu> gpus);
// An empty server at time 0. UUIDs follow from the seed and the place's number alone.
void InitWorld(World& world, std::span<const sim::ShapedGpu> gpus, std::uint64_t seed);

// Moves the world to now_s, through the moments at which residents finish their work in between:
// from then on they only hold their memory. Going back does nothing. True: somebody finished.
bool Advance(World& world, double now_s);

// Memory, speeds, activity and power from the residents. Called after every change of theirs.
void Recompute(World& world);

// Which GPU cannot give what was asked.
struct Shortage {
  int gpu = 0;
  std::int64_t wanted_mib = 0;
  std::int64_t free_mib = 0;
  std::int64_t usable_mib = 0;
};
// Empty: all of it fits, also within the limits of the group (Arrival::group).
std::optional<Shortage> FindShortage(const World& world, std::span<const Share> wanted,
                                     const std::string& group = {});
// The memory of a GPU as a process of the group sees it (cudaMemGetInfo): within a hard limit of
// its own group, the limit is all there is. Of a limit on a group above, the total tells nothing.
struct MemoryView {
  std::int64_t total_mib = 0;  // with what the driver keeps, if there is no limit
  std::int64_t free_mib = 0;
};
MemoryView MemoryFor(const World& world, int gpu, const std::string& group);
std::int64_t GroupUsed(const World& world, int gpu, const std::string& group);
// Null: it has none of its own.
const GroupLimit* FindLimit(const World& world, int gpu, const std::string& group);
// A soft limit of 0 without a hard one removes the entry. False: no entry is free, or the path is
// too long.
bool SetLimit(World& world, int gpu, const std::string& group, std::int64_t soft_mib,
              std::int64_t hard_mib);
// As the MPS server does it for a client that stays within its soft limit and finds the GPU full:
// ends clients of groups above theirs until `wanted` fits. What nobody can give is left as it is.
void EvictFor(World& world, std::span<const Share> wanted, const std::string& group);

// The slot of a free resident, -1 when the table is full.
int FreeSlot(const World& world);
// Writes the arrival into a free slot and recomputes. The caller has checked that it fits.
void Place(World& world, int slot, const Arrival& arrival);
void Remove(World& world, int slot);
// Adds to each of its GPUs what `more` says.
void Grow(World& world, int slot, std::span<const Share> more);
// The computing ends with its work half done; the memory stays.
void Stop(World& world, int slot);

// The share of the moment in which the GPU runs this process's kernels, when it switches between
// several: in proportion to the work they get done. 0: it computes nothing there.
double KernelShare(const World& world, int slot, int place);

// Seconds until `left_s` of the resident's work remain at the present pace; empty: never.
std::optional<double> SecondsUntil(const World& world, int slot, double left_s);

// The driver announces a critical error of this GPU.
void Announce(World& world, XidEvent event);

// A reset: errors since the driver was loaded are forgotten, rows that wait for it are replaced.
void ResetCondition(Condition& condition);

// False: bytes that no CARMA wrote (counts out of range, GPUs that do not exist).
bool Plausible(const World& world);

}  // namespace carma::simgpu
