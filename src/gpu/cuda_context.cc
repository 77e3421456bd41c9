#include "gpu/cuda_context.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/try.h"
#include "base/unique_fd.h"
#include "gpu/nvml_library.h"

namespace carma::gpu {
namespace {

using Kind = ContextTrouble::Kind;
using SteadyTime = std::chrono::steady_clock::time_point;
template <class T>
using Tried = std::expected<T, ContextTrouble>;

// More than the driver uses on an idle GPU, less than any CUDA context uses.
constexpr std::int64_t kIdleMib = 128;
constexpr std::size_t kMaxLine = 1'000;
// How many times to query the driver about a process that it does not list yet.
constexpr int kLooks = 5;
constexpr std::chrono::milliseconds kReleaseTime{3'000};

// The child writes one line that begins with one of these words.
constexpr std::string_view kMade = "made ";             // PCI address, or "-"
constexpr std::string_view kNoLibrary = "no-library ";  // why
constexpr std::string_view kRefused = "refused ";       // CUresult, then its text

std::unexpected<ContextTrouble> Trouble(Kind kind, std::string text, int code = 0) {
  return std::unexpected(ContextTrouble{.kind = kind, .text = std::move(text), .cuda_code = code});
}

// ---- the child: the parts of CUDA's driver ABI that it uses ----

using CuResult = int;
using CuDevice = int;
using CuContext = struct CuContextHandle*;
constexpr CuResult kCudaSuccess = 0;
constexpr CuResult kCudaOutOfMemory = 2;         // other processes use it
constexpr CuResult kCudaDeviceUnavailable = 46;  // another process has exclusive use of the GPU
constexpr CuResult kCudaInvalidDevice = 101;
constexpr CuResult kCudaNoSymbol = 500;

// The functions of the library. A function is null if the library lacks it.
struct CudaApi {
  Symbol Named(const char* name) const { return {::dlsym(library, name)}; }
  Symbol Named(const char* name, const char* older) const {
    return ::dlsym(library, name) != nullptr ? Named(name) : Named(older);
  }

  void* library;
  CuResult (*init)(unsigned flags) = Named("cuInit");
  CuResult (*count)(int* devices) = Named("cuDeviceGetCount");
  CuResult (*device)(CuDevice* device, int ordinal) = Named("cuDeviceGet");
  CuResult (*pci)(char* text, int size, CuDevice device) = Named("cuDeviceGetPCIBusId");
  CuResult (*retain)(CuContext* context, CuDevice device) = Named("cuDevicePrimaryCtxRetain");
  CuResult (*release)(CuDevice device) = Named("cuDevicePrimaryCtxRelease_v2",
                                               "cuDevicePrimaryCtxRelease");
  CuResult (*error_text)(CuResult code, const char** text) = Named("cuGetErrorString");
};

// Returns false if the parent is gone. Callers may ignore this; the child notices on its own.
bool Say(std::string_view word, const std::string& rest) {
  const std::string line = fmt::format("{}{}\n", word, base::Printable(rest, kMaxLine / 2));
  return base::WriteAll(STDOUT_FILENO, line).has_value();
}

// Creates a context step by step and reports the error of the first step that fails.
class Making {
 public:
  explicit Making(const CudaApi& api) : api_(api) {}

  bool Make() {
    return Step("cuInit", api_.init, 0U) && OnlyOne() &&
           Step("cuDeviceGet", api_.device, &device_, 0) &&
           Step("cuDevicePrimaryCtxRetain", api_.retain, &context_, device_);
  }
  std::string Pci() const {
    char text[32] = {};
    const bool told = api_.pci != nullptr && api_.pci(text, sizeof text, device_) == kCudaSuccess;
    return told ? std::string(text, ::strnlen(text, sizeof text)) : "-";
  }
  void Release() const {
    if (api_.release != nullptr) (void)api_.release(device_);
  }

 private:
  template <class... Parameters, class... Arguments>
  bool Step(const char* name, CuResult (*function)(Parameters...), Arguments... arguments) {
    if (function == nullptr) return Refuse(name, kCudaNoSymbol, "the library has no such function");
    const CuResult code = function(arguments...);
    if (code == kCudaSuccess) return true;
    const char* text = nullptr;
    if (api_.error_text != nullptr) (void)api_.error_text(code, &text);
    return Refuse(name, code, text != nullptr ? text : "unnamed error");
  }

  // If the library cannot count its GPUs, one GPU is assumed, because only one was made visible.
  bool OnlyOne() {
    int devices = 1;
    if (api_.count == nullptr) return true;
    if (!Step("cuDeviceGetCount", api_.count, &devices)) return false;
    return devices == 1 || Refuse("cuDeviceGetCount", kCudaInvalidDevice,
                                  fmt::format("{} GPUs are visible instead of one", devices));
  }

  static bool Refuse(const char* name, CuResult code, const std::string& text) {
    Say(kRefused, fmt::format("{} {}: {}", code, name, text));
    return false;
  }

  const CudaApi& api_;
  CuDevice device_ = 0;
  CuContext context_ = nullptr;
};

// ---- the parent ----

// An empty folder for the child's MPS pipes and logs. In the default folder, which all users share,
// the child might find an MPS control daemon.
class EmptyFolder {
 public:
  EmptyFolder() {
    std::string pattern = "/tmp/carma-context-XXXXXX";
    if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~EmptyFolder() {
    std::error_code ignored;  // at worst the folder stays in /tmp
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  EmptyFolder(const EmptyFolder&) = delete;
  EmptyFolder& operator=(const EmptyFolder&) = delete;
  std::string path() const { return path_.empty() ? "/nonexistent" : path_; }

 private:
  std::string path_;
};

// This process's environment without the variables that control CUDA, plus the variables for the
// child.
std::vector<std::string> Environment(const std::string& uuid, const std::string& empty_folder) {
  std::vector<std::string> block;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    if (!std::string_view(*each).starts_with("CUDA_")) block.emplace_back(*each);
  }
  block.push_back("CUDA_VISIBLE_DEVICES=" + uuid);
  block.push_back("CUDA_MPS_PIPE_DIRECTORY=" + empty_folder);
  block.push_back("CUDA_MPS_LOG_DIRECTORY=" + empty_folder);
  return block;
}

std::chrono::milliseconds Until(SteadyTime deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds(0));
}

// Children that survived SIGKILL because the driver holds them in the kernel, by GPU.
class Survivors {
 public:
  void Add(const std::string& uuid, pid_t pid) {
    const std::lock_guard lock(mutex_);
    pids_[uuid] = pid;
  }
  // True while the GPU's survivor exists. Reaps it once it has exited.
  bool Has(const std::string& uuid) {
    const std::lock_guard lock(mutex_);
    const auto found = pids_.find(uuid);
    if (found == pids_.end()) return false;
    if (::waitpid(found->second, nullptr, WNOHANG) == 0) return true;
    pids_.erase(found);
    return false;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, pid_t> pids_;
};

// Never destroyed, because a thread that hangs may end its child while the program exits.
Survivors& TheSurvivors() {
  static auto& survivors = *new Survivors;
  return survivors;
}

// A child process that holds a context. The destructor terminates the process.
class Holder {
 public:
  explicit Holder(std::chrono::milliseconds kill_time) : kill_time_(kill_time) {}
  ~Holder() { End(); }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  Tried<Unit> Start(const std::vector<std::string>& words, const std::string& uuid) {
    Result<base::Pipe> input = base::MakePipe();
    Result<base::Pipe> output = base::MakePipe(false);
    if (!input) return Trouble(Kind::kMachine, input.error().message);
    if (!output) return Trouble(Kind::kMachine, output.error().message);
    // The child has its own process group so that Ctrl-C kills only `carma doctor`. The child then
    // exits because its parent is gone.
    auto child = base::Spawn(words, {.files = {input->read.get(), output->write.get(), "/dev/null"},
                                     .environment = Environment(uuid, folder_.path())});
    if (!child) return Trouble(Kind::kMachine, words.front() + ": " + std::strerror(child.error()));
    child_ = std::move(*child);
    uuid_ = uuid;
    input_ = std::move(input->write);
    output_ = std::move(output->read);
    return Unit{};
  }

  // Waits until the child holds a context. Returns the PCI address of the child's GPU, or "-" if it
  // is unknown.
  Tried<std::string> Await(std::chrono::milliseconds patience) {
    const Tried<std::string> line = ReadLine(std::chrono::steady_clock::now() + patience);
    if (!line) {
      if (line.error().kind != Kind::kHung) return line;
      return Trouble(Kind::kHung,
                     fmt::format("the CUDA driver did not create a context within {:g} s",
                                 static_cast<double>(patience.count()) / 1e3));
    }
    const std::string_view text = *line;
    if (text.starts_with(kMade)) {
      holds_ = true;
      return std::string(text.substr(kMade.size()));
    }
    if (text.starts_with(kNoLibrary))
      return Trouble(Kind::kNoLibrary, std::string(text.substr(kNoLibrary.size())));
    if (!text.starts_with(kRefused))
      return Trouble(Kind::kDied, "it said " + base::Printable(text));
    const std::string_view rest = text.substr(kRefused.size());
    const std::size_t blank = std::min(rest.find(' '), rest.size() - 1);
    const auto code = static_cast<int>(base::ParseInt(rest.substr(0, blank)).value_or(0));
    return Trouble(Kind::kRefused,
                   fmt::format("{} (CUDA {})", base::Printable(rest.substr(blank + 1)), code),
                   code);
  }

  pid_t pid() const { return child_.pid; }

 private:
  Tried<std::string> ReadLine(SteadyTime deadline) {
    std::string line;
    for (;;) {
      pollfd waiting{output_.get(), POLLIN, 0};
      const int ready = ::poll(&waiting, 1, static_cast<int>(Until(deadline).count()));
      if (ready == 0) return Trouble(Kind::kHung, "");
      char buffer[256];
      const ssize_t got = ready < 0 ? -1 : ::read(output_.get(), buffer, sizeof buffer);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got <= 0) return Trouble(Kind::kDied, HowItEnded());
      line.append(buffer, static_cast<std::size_t>(got));
      if (const std::size_t end = line.find('\n'); end != std::string::npos)
        return line.substr(0, end);
      if (line.size() > kMaxLine)
        return Trouble(Kind::kDied,
                       "the output of the process that created the context is too long");
    }
  }

  // Describes how the child exited. Call this only once the child's output has ended: by then the
  // child has exited or is about to.
  std::string HowItEnded() {
    constexpr const char* kWords = "the process that created the context ";
    if (!EndsWithin(kill_time_)) return std::string(kWords) + "closed its output";
    int status = 0;
    ::waitpid(std::exchange(child_.pid, 0), &status, 0);
    if (WIFSIGNALED(status)) {
      return fmt::format("{}was killed by signal {} ({})", kWords, WTERMSIG(status),
                         ::strsignal(WTERMSIG(status)));
    }
    return fmt::format("{}exited with code {} and no output", kWords, WEXITSTATUS(status));
  }

  // False if there is no descriptor to watch the child. End() then leaves the child to
  // TheSurvivors(), because waiting for a child that hangs would block forever.
  bool EndsWithin(std::chrono::milliseconds patience) const {
    if (!child_.process) return false;
    pollfd waiting{child_.process.get(), POLLIN, 0};
    const SteadyTime deadline = std::chrono::steady_clock::now() + patience;
    int ready = 0;
    do {
      ready = ::poll(&waiting, 1, static_cast<int>(Until(deadline).count()));
    } while (ready < 0 && errno == EINTR);
    return ready > 0;
  }

  void End() {
    if (child_.pid == 0) return;
    input_.reset();
    if (!EndsWithin(holds_ ? kReleaseTime : std::chrono::milliseconds(0))) {
      ::kill(child_.pid, SIGKILL);
      if (!EndsWithin(kill_time_)) return TheSurvivors().Add(uuid_, child_.pid);
    }
    ::waitpid(std::exchange(child_.pid, 0), nullptr, 0);
  }

  const std::chrono::milliseconds kill_time_;
  std::string uuid_;  // of the child's GPU
  EmptyFolder folder_;
  base::UniqueFd input_;   // closing it makes the child release the context
  base::UniqueFd output_;  // one line
  bool holds_ = false;     // the child holds a context that must be released
  base::Spawned child_;    // pid 0: none, or reaped
};

// Shortens the address to a common form, because CUDA prints fewer domain digits than NVML.
std::string PlainPci(const std::string& pci) {
  const std::string lower = base::ToLower(pci);
  const std::size_t colon = lower.find(':');
  const std::size_t digit = lower.find_first_not_of('0');
  return lower.substr(std::min(colon == std::string::npos ? 0 : colon, digit));
}

// The process's memory according to the driver. Empty if the driver does not list the process.
std::optional<std::int64_t> UseOf(const Reading& reading, pid_t pid) {
  for (const ProcessUse& use : reading.processes) {
    if (use.pid == pid) return use.used_mib;
  }
  return std::nullopt;
}

Tried<ContextCost> Weigh(Probe& probe, std::size_t device, std::int64_t before_mib, pid_t pid,
                         std::chrono::milliseconds settling) {
  base::SystemClock clock;
  std::optional<Reading> last;
  for (int look = 0; look < kLooks; ++look) {
    std::this_thread::sleep_for(settling);
    ReadResult<Reading> reading = probe.Read(device, clock.Now());
    if (!reading) return Trouble(Kind::kUnclear, base::Printable(reading.error().Sentence()));
    if (const auto mib = UseOf(*reading, pid)) return ContextCost{.mib = *mib, .of_process = true};
    last = std::move(*reading);
  }
  const bool others =
      std::ranges::any_of(last->processes, [pid](const ProcessUse& use) { return use.pid != pid; });
  if (others) return Trouble(Kind::kUnclear, "another process has started on the GPU");
  const std::int64_t grown_mib = last->used_mib - before_mib;
  if (grown_mib > 0) return ContextCost{.mib = grown_mib, .of_process = false};
  return Trouble(Kind::kUnclear,
                 "the driver reports no memory for the process that holds the context");
}

}  // namespace

int HoldContext() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  void* const library = ::dlopen(kCudaLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    Say(kNoLibrary, why != nullptr ? why : kCudaLibrary);
    return 1;
  }
  const CudaApi api{library};
  Making making(api);
  if (!making.Make()) return 1;
  if (!Say(kMade, making.Pci())) return 1;
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR) {
  }
  making.Release();
  return 0;
}

