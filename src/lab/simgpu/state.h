// A simulated GPU server that processes share through one mapped file.
//
// All attached processes see the same world (world.h). Each access first brings the world up to
// date and frees the memory of dead processes.
#pragma once

#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/server_clock.h"
#include "base/words.h"
#include "lab/simgpu/world.h"

namespace carma::simgpu {

// How long (in real time) the removal or truncation of the state file can go unnoticed. Checking at
// every access would cost more than the access itself.
inline constexpr std::int64_t kFileCheckNs = 1'000'000;

// The environment variable that names the file for the simulated driver and simulated tasks.
inline constexpr const char* kStateVariable = "CARMA_SIMGPU_STATE";

struct ServerOptions {
  double time_scale = 1;   // simulated seconds per real second, 0.001..1e6
  std::uint64_t seed = 1;  // for the UUIDs
  // Simulated time of day at creation, in ms since the epoch; empty means the real time.
  std::optional<std::int64_t> origin_time_ms = std::nullopt;
  // True if the driver can limit the memory of control groups, like NVIDIA's driver since r615.
  bool memory_limits = false;
};

// Creates an idle server of this shape (gpu_types.h) whose clock starts now, replacing an older
// server at this path. All users may read and write the file, as with a real driver's device nodes.
// Returns kInvalid for a bad shape or scale, kConflict if the older server has residents, or kIo.
Result<Unit> CreateServer(const std::string& path, const std::string& shape,
                          const ServerOptions& options);

// Converts a shape to its canonical form: "2xA100-40GB,1xA100-80GB:mig=1g.10gb+3g.40gb". Returns
// kInvalid if the shape is invalid.
Result<std::string> NormalShape(const std::string& shape);
class Server;
// The shape of an existing server, in canonical form.
std::string ShapeOf(const Server& server);

// ---- faults of the simulated driver or of one of its GPUs ----
enum class FaultKind : std::uint32_t {
  kNone,
  kHang,           // calls block until the fault is cleared
  kLost,           // GPU_IS_LOST
  kError,          // the given NVML error, from the given function or from all functions
  kNanActivity,    // SM activity is NaN
  kUsedOverTotal,  // more memory is in use than the GPU has
  kNoMemoryValue,  // memory counters are the "not available" sentinel
  kStale,          // readings are frozen at their values when the fault began
  kVanish,         // no driver: every call returns DRIVER_NOT_LOADED, including nvmlInit
  kNoPidMemory,    // process memory is the "not available" sentinel
};

inline constexpr std::pair<FaultKind, std::string_view> kFaultKindWords[] = {
    {FaultKind::kHang, "hang"},
    {FaultKind::kLost, "lost"},
    {FaultKind::kError, "error"},
    {FaultKind::kNanActivity, "nan-activity"},
    {FaultKind::kUsedOverTotal, "used-over-total"},
    {FaultKind::kNoMemoryValue, "no-memory-value"},
    {FaultKind::kStale, "stale"},
    {FaultKind::kVanish, "vanish"},
    {FaultKind::kNoPidMemory, "no-process-memory"}};

inline constexpr std::int32_t kWholeDriver = -1;

struct Fault {
  FaultKind kind = FaultKind::kNone;
  std::int32_t gpu = kWholeDriver;
  std::int32_t code = 0;  // kError: the NVML return code
  std::string function;   // kError: "nvmlDeviceGetPowerUsage"; empty: every function
};

// The names of all faults: "hang, lost, …".
std::string FaultKinds();
// Returns kInvalid with a list of the known names if the name is unknown.
Result<FaultKind> ParseFaultKind(std::string_view name);
// Parses "TIMEOUT", "GPU_IS_LOST" … (NVML's names without NVML_ERROR_) or a number. Returns
// kInvalid for anything else.
Result<std::int32_t> ParseNvmlCode(std::string_view text);
// NVML's text, such as "GPU is lost"; "unknown error" for codes unknown to NVML.
const char* NvmlText(std::int32_t code);

// ---- the server ----
// The state of one GPU or instance.
struct GpuLook : Readings {
  Condition condition;
};

struct GpuIdentity {
  std::string type;
  std::string nvml_name;
  std::string uuid;
  std::string pci;
  std::int64_t total_mib = 0;
  std::int64_t reserved_mib = 0;
  int sms = 0;
  bool mig = false;         // whether the GPU is partitioned into instances
  int whole = 0;            // place number of the GPU: for an instance, that of its GPU
  std::string parent_uuid;  // for an instance: its GPU; otherwise empty
  int gpu_instance = 0;
  sim::MigSlices slices{};
};

struct ProcessLook {
  pid_t pid = 0;
  std::int64_t memory_mib = 0;
  int gpu = 0;              // place number
  double kernel_share = 0;  // at this moment (KernelShare in world.h)
};

struct ResidentLook {
  pid_t pid = 0;
  core::SharingMethod sharing = core::SharingMethod::kStreams;
  double joined_s = 0;
  double work_left_s = 0;
  double pace = 0;
  std::vector<Share> shares;
};

struct Progress {
  double now_s = 0;
  double work_left_s = 0;
  double pace = 0;
  std::uint32_t generation = 0;  // for Server::Wait
  bool evicted = false;          // MPS has terminated the process, and its memory is gone
};

class Residency;

class Server {
 public:
  // Simulated seconds since the server was created. Tests pass their own clock.
  using NowFn = std::function<double()>;

