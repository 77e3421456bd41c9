#include "task/shim/srun.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>
#include <string_view>

#include "base/host.h"
#include "base/process_id.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/try.h"
#include "task/describe/option_values.h"
#include "task/describe/slurm.h"
#include "task/describe/spec.h"
#include "task/shim/environment.h"

namespace carma::task {
namespace {

using Variables = std::map<std::string, std::string>;

constexpr int kMostTasks = 1024;
constexpr int kCannotRun = 127;
constexpr useconds_t kAskAgainUs = 200'000;

Result<int> CountOf(std::string_view option, std::string_view text) {
  const std::optional<std::int64_t> count = base::ParseInt(text);
  if (!count || *count < 1 || *count > kMostTasks) {
    return Invalid("{}: expected a number from 1 to {}, not '{}'", option, kMostTasks,
                   base::Printable(text, 40));
  }
  return static_cast<int>(*count);
}

int GpusOfTask(const SrunPlan& plan) {
  return std::max(1, static_cast<int>(plan.gpus.size()));
}

// Parses "none", "single:2", "per_task:1" or "map_gpu:0,1,2". Returns nothing for other forms,
// which choose the closest GPUs and do not change which GPUs are visible.
Result<std::optional<GpuBinding>> ReadBinding(std::string_view text) {
  if (text.starts_with("verbose,")) text.remove_prefix(8);
  if (text == "none") return GpuBinding{};
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const std::string_view rest = colon == text.npos ? "1" : text.substr(colon + 1);
  if (kind == "map_gpu") {
    GpuBinding binding;
    for (const std::string_view piece : base::Split(rest, ',')) {
      const auto index = base::ParseInt(piece);
      if (!index || *index < 0 || *index >= core::kMaxGpus)
        return Invalid("--gpu-bind=map_gpu: expected GPU numbers such as 0,1");
      binding.map.push_back(static_cast<int>(*index));
    }
    return binding;
  }
  if (kind != "single" && kind != "per_task") return std::nullopt;
  const int count = CARMA_TRY(CountOf("--gpu-bind", rest));
  return kind == "single" ? GpuBinding{.gpus = 1, .processes = count} : GpuBinding{.gpus = count};
}

class Reader {
 public:
  explicit Reader(const std::vector<std::string>& words) : words_(words) {}

  Result<SrunPlan> Run(SrunPlan plan) {
    plan_ = std::move(plan);
    while (at_ < words_.size() && words_[at_].starts_with('-') && words_[at_] != "-") {
      if (words_[at_] == "--") {
        ++at_;
        break;
      }
      CARMA_TRY(Take(words_[at_++]));
    }
    plan_.command.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
    if (plan_.command.empty()) return Invalid("expected a program to run");
    return std::move(plan_);
  }

 private:
  Result<std::string> Value(std::string_view option, const std::optional<std::string>& attached) {
    if (attached) return *attached;
    if (at_ < words_.size()) return words_[at_++];
    return Invalid("{}: expected a value", option);
  }

  Result<Unit> Take(const std::string& word) {
    const std::optional<OptionWord> option = TakeApart(word);
    if (!option) return Invalid("unknown option " + base::Printable(word, 60));
    const std::string& name = option->name;
    const std::optional<std::string>& attached = option->value;
    const auto is = [&](std::string_view longer, char letter) {
      return name == longer || (letter != 0 && name.size() == 1 && name[0] == letter);
    };
    const auto into = [&](std::string& text) -> Result<Unit> {
      text = CARMA_TRY(Value(word, attached));
      return Unit{};
    };
    if (is("output", 'o')) return into(plan_.output);
    if (is("error", 'e')) return into(plan_.error);
    if (is("chdir", 'D')) return into(plan_.chdir);
    if (is("kill-on-bad-exit", 'K')) return plan_.kill_on_bad_exit = attached != "0", Unit{};
    if (is("gpu-bind", 0)) {
      std::string bind;
      CARMA_TRY(into(bind));
      return Bind(bind);
    }
    if (is("gpus", 'G') || is("gpus-per-node", 0) || is("gres", 0)) {
      std::string text;
      CARMA_TRY(into(text));
      const GpuCount count =
          CARMA_TRY(base::Wrap(name == "gres" ? ParseGres(text) : ParseGpus(text), word));
      if (count.counted) plan_.step_gpus = count.gpus;
      return Unit{};
    }
    if (is("ntasks", 'n') || is("nodes", 'N') || is("cpus-per-task", 'c') ||
        is("gpus-per-task", 0) || is("ntasks-per-node", 0) || is("ntasks-per-gpu", 0))
      return TakeCount(name, word, attached);
    return PassOver(word, name, attached);
  }