std::string ContextObstacle(const DeviceInfo& info, const ReadResult<Reading>& reading) {
  if (!info.trouble.empty()) return base::Printable(info.trouble.Sentence());
  if (!reading) return base::Printable(reading.error().Sentence());
  const Condition& condition = reading->condition;
  const ComputeMode mode = condition.compute_mode.value_or(ComputeMode::kDefault);
  if (mode == ComputeMode::kProhibited) return "its compute mode is PROHIBITED";
  if (mode != ComputeMode::kDefault)
    return "its compute mode is EXCLUSIVE: a task that starts in the meantime would fail";
  if (condition.recovery.value_or(RecoveryAction::kNone) != RecoveryAction::kNone)
    return "the driver requests recovery of this GPU";
  if (!reading->processes.empty()) return "it is in use";
  if (reading->used_mib > kIdleMib)
    return base::FormatMib(reading->used_mib) +
           " of memory is in use, but not by any listed process";
  return "";
}

std::expected<ContextCost, ContextTrouble> MeasureContext(Probe& probe, std::size_t device,
                                                          const DeviceInfo& info,
                                                          const ContextOptions& options) {
  base::SystemClock clock;
  const ReadResult<Reading> before = probe.Read(device, clock.Now());
  if (std::string obstacle = ContextObstacle(info, before); !obstacle.empty())
    return Trouble(Kind::kUnclear, std::move(obstacle));
  Holder holder(options.kill_time);
  CARMA_TRY(holder.Start(options.holder, info.uuid));
  const std::string pci = CARMA_TRY(holder.Await(options.patience));
  if (pci != "-" && !info.pci.empty() && PlainPci(pci) != PlainPci(info.pci)) {
    return Trouble(Kind::kUnclear, fmt::format("CUDA used the GPU at {} instead of the one at {}",
                                               base::Printable(pci, 40), info.pci));
  }
  return Weigh(probe, device, before->used_mib, holder.pid(), options.settling);
}

std::optional<ContextTrouble> TryContext(const std::string& uuid, const ContextOptions& options) {
  if (TheSurvivors().Has(uuid))
    return ContextTrouble{.kind = Kind::kHung,
                          .text = "the CUDA driver still holds the process of an earlier test"};
  Holder holder(options.kill_time);
  if (!holder.Start(options.holder, uuid)) return std::nullopt;
  const Tried<std::string> made = holder.Await(options.patience);
  if (made) return std::nullopt;
  const ContextTrouble& trouble = made.error();
  const bool tells =
      trouble.kind == Kind::kHung || trouble.kind == Kind::kDied ||
      (trouble.kind == Kind::kRefused && trouble.cuda_code != kCudaOutOfMemory &&
       trouble.cuda_code != kCudaDeviceUnavailable && trouble.cuda_code != kCudaNoSymbol);
  return tells ? std::optional(trouble) : std::nullopt;
}

}  // namespace carma::gpu
