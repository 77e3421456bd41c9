// A simulated GPU server shared by processes through one mapped file.
//
// All attached processes see the same world (world.h); each access first advances it to the
// present. Memory of a dead process is freed at the next access.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/server_clock.h"
#include "lab/simgpu/fault.h"
#include "lab/simgpu/world.h"

namespace carma::simgpu {

// Real time for which a removed or truncated server may go unnoticed: checking the file at every
// access would cost more than the access.
inline constexpr std::int64_t kFileCheckNs = 1'000'000;

// The environment variable that names the file for the simulated driver and simulated tasks.
inline constexpr const char* kStateVariable = "CARMA_SIMGPU_STATE";

struct ServerOptions {
  double time_scale = 1;   // simulated seconds per real second, 0.001..1e6
  std::uint64_t seed = 1;  // of the UUIDs
  // Simulated time of day at creation, Unix epoch; empty: the real one.
  std::optional<std::int64_t> origin_time_ms = std::nullopt;
  // The driver limits the memory of control groups, as NVIDIA's does from r615 on.
  bool memory_limits = false;
};

// Creates an idle server of this shape (gpu_types.h) whose time starts now. All users may read and
// write the file, as with a real driver's device nodes. Replaces an older server's file, whose
// processes then lose their GPUs. Errors: kInvalid: shape or scale; kConflict: a server with
// residents exists; kIo.
Result<Unit> CreateServer(const std::string& path, const std::string& shape,
                          const ServerOptions& options);

// Converts a shape to its normal form: "2xA100-40GB,1xA100-80GB:mig=1g.10gb+3g.40gb". Errors:
// kInvalid.
Result<std::string> NormalShape(const std::string& shape);
class Server;
// The shape of an existing server, in normal form.
std::string ShapeOf(const Server& server);

// The state of one GPU or instance.
struct GpuLook {
  double now_s = 0;
  std::int64_t total_mib = 0;
  std::int64_t reserved_mib = 0;
  std::int64_t used_mib = 0;
  double sm_active = 0;  // at this moment
  double power_w = 0;
  Totals totals{};
};

struct GpuIdentity {
  std::string type;
  std::string nvml_name;
  std::string uuid;
  std::string pci;
  std::int64_t total_mib = 0;
  std::int64_t reserved_mib = 0;
  int sms = 0;
  double relative_speed = 1;
  bool mig = false;         // divided into instances
  std::string parent_uuid;  // of an instance; else empty
  int gpu_instance = 0;
  sim::MigSlices slices{};
};

struct ProcessLook {
  pid_t pid = 0;
  std::int64_t memory_mib = 0;
  int gpu = 0;              // the place
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
  bool evicted = false;          // ended by MPS, its memory is gone
};

class Residency;

class Server {
 public:
  // Simulated seconds since the server was made; tests pass their own clock.
  using NowFn = std::function<double()>;