  Result<Unit> TakeCount(const std::string& name, const std::string& word,
                         const std::optional<std::string>& attached) {
    const std::string text = CARMA_TRY(Value(word, attached));
    const std::string_view least = std::string_view(text).substr(0, text.find('-'));
    const int count = CARMA_TRY(CountOf(word, least));
    if (name == "nodes" || name == "N") {
      if (count > 1) return Invalid(word + ": this is a single server; expected 1");
    } else if (name == "cpus-per-task" || name == "c") {
      plan_.cpus = count;
    } else if (name == "gpus-per-task") {
      plan_.binding = {.gpus = count, .counts = true};
    } else if (name == "ntasks-per-gpu") {
      plan_.binding = {.gpus = 1, .processes = count, .counts = true};
      if (!counted_) plan_.ntasks = count * GpusOfTask(plan_);
    } else if (name != "ntasks-per-node" || !counted_) {
      plan_.ntasks = count;
      counted_ = name != "ntasks-per-node";
    }
    return Unit{};
  }

  Result<Unit> Bind(std::string_view text) {
    const std::optional<GpuBinding> binding = CARMA_TRY(ReadBinding(text));
    if (binding) plan_.binding = *binding;
    return Unit{};
  }

  Result<Unit> PassOver(const std::string& word, const std::string& name,
                        const std::optional<std::string>& attached) {
    const SlurmOption* known = FindSrunOption(name);
    if (known == nullptr) return Invalid("unknown option " + base::Printable(word, 60));
    if (!known->takes_value) return Unit{};
    CARMA_TRY(Value(word, attached));
    return Unit{};
  }

  const std::vector<std::string>& words_;
  std::size_t at_ = 0;
  bool counted_ = false;  // --ntasks was given, so it overrides --ntasks-per-node
  SrunPlan plan_;
};

// ---- running ----

// Signals that terminate a script or warn that it will be terminated, plus SIGCONT.
constexpr std::array kPassedOn{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT};

// SIGCHLD and the signals in kPassedOn. srun blocks these signals and receives them with
// sigwaitinfo(), so that none arrives before a new copy is in the list of copies, and none is
// forwarded to a reused PID.
sigset_t WaitedFor() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGCHLD);
  for (const int signal : kPassedOn) ::sigaddset(&signals, signal);
  return signals;
}

void Tell(const std::set<pid_t>& copies, int signal) {
  for (const pid_t copy : copies) ::kill(copy, signal);
}

std::string PathFor(const std::string& pattern, int rank, const Variables& environment) {
  TaskSpec spec;
  spec.name = Lookup(environment, "SLURM_JOB_NAME");
  spec.array_index = base::ParseInt(Lookup(environment, "SLURM_ARRAY_TASK_ID"));
  const auto number = [&](const std::string& name) {
    return core::TaskId(
        static_cast<std::uint64_t>(base::ParseInt(Lookup(environment, name)).value_or(0)));
  };
  return ExpandPath(pattern, spec,
                    {.id = number("SLURM_JOB_ID"),
                     .array = number("SLURM_ARRAY_JOB_ID"),
                     .user = Lookup(environment, "SLURM_JOB_USER"),
                     .host = base::ShortHostName(),
                     .rank = rank});
}

// Opens the file in append mode, because several copies may share it. The file was truncated before
// the first copy started.
void Redirect(const std::string& path, int descriptor) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0 || ::dup2(file, descriptor) < 0) {
    std::fprintf(stderr, "srun: %s: %s\n", path.c_str(), std::strerror(errno));
    ::_exit(kCannotRun);
  }
}