  // Returns kNotFound if the file does not exist, kDenied, or kIo. Returns kCorrupt if the file is
  // not a state file, has a different version, is incomplete, or was written before the last
  // reboot.
  static Result<std::unique_ptr<Server>> Attach(const std::string& path, NowFn now = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int gpu_count() const { return gpu_count_; }
  // All GPUs, then the instances of MIG GPUs. A parameter `gpu` is an index into this list. It can
  // refer to an instance unless the function's comment says "whole".
  const std::vector<GpuIdentity>& places() const { return places_; }
  const GpuIdentity& place(int number) const { return places_[static_cast<std::size_t>(number)]; }
  int place_count() const { return static_cast<int>(places_.size()); }
  // The GPU of an instance; for a whole GPU, the GPU itself.
  int WholeGpu(int place) const { return this->place(place).whole; }
  const base::ClockOrigin& clock() const { return clock_; }
  double Now() const;

  // The functions below return kNotFound if the state file was removed or replaced, and kCorrupt if
  // it was truncated.
  Result<GpuLook> Look(int gpu);
  // Fills `lines` with the processes that use this sharing method on one GPU, including its
  // instances.
  Result<Unit> Processes(int gpu, core::SharingMethod sharing, std::vector<ProcessLook>& lines);
  Result<std::vector<ResidentLook>> Residents();

  // Adds the calling process with its shares of GPUs or instances. If they do not all fit, returns
  // null and sets `shortage`. The calling thread must outlive the residency. Returns kInvalid for
  // invalid shares, such as a share of a whole MIG GPU, or kUnavailable if the server already has
  // kMaxResidents residents.
  Result<std::unique_ptr<Residency>> Join(const Arrival& arrival,
                                          std::optional<Shortage>& shortage);

  // Sleeps until the clock reaches until_s, the world's generation differs from `generation`, or a
  // signal arrives. Sleeps for at most 200 ms of real time, because a process that dies does not
  // wake the others.
  void Wait(std::uint32_t generation, double until_s);
  std::uint32_t Generation() const;
  // Wakes all processes from Wait(). Async-signal-safe.
  void Poke();

  // Reports a critical error of a GPU or instance as the driver would. Returns kInvalid if there is
  // no such GPU or instance.
  Result<Unit> AnnounceXid(int gpu, int xid);
  // The total number of events, and all stored events from number `from` on.
  struct Xids {
    std::uint64_t count = 0;
    std::vector<XidEvent> events;
  };
  Result<Xids> XidsFrom(std::uint64_t from);

  // In the functions below, `gpu` must be the number of a whole GPU.

  // Sets a control group's memory limit on a GPU. Returns kInvalid for MIG GPUs, for instances, and
  // on servers without such limits. Returns kUnavailable if there are too many limits.
  Result<Unit> LimitGroup(const GroupLimit& limit);
  struct GroupLook {
    std::int64_t soft_mib = 0;
    std::int64_t hard_mib = kNoLimitMib;
    std::int64_t used_mib = 0;
  };
  Result<GroupLook> LookAtGroup(int gpu, const std::string& group);
  Result<std::vector<GroupLimit>> GroupLimits();
  // The GPU's memory as a process of this group sees it.
  Result<MemoryView> MemoryOf(int gpu, const std::string& group);

  Result<Unit> SetCondition(int gpu, const Condition& condition);
  // Resets the GPU: removes its faults and repairable conditions. Returns kConflict if processes
  // use it.
  Result<Unit> ResetGpu(int gpu);

  Result<Unit> SetFault(const Fault& fault);
  // Clears all faults, or only the faults of one whole GPU or of the driver (kWholeDriver).
  Result<Unit> ClearFaults(std::optional<std::int32_t> gpu = std::nullopt);
  Result<std::vector<Fault>> Faults();
  // The worst fault that affects this function. gpu: a whole GPU, or kWholeDriver for functions
  // that are not about a GPU.
  Result<Fault> FaultOn(std::int32_t gpu, const char* function);

 private:
  friend class Residency;
  struct Mapping;
  struct Unlock {
    void operator()(pthread_mutex_t* mutex) const { ::pthread_mutex_unlock(mutex); }
  };
  // Holds the server's mutex. While it exists, the world is up to date and has no dead residents.
  using Lock = std::unique_ptr<pthread_mutex_t, Unlock>;

  Server() = default;
  Result<Lock> TakeLock();
  Result<Unit> CheckFile();
  Result<Unit> CheckGpu(int gpu) const;  // must be a whole GPU
  Result<Unit> CheckShares(const std::vector<Share>& shares) const;
  // Requires the lock.
  void Reap();
  void Changed();

  std::unique_ptr<Mapping> mapping_;
  NowFn now_;
  base::ClockOrigin clock_;
  int gpu_count_ = 0;
  std::vector<GpuIdentity> places_;
};

// A process's presence on its GPUs. The destructor frees the process's memory. Use the object only
// on the thread that called Join(), and destroy it before its Server. After a fork, the residency
// still belongs to the parent process only.
class Residency {
 public:
  ~Residency();
  Residency(const Residency&) = delete;
  Residency& operator=(const Residency&) = delete;

  // Allocates more memory on the process's GPUs, all or nothing. An MPS client within its soft
  // limit may evict other clients (EvictFor).
  Result<std::optional<Shortage>> Grow(std::span<const Share> more);
  // Stops computing without finishing the work; the memory stays allocated.
  Result<Unit> Stop();
  Result<Progress> Look();

 private:
  friend class Server;
  Residency(Server& server, int slot) : server_(server), slot_(slot) {}
  Server& server_;
  int slot_;
  pid_t thread_ = ::gettid();
};

}  // namespace carma::simgpu

template <>
inline constexpr carma::base::Words<carma::simgpu::FaultKind>
    carma::base::kWordsOf<carma::simgpu::FaultKind> = carma::simgpu::kFaultKindWords;
