// A simulated GPU server shared by processes through one mapped file.
//
// Every process that attaches sees the same world (world.h); whoever looks first moves it to the
// present moment. Memory of a process that died, however it died, is free at the next look.
#pragma once

#include <sys/types.h>

#include <chrono>
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

// How long a server that was removed or torn may go unnoticed, in real time: asking the file system
// at every look would cost more than the look.
inline constexpr std::int64_t kFileCheckNs = 1'000'000;

// Names the file for the simulated driver and for simulated tasks.
inline constexpr const char* kStateVariable = "CARMA_SIMGPU_STATE";

struct ServerOptions {
  double time_scale = 1;   // simulated seconds per real second, 0.001..1e6
  std::uint64_t seed = 1;  // of the UUIDs
  // Simulated time of day at creation, Unix epoch; empty: the real one.
  std::optional<std::int64_t> origin_time_ms = std::nullopt;
  // The driver limits the memory of control groups, as NVIDIA's does from r615 on.
  bool memory_limits = false;
};

// Makes a server of this shape (gpu_types.h), idle, its time starting now. The file is readable and
// writable by everybody, as the device nodes of a real driver are. Replaces an older server's file,
// whose processes then find their GPUs gone. Errors: kInvalid: shape or scale; kConflict: a server
// with residents is there; kIo.
base::Result<base::Unit> CreateServer(const std::string& path, const std::string& shape,
                                      const ServerOptions& options);

// One place at one moment.
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
  double kernel_share = 0;  // of the moment (KernelShare in world.h)
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
  bool evicted = false;          // MPS has ended it, its memory is gone
};

class Residency;

class Server {
 public:
  // Simulated seconds since the server was made; tests hand in their own.
  using NowFn = std::function<double()>;

  // Errors: kNotFound: no such file; kCorrupt: not a state file, of another version, torn, or made
  // before the last reboot (the file is left as it is); kDenied, kIo.
  static base::Result<std::unique_ptr<Server>> Attach(const std::string& path, NowFn now = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int gpu_count() const { return gpu_count_; }
  // GPUs and, behind them, the instances of divided ones. Wherever a GPU's number is asked for, an
  // instance's place in this list will do unless it says "whole".
  const std::vector<GpuIdentity>& places() const { return places_; }
  int place_count() const { return static_cast<int>(places_.size()); }
  // The place itself, or the GPU that it is a part of.
  int WholeGpu(int place) const { return parents_[static_cast<std::size_t>(place)]; }
  const base::ClockOrigin& clock() const { return clock_; }
  double Now() const;

  // Every look brings the world to the present and frees what the dead held.
  // Errors of these: kNotFound: the file was removed or replaced; kCorrupt: it was torn.
  base::Result<GpuLook> Look(int gpu);
  // Replaces `lines` by the processes on one GPU, instances of it included, that came by this way
  // of sharing.
  base::Result<base::Unit> Processes(int gpu, core::SharingMethod sharing,
                                     std::vector<ProcessLook>& lines);
  base::Result<std::vector<ResidentLook>> Residents();

  // Joins the calling process, at places that are not divided, with all of its shares, or with
  // none: then `shortage` says why. The joining thread must outlive the residency. Errors:
  // kInvalid: shares; kUnavailable: table full.
  base::Result<std::unique_ptr<Residency>> Join(const Arrival& arrival,
                                                std::optional<Shortage>& shortage);

  // Sleeps until the clock reaches until_s, the world differs from `generation`, or a signal
  // arrives; 200 ms of real time at most, as nobody announces a death.
  void Wait(std::uint32_t generation, double until_s);
  std::uint32_t Generation() const;
  // Ends the Wait() of everybody. Async-signal-safe.
  void Poke();

  // A critical error of a GPU or of one instance, as the driver announces it. Errors: kInvalid.
  base::Result<base::Unit> AnnounceXid(int gpu, int xid);
  // How many there have been, and those from number `from` on that are still known.
  struct Xids {
    std::uint64_t count = 0;
    std::vector<XidEvent> events;
  };
  base::Result<Xids> XidsFrom(std::uint64_t from);
  // These are about whole GPUs.
  base::Result<Condition> ConditionOf(int gpu);

  // Limits of control groups. Errors: kInvalid: this server has none, a divided GPU, an instance;
  // kUnavailable: too many.
  base::Result<base::Unit> LimitGroup(const GroupLimit& limit);
  struct GroupLook {
    std::int64_t soft_mib = 0;
    std::int64_t hard_mib = kNoLimitMib;
    std::int64_t used_mib = 0;
  };
  base::Result<GroupLook> LookAtGroup(int gpu, const std::string& group);
  base::Result<std::vector<GroupLimit>> GroupLimits();
  // As a process of that group sees the GPU.
  base::Result<MemoryView> MemoryOf(int gpu, const std::string& group);

  base::Result<base::Unit> SetCondition(int gpu, const Condition& condition);
  // As after a reset: its faults and what it can be cured of are gone. Errors: kConflict: processes
  // are on it.
  base::Result<base::Unit> ResetGpu(int gpu);

  base::Result<base::Unit> SetFault(const Fault& fault);
  // All, or those of one whole GPU (kWholeDriver: those of the driver).
  base::Result<base::Unit> ClearFaults(std::optional<std::int32_t> gpu = std::nullopt);
  base::Result<std::vector<Fault>> Faults();
  // The worst fault that concerns a call of this function on this whole GPU (kWholeDriver: no GPU).
  base::Result<Fault> FaultOn(std::int32_t gpu, const char* function);

 private:
  friend class Residency;
  class Lock;
  struct Mapping;

  Server() = default;
  base::Result<base::Unit> CheckFile();
  base::Result<base::Unit> CheckGpu(int gpu) const;  // a whole one
  base::Result<base::Unit> CheckShares(const std::vector<Share>& shares) const;
  // To be called with the lock held.
  void BringToPresent();
  void Reap();
  void Changed();

  std::unique_ptr<Mapping> mapping_;
  NowFn now_;
  base::ClockOrigin clock_;
  int gpu_count_ = 0;
  std::vector<GpuIdentity> places_;
  std::vector<int> parents_;  // of each place, itself if it is whole
};

// A process's place on its GPUs. Leaving (the destructor) frees its memory; must be used by the
// thread that joined, and die before its Server. After a fork it belongs to the parent alone.
class Residency {
 public:
  ~Residency();
  Residency(const Residency&) = delete;
  Residency& operator=(const Residency&) = delete;

  // More memory on its GPUs, all or nothing. An MPS client within its soft limit may cost others
  // their place (EvictFor).
  base::Result<std::optional<Shortage>> Grow(std::span<const Share> more);
  // It computes no more, its work stays half done and its memory taken.
  base::Result<base::Unit> Stop();
  base::Result<Progress> Look();

 private:
  friend class Server;
  Residency(Server& server, int slot);
  Server& server_;
  int slot_;
  pid_t thread_;
};

}  // namespace carma::simgpu
