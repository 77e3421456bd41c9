#include "lab/simgpu/state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <set>

#include "base/clock.h"
#include "base/process_id.h"
#include "base/text.h"
#include "base/try.h"
#include "lab/simgpu/state_file.h"

namespace carma::simgpu {
namespace {

// A waiting process is not notified when another process dies, so it checks at least this often.
constexpr double kLongestWaitS = 0.2;

void InitRobustMutex(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  std::memset(&mutex, 0, sizeof mutex);
  pthread_mutex_init(&mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

long Futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* timeout) {
  return ::syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

// Writes the new server to a temporary file and renames that file over the old server's file.
Result<Unit> WriteState(const std::string& path, std::span<const sim::ShapedGpu> gpus,
                        const ServerOptions& options) {
  std::string temporary = path + ".XXXXXX";
  base::UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) return FailErrno(errno, "creating " + temporary);
  const auto fail = [&temporary](const std::string& doing) {
    const int error = errno;
    ::unlink(temporary.c_str());
    return FailErrno(error, doing);
  };
  // mkostemp always makes the file private, but other users' tasks need access to the server too.
  if (::fchmod(fd.get(), 0666) != 0 || ::ftruncate(fd.get(), sizeof(StateFile)) != 0)
    return fail("sizing " + temporary);
  void* memory =
      ::mmap(nullptr, sizeof(StateFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return fail("mapping " + temporary);
  StateFile& state = *static_cast<StateFile*>(memory);
  state.head = base::MakeServerHead(
      sizeof(StateFile),
      {options.time_scale, options.origin_time_ms.value_or(base::ToMs(base::SystemClock().Now())),
       base::BootTimeNs()});
  InitRobustMutex(state.lock);
  InitWorld(state.world, gpus, options.seed);
  state.world.limits_memory = options.memory_limits ? 1 : 0;
  ::munmap(memory, sizeof(StateFile));
  if (::rename(temporary.c_str(), path.c_str()) != 0) return fail("renaming to " + path);
  return Unit{};
}

GpuIdentity Identify(const World& world, int place) {
  const Gpu& gpu = world.gpus[place];
  return {.type = Text(gpu.type),
          .nvml_name = Text(gpu.nvml_name),
          .uuid = Text(gpu.uuid),
          .pci = Text(gpu.pci),
          .total_mib = gpu.total_mib,
          .reserved_mib = gpu.reserved_mib,
          .sms = gpu.sms,
          .mig = gpu.mig != 0,
          .whole = gpu.parent < 0 ? place : gpu.parent,
          .parent_uuid = gpu.parent < 0 ? "" : Text(world.gpus[gpu.parent].uuid),
          .gpu_instance = gpu.gpu_instance,
          .slices = gpu.slices};
}

std::string ShapeText(std::span<const sim::ShapedGpu> gpus) {
  std::vector<std::pair<int, std::string>> groups;
  for (const sim::ShapedGpu& gpu : gpus) {
    std::vector<std::string> profiles;
    for (const sim::MigSlices& each : gpu.mig.value_or(std::vector<sim::MigSlices>()))
      profiles.push_back(sim::MigProfileName(gpu.type, each));
    std::ranges::sort(profiles);
    const std::string text =
        gpu.type.type + (gpu.mig ? ":mig=" + base::Join(profiles, "+") : std::string());
    if (groups.empty() || groups.back().second != text) groups.emplace_back(0, text);
    ++groups.back().first;
  }
  std::vector<std::string> texts;
  for (const auto& [count, text] : groups) texts.push_back(fmt::format("{}x{}", count, text));
  return base::Join(texts, ",");
}

}  // namespace

Result<std::string> NormalShape(const std::string& shape) {
  const std::vector<sim::ShapedGpu> gpus = CARMA_TRY(sim::ParseDividedShape(shape));
  return ShapeText(gpus);
}

Result<Unit> CreateServer(const std::string& path, const std::string& shape,
                          const ServerOptions& options) {
  const std::vector<sim::ShapedGpu> gpus = CARMA_TRY(sim::ParseDividedShape(shape));
  if (TooManyInstances(gpus))
    return Invalid("shape: expected at most {} GPUs and MIG instances", kMaxPlaces);
  if (!(options.time_scale >= 0.001 && options.time_scale <= 1e6))
    return Invalid("time scale: expected 0.001 to 1000000");
  if (const auto old = Server::Attach(path)) {
    const auto residents = (*old)->Residents();
    if (residents && !residents->empty())
      return Conflict("{}: a server already exists, with {} processes on its GPUs", path,
                      residents->size());
  }
  return WriteState(path, gpus, options);
}

Result<std::unique_ptr<Server>> Server::Attach(const std::string& path, NowFn now) {
  std::unique_ptr<Server> server(new Server);
  server->mapping_ = std::make_unique<Mapping>();
  Mapping& mapping = *server->mapping_;
  mapping.path = path;
  mapping.fd.reset(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!mapping.fd) return FailErrno(errno, "opening the simulated GPU server " + path);
  CARMA_TRY(server->CheckFile());
  void* memory =
      ::mmap(nullptr, sizeof(StateFile), PROT_READ | PROT_WRITE, MAP_SHARED, mapping.fd.get(), 0);
  if (memory == MAP_FAILED) return FailErrno(errno, "mapping " + path);
  mapping.state = static_cast<StateFile*>(memory);
  const StateFile& state = *mapping.state;
  // Checks the part of the file that never changes while a server exists.
  CARMA_TRY(base::CheckServerHead(state.head, sizeof(StateFile), path));
  if (!Plausible(state.world)) return Fail(ErrorCode::kCorrupt, path + ": broken");
  server->clock_ = state.head.clock;
  server->gpu_count_ = state.world.gpu_count;
  for (int place = 0; place < state.world.place_count; ++place)
    server->places_.push_back(Identify(state.world, place));
  server->now_ = std::move(now);
  return server;
}

Server::~Server() = default;

std::string ShapeOf(const Server& server) {
  std::vector<sim::ShapedGpu> gpus;
  for (int place = 0; place < server.place_count(); ++place) {
    const GpuIdentity& identity = server.place(place);
    if (identity.parent_uuid.empty()) {
      const Result<std::vector<sim::GpuType>> known = sim::ParseShape(identity.type);
      gpus.push_back({known ? known->front() : sim::GpuType{.type = identity.type}, std::nullopt});
      if (identity.mig) gpus.back().mig.emplace();
    } else if (auto& mig = gpus[static_cast<std::size_t>(server.WholeGpu(place))].mig; mig) {
      mig->push_back(identity.slices);
    }
  }
  return ShapeText(gpus);
}

// Takes the lock, brings the world up to date, and removes dead residents.
Result<Server::Lock> Server::TakeLock() {
  CARMA_TRY(CheckFile());
  StateFile& state = *mapping_->state;
  const int error = ::pthread_mutex_lock(&state.lock);
  if (error == EOWNERDEAD) {
    // A process died while it held the mutex. The residents are intact (see Motion), but values
    // derived from them may be only partly updated.
    Recompute(state.world);
    ::pthread_mutex_consistent(&state.lock);
    Changed();
  } else if (error != 0) {
    return Fail(ErrorCode::kCorrupt, mapping_->path + ": its mutex is broken");
  }
  Lock lock(&state.lock);
  if (Advance(state.world, Now())) Changed();
  Reap();
  return lock;
}

// Checks that the file has its full size. Reading a page beyond the end of a truncated file would
// kill the process.
Result<Unit> Server::CheckFile() {
  const std::int64_t now_ns = base::BootTimeNs();
  if (now_ns - mapping_->checked_ns.load(std::memory_order_relaxed) < kFileCheckNs) return Unit{};
  struct stat status {};
  if (::fstat(mapping_->fd.get(), &status) != 0) return FailErrno(errno, mapping_->path);
  if (status.st_nlink == 0)
    return NotFound(mapping_->path + ": the simulated GPU server was removed");
  if (!S_ISREG(status.st_mode) || status.st_size != sizeof(StateFile)) {
    return Fail(ErrorCode::kCorrupt, mapping_->path + ": damaged, or not a simulated GPU server");
  }
  mapping_->checked_ns.store(now_ns, std::memory_order_relaxed);
  return Unit{};
}

double Server::Now() const {
  if (now_) return now_();
  return static_cast<double>(base::BootTimeNs() - clock_.origin_boot_ns) / 1e9 * clock_.time_scale;
}

// Removes dead residents. Each resident holds a robust mutex. When its thread dies, the kernel
// marks the mutex before the pid can be reused. Checking a mutex takes nanoseconds; reading /proc
// takes microseconds.
void Server::Reap() {
  StateFile& state = *mapping_->state;
  for (const int slot : LiveSlots(state.world)) {
    pthread_mutex_t& life = state.lives[slot];
    const int held = ::pthread_mutex_trylock(&life);
    if (held == EBUSY) continue;
    if (held == EOWNERDEAD) ::pthread_mutex_consistent(&life);
    if (held == EOWNERDEAD || held == 0) ::pthread_mutex_unlock(&life);
    Remove(state.world, slot);
    Changed();
  }
}

void Server::Changed() {
  mapping_->state->generation.fetch_add(1, std::memory_order_release);
  Futex(mapping_->state->generation, FUTEX_WAKE, INT_MAX, nullptr);
}

void Server::Poke() {
  const int saved = errno;
  Changed();
  errno = saved;
}

std::uint32_t Server::Generation() const {
  return mapping_->state->generation.load(std::memory_order_acquire);
}

void Server::Wait(std::uint32_t generation, double until_s) {
  const double real_s = std::min((until_s - Now()) / clock_.time_scale, kLongestWaitS);
  if (!(real_s > 0)) return;
  const auto ns = static_cast<std::int64_t>(real_s * 1e9);
  const timespec timeout{static_cast<time_t>(ns / 1'000'000'000),
                         static_cast<long>(ns % 1'000'000'000)};
  Futex(mapping_->state->generation, FUTEX_WAIT, generation, &timeout);
}

Result<GpuLook> Server::Look(int gpu) {
  const Lock lock = CARMA_TRY(TakeLock());
  const StateFile& state = *mapping_->state;
  GpuLook look{ReadingsOf(state.world, gpu), state.world.gpus[gpu].condition};
  if (state.fault_count.load(std::memory_order_relaxed) == 0) return look;
  for (const FaultEntry& fault : state.faults) {
    if (fault.kind == static_cast<std::uint32_t>(FaultKind::kStale) && fault.gpu == gpu)
      static_cast<Readings&>(look) = fault.frozen;
  }
  return look;
}

Result<Unit> Server::Processes(int gpu, core::SharingMethod sharing,
                               std::vector<ProcessLook>& lines) {
  lines.clear();
  const Lock lock = CARMA_TRY(TakeLock());
  const World& world = mapping_->state->world;
  for (const int slot : LiveSlots(world)) {
    const Resident& resident = world.residents[slot];
    if (resident.sharing != sharing) continue;
    for (const Share& share : resident.held()) {
      if (share.gpu != gpu && WholeGpu(share.gpu) != gpu) continue;
      lines.push_back(
          {resident.pid, share.memory_mib, share.gpu, KernelShare(world, slot, share.gpu)});
    }
  }
  return Unit{};
}

Result<std::vector<ResidentLook>> Server::Residents() {
  const Lock lock = CARMA_TRY(TakeLock());
  const World& world = mapping_->state->world;
  std::vector<ResidentLook> residents;
  for (const int slot : LiveSlots(world)) {
    const Resident& resident = world.residents[slot];
    const std::span<const Share> held = resident.held();
    residents.push_back({resident.pid,
                         resident.sharing,
                         resident.joined_s,
                         world.motion().work_left_s[slot],
                         resident.pace,
                         {held.begin(), held.end()}});
  }
  return residents;
}

Result<Unit> Server::CheckShares(const std::vector<Share>& shares) const {
  std::set<std::int32_t> gpus;
  for (const Share& share : shares) {
    if (share.gpu < 0 || share.gpu >= place_count() || share.memory_mib < 0 ||
        !gpus.insert(share.gpu).second) {
      return Invalid("shares: expected GPUs from 0 to {}, each at most once", place_count() - 1);
    }
    if (place(share.gpu).mig)
      return Invalid("shares: GPU {} is in MIG mode; use its MIG instances instead", share.gpu);
  }
  if (gpus.empty()) return Invalid("shares: expected at least one GPU");
  return Unit{};
}

Result<std::unique_ptr<Residency>> Server::Join(const Arrival& arrival,
                                                std::optional<Shortage>& shortage) {
  shortage.reset();
  CARMA_TRY(CheckShares(arrival.shares));
  const Lock lock = CARMA_TRY(TakeLock());
  StateFile& state = *mapping_->state;
  if (arrival.sharing == core::SharingMethod::kMps)
    EvictFor(state.world, arrival.shares, arrival.group);
  shortage = FindShortage(state.world, arrival.shares, arrival.group);
  if (shortage) return nullptr;
  const int slot = FreeSlot(state.world);
  if (slot < 0) return Unavailable("the simulated server has no room for another process");
  InitRobustMutex(state.lives[slot]);
  // No other process knows the new mutex yet, so locking it can neither fail nor block.
  CARMA_CHECK(::pthread_mutex_trylock(&state.lives[slot]) == 0, "a new mutex is already locked");
  Place(state.world, slot, arrival);
  Changed();
  return std::unique_ptr<Residency>(new Residency(*this, slot));
}

Residency::~Residency() {
  // A forked child has a copy of this object, but the residency belongs to the parent.
  if (thread_ != ::gettid()) return;
  const Result<Server::Lock> lock = server_.TakeLock();
  // Unlock the mutex while the file is still mapped, even if the file was removed. If the file was
  // truncated, do not touch the mapping, because that would kill the process.
  StateFile& state = *server_.mapping_->state;
  if (lock) {
    Remove(state.world, slot_);
    server_.Changed();
  } else if (lock.error().code == ErrorCode::kCorrupt) {
    return;
  }
  ::pthread_mutex_unlock(&state.lives[slot_]);
}

Result<std::optional<Shortage>> Residency::Grow(std::span<const Share> more) {
  const Server::Lock lock = CARMA_TRY(server_.TakeLock());
  World& world = server_.mapping_->state->world;
  const std::string group = Text(world.residents[slot_].group);
  if (world.residents[slot_].sharing == core::SharingMethod::kMps) EvictFor(world, more, group);
  std::optional<Shortage> shortage = FindShortage(world, more, group);
  if (!shortage) simgpu::Grow(world, slot_, more);
  return shortage;
}

Result<Unit> Residency::Stop() {
  const Server::Lock lock = CARMA_TRY(server_.TakeLock());
  simgpu::Stop(server_.mapping_->state->world, slot_);
  server_.Changed();
  return Unit{};
}

Result<Progress> Residency::Look() {
  const Server::Lock lock = CARMA_TRY(server_.TakeLock());
  const World& world = server_.mapping_->state->world;
  return Progress{world.motion().now_s, world.motion().work_left_s[slot_],
                  world.residents[slot_].pace, server_.Generation(),
                  world.residents[slot_].evicted != 0};
}

Result<Unit> Server::CheckGpu(int gpu) const {
  if (gpu >= 0 && gpu < gpu_count()) return Unit{};
  return Invalid("GPU {}: expected 0 to {}", gpu, gpu_count() - 1);
}

Result<Unit> Server::LimitGroup(const GroupLimit& limit) {
  CARMA_TRY(CheckGpu(limit.gpu));
  const Lock lock = CARMA_TRY(TakeLock());
  World& world = mapping_->state->world;
  if (world.limits_memory == 0 || world.gpus[limit.gpu].mig != 0)
    return Invalid("memory limits are not supported on this GPU");
  if (!SetLimit(world, limit))
    return Unavailable("too many memory limits, or the path is too long");
  return Unit{};
}

Result<Server::GroupLook> Server::LookAtGroup(int gpu, const std::string& group) {
  CARMA_TRY(CheckGpu(gpu));
  const Lock lock = CARMA_TRY(TakeLock());
  const World& world = mapping_->state->world;
  if (world.limits_memory == 0 || world.gpus[gpu].mig != 0)
    return Invalid("memory limits are not supported on this GPU");
  GroupLook look;
  if (const GroupLimit* limit = FindLimit(world, gpu, group))
    look = {limit->soft_mib, limit->hard_mib, 0};
  look.used_mib = GroupUsed(world, gpu, group);
  return look;
}

Result<std::vector<GroupLimit>> Server::GroupLimits() {
  const Lock lock = CARMA_TRY(TakeLock());
  std::vector<GroupLimit> limits;
  for (const GroupLimit& limit : mapping_->state->world.limits) {
    if (limit.group[0] != 0) limits.push_back(limit);
  }
  return limits;
}

Result<MemoryView> Server::MemoryOf(int gpu, const std::string& group) {
  const Lock lock = CARMA_TRY(TakeLock());
  return MemoryFor(mapping_->state->world, gpu, group);
}

}  // namespace carma::simgpu