  // Errors: kNotFound: no such file; kCorrupt: not a state file, of another version, torn, or made
  // before the last reboot (the file is left as it is); kDenied, kIo.
  static Result<std::unique_ptr<Server>> Attach(const std::string& path, NowFn now = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int gpu_count() const { return gpu_count_; }
  // GPUs, followed by the instances of divided ones. A parameter `gpu` may be an instance's
  // position in this list unless the comment says "whole".
  const std::vector<GpuIdentity>& places() const { return places_; }
  int place_count() const { return static_cast<int>(places_.size()); }
  // The place itself, or the GPU of an instance.
  int WholeGpu(int place) const { return parents_[static_cast<std::size_t>(place)]; }
  const base::ClockOrigin& clock() const { return clock_; }
  double Now() const;

  // Every access advances the world to the present and frees the memory of dead processes.
  // Errors of these: kNotFound: the file was removed or replaced; kCorrupt: it was torn.
  Result<GpuLook> Look(int gpu);
  // Fills `lines` with the processes on one GPU, including its instances, that use this sharing
  // method.
  Result<Unit> Processes(int gpu, core::SharingMethod sharing, std::vector<ProcessLook>& lines);
  Result<std::vector<ResidentLook>> Residents();

  // Adds the calling process to GPUs or instances that are not divided further, with all of its
  // shares. If they do not fit, adds none; `shortage` then shows why. The joining thread must
  // outlive the residency. Errors: kInvalid: shares; kUnavailable: table full.
  Result<std::unique_ptr<Residency>> Join(const Arrival& arrival,
                                          std::optional<Shortage>& shortage);

  // Sleeps until the clock reaches until_s, the world differs from `generation`, or a signal
  // arrives; at most 200 ms of real time, because deaths are not announced.
  void Wait(std::uint32_t generation, double until_s);
  std::uint32_t Generation() const;
  // Ends Wait() in all processes. Async-signal-safe.
  void Poke();

  // Announces a critical error of a GPU or instance, as the driver would. Errors: kInvalid.
  Result<Unit> AnnounceXid(int gpu, int xid);
  // The total number of events, and those from number `from` on that are still stored.
  struct Xids {
    std::uint64_t count = 0;
    std::vector<XidEvent> events;
  };
  Result<Xids> XidsFrom(std::uint64_t from);
  // From here on, parameters `gpu` are whole GPUs.
  Result<Condition> ConditionOf(int gpu);

  // Limits of control groups. Errors: kInvalid: this server has none, a divided GPU, an instance;
  // kUnavailable: too many.
  Result<Unit> LimitGroup(const GroupLimit& limit);
  struct GroupLook {
    std::int64_t soft_mib = 0;
    std::int64_t hard_mib = kNoLimitMib;
    std::int64_t used_mib = 0;
  };
  Result<GroupLook> LookAtGroup(int gpu, const std::string& group);
  Result<std::vector<GroupLimit>> GroupLimits();
  // The GPU's memory as a process of that group sees it.
  Result<MemoryView> MemoryOf(int gpu, const std::string& group);

  Result<Unit> SetCondition(int gpu, const Condition& condition);
  // Resets the GPU: removes its faults and repairable conditions. Errors: kConflict if processes
  // use it.
  Result<Unit> ResetGpu(int gpu);

  Result<Unit> SetFault(const Fault& fault);
  // Clears all faults, or those of one whole GPU (kWholeDriver: those of the driver).
  Result<Unit> ClearFaults(std::optional<std::int32_t> gpu = std::nullopt);
  Result<std::vector<Fault>> Faults();
  // The worst fault that affects a call of this function on this whole GPU (kWholeDriver: no GPU).
  Result<Fault> FaultOn(std::int32_t gpu, const char* function);

 private:
  friend class Residency;
  class Lock;
  struct Mapping;

  Server() = default;
  Result<Unit> CheckFile();
  Result<Unit> CheckGpu(int gpu) const;  // a whole one
  Result<Unit> CheckShares(const std::vector<Share>& shares) const;
  // To be called with the lock held.
  void BringToPresent();
  void Reap();
  void Changed();

  std::unique_ptr<Mapping> mapping_;
  NowFn now_;
  base::ClockOrigin clock_;
  int gpu_count_ = 0;
  std::vector<GpuIdentity> places_;
  std::vector<int> parents_;  // whole GPU of each place
};

// A process's presence on its GPUs. The destructor frees its memory. Use it on the joining thread
// and destroy it before its Server. After a fork it belongs only to the parent.
class Residency {
 public:
  ~Residency();
  Residency(const Residency&) = delete;
  Residency& operator=(const Residency&) = delete;

  // Allocates more memory on its GPUs, all or nothing. An MPS client within its soft limit may
  // evict others (EvictFor).
  Result<std::optional<Shortage>> Grow(std::span<const Share> more);
  // Stops computing; the work stays unfinished and the memory in use.
  Result<Unit> Stop();
  Result<Progress> Look();

 private:
  friend class Server;
  Residency(Server& server, int slot);
  Server& server_;
  int slot_;
  pid_t thread_;
};

}  // namespace carma::simgpu