void EmptyFiles(const SrunPlan& plan, const Variables& environment) {
  for (int rank = 0; rank < plan.ntasks; ++rank) {
    for (const std::string& pattern : {plan.output, plan.error}) {
      if (pattern.empty()) continue;
      const std::filesystem::path path = PathFor(pattern, rank, environment);
      // Errors are ignored: a missing file is created later, and a device cannot be truncated.
      (void)::truncate((std::filesystem::path(plan.chdir) / path).c_str(), 0);
    }
  }
}

[[noreturn]] void Become(const SrunPlan& plan, int rank, const Variables& environment) {
  for (const auto& [name, value] : SrunVariables(plan, rank, environment))
    ::setenv(name.c_str(), value.c_str(), 1);
  ::setenv("SLURM_TASK_PID", std::to_string(::getpid()).c_str(), 1);
  if (!plan.chdir.empty() && ::chdir(plan.chdir.c_str()) != 0) {
    std::fprintf(stderr, "srun: %s: %s\n", plan.chdir.c_str(), std::strerror(errno));
    ::_exit(kCannotRun);
  }
  if (rank > 0) {
    if (const int null = ::open("/dev/null", O_RDONLY); null >= 0) ::dup2(null, STDIN_FILENO);
  }
  if (!plan.output.empty()) {
    Redirect(PathFor(plan.output, rank, environment), STDOUT_FILENO);
    if (plan.error.empty()) ::dup2(STDOUT_FILENO, STDERR_FILENO);
  }
  if (!plan.error.empty()) Redirect(PathFor(plan.error, rank, environment), STDERR_FILENO);
  const char* program = plan.command.front().c_str();
  ::execvp(program, base::Argv(plan.command).data());
  std::fprintf(stderr, "srun: %s: %s\n", program, std::strerror(errno));
  ::_exit(kCannotRun);
}

// Reserves a name that only one process on this machine can hold at a time. The name is released
// when that process exits. Returns empty if another process holds it.
base::UniqueFd TakeName(std::string_view name) {
  base::UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;  // an abstract address begins with a NUL and needs no file
  name = name.substr(0, sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) socket.reset();
  return socket;
}

int CodeOf(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

Result<SrunPlan> PlanSrun(const std::vector<std::string>& arguments, const Variables& environment) {
  SrunPlan plan;
  const std::string visible = Lookup(environment, "CUDA_VISIBLE_DEVICES");
  if (!visible.empty()) {
    for (const std::string_view gpu : base::Split(visible, ',')) plan.gpus.emplace_back(gpu);
  }
  // As in Slurm, --ntasks overrides --ntasks-per-node.
  for (const char* name : {"SLURM_NTASKS_PER_NODE", "SLURM_NTASKS"}) {
    const std::string ntasks = Lookup(environment, name);
    if (ntasks.empty()) continue;
    plan.ntasks = CARMA_TRY(CountOf(name, ntasks));
  }
  if (const auto on_each = base::ParseInt(Lookup(environment, "SLURM_NTASKS_PER_GPU"));
      on_each && *on_each > 0 && *on_each <= kMostTasks)
    plan.binding = {.gpus = 1, .processes = static_cast<int>(*on_each), .counts = true};
  if (const auto each = base::ParseInt(Lookup(environment, "SLURM_GPUS_PER_TASK"));
      each && *each > 0 && *each <= core::kMaxGpus)
    plan.binding = {.gpus = static_cast<int>(*each), .counts = true};
  if (const auto bound = ReadBinding(Lookup(environment, "SLURM_GPU_BIND")); bound && *bound)
    plan.binding = **bound;
  Result<SrunPlan> read = Reader(arguments).Run(std::move(plan));
  if (read && !read->step_gpus && read->binding.counts) {
    const GpuBinding& binding = read->binding;
    read->step_gpus = ((read->ntasks - 1) / binding.processes + 1) * binding.gpus;
  }
  return read;
}

std::vector<base::UniqueFd> TakeGpus(SrunPlan& plan, const Variables& environment) {
  std::vector<base::UniqueFd> held;
  if (!plan.step_gpus || *plan.step_gpus >= static_cast<int>(plan.gpus.size())) return held;
  const auto wanted = static_cast<std::size_t>(*plan.step_gpus);
  const std::string task = Lookup(environment, "SLURM_JOB_ID");
  for (bool waited = false;; waited = true) {
    std::vector<std::string> own;
    for (const std::string& gpu : plan.gpus) {
      if (own.size() == wanted) break;
      base::UniqueFd name = TakeName(fmt::format("carma-step.{}.{}", task, gpu));
      if (!name) continue;
      held.push_back(std::move(name));
      own.push_back(gpu);
    }
    if (own.size() == wanted) {
      plan.gpus = std::move(own);
      return held;
    }
    held.clear();  // all or nothing; otherwise two steps could wait for each other
    if (!waited)
      std::fputs("srun (CARMA's): waiting for GPUs that other steps are using\n", stderr);
    ::usleep(kAskAgainUs);
  }
}

Variables SrunVariables(const SrunPlan& plan, int rank, const Variables& environment) {
  const std::string count = std::to_string(plan.ntasks), number = std::to_string(rank);
  Variables variables{{"SLURM_NTASKS", count},         {"SLURM_NPROCS", count},
                      {"SLURM_STEP_NUM_TASKS", count}, {"SLURM_STEP_TASKS_PER_NODE", count},
                      {"SLURM_TASKS_PER_NODE", count}, {"SLURM_STEP_NUM_NODES", "1"},
                      {"SLURM_STEP_ID", "0"},          {"SLURM_STEPID", "0"},
                      {"SLURM_PROCID", number},        {"SLURM_LOCALID", number},
                      {"SLURM_NODEID", "0"},           {"SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1"}};
  variables["SLURM_STEP_NODELIST"] = Lookup(environment, "SLURM_JOB_NODELIST");
  const GpuBinding& binding = plan.binding;
  if (plan.cpus) variables["SLURM_CPUS_PER_TASK"] = std::to_string(*plan.cpus);
  if (plan.step_gpus) variables["CUDA_VISIBLE_DEVICES"] = base::Join(plan.gpus, ",");
  if (plan.gpus.empty()) return variables;
  variables["SLURM_GPUS_ON_NODE"] = std::to_string(plan.gpus.size());
  variables["SLURM_STEP_GPUS"] = base::Join(plan.gpus, ",");
  std::vector<std::string> own;
  if (!binding.map.empty()) {
    const int index = binding.map[static_cast<std::size_t>(rank) % binding.map.size()];
    own.push_back(plan.gpus[static_cast<std::size_t>(index) % plan.gpus.size()]);
  }
  for (int i = 0; i < binding.gpus; ++i) {
    const int index = rank / binding.processes * binding.gpus + i;
    own.push_back(plan.gpus[static_cast<std::size_t>(index) % plan.gpus.size()]);
  }
  if (!own.empty())
    variables["CUDA_VISIBLE_DEVICES"] = variables["SLURM_STEP_GPUS"] = base::Join(own, ",");
  return variables;
}

int RunSrun(const SrunPlan& plan, const Variables& environment) {
  const sigset_t waited_for = WaitedFor();
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &waited_for, &before);
  std::set<pid_t> copies;
  // Does not forward signals from the shim, which has already sent them to every process of the
  // task. The shim is the parent of the session's first process.
  const std::optional<base::ProcessStat> session = base::ReadProcessStat(::getsid(0));
  const pid_t shim = session ? session->parent : -1;
  int worst = 0;
  EmptyFiles(plan, environment);
  for (int rank = 0; rank < plan.ntasks && worst == 0; ++rank) {
    const pid_t copy = ::fork();
    if (copy == 0) {
      ::sigprocmask(SIG_SETMASK, &before, nullptr);
      Become(plan, rank, environment);
    }
    if (copy > 0) {
      copies.insert(copy);
    } else {
      std::fprintf(stderr, "srun: copy %d: %s\n", rank, std::strerror(errno));
      worst = 1;
      Tell(copies, SIGTERM);
    }
  }
  while (!copies.empty()) {
    siginfo_t info{};
    const int signal = ::sigwaitinfo(&waited_for, &info);
    if (signal > 0 && signal != SIGCHLD && info.si_pid != shim) Tell(copies, signal);
    int status = 0;
    for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (copies.erase(ended) == 0) continue;
      worst = std::max(worst, CodeOf(status));
      if (plan.kill_on_bad_exit && CodeOf(status) != 0) Tell(copies, SIGTERM);
    }
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return worst;
}

}  // namespace carma::task
