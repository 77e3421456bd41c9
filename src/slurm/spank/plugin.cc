// spank_carma.so: gives a Slurm job step the GPUs that the node's carmad assigns to it.
//
//   srun, sbatch, salloc   read and check the options
//   slurmstepd, as root    requests a lease once per step; reports how the step ended
//   a task, as the user    waits for the lease, so that scancel can end it, and adopts the lease
//
// A step without options does nothing, unless its job's script has a lease, which the step then
// shares. A step that requests a lease and gets none fails and prints the reason to its standard
// error.
extern "C" {
#include <slurm/slurm.h>
#include <slurm/spank.h>
}
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "slurm/spank/http.h"
#include "slurm/spank/lease.h"
#include "slurm/spank/tail.h"
#include "slurm/spank/words.h"

#define CARMA_EXPORT extern "C" __attribute__((visibility("default")))

CARMA_EXPORT const char plugin_name[];
CARMA_EXPORT const char plugin_type[];
CARMA_EXPORT const unsigned int plugin_version;
CARMA_EXPORT const unsigned int spank_plugin_version;
const char plugin_name[] = "carma";
const char plugin_type[] = "spank";
const unsigned int plugin_version = SLURM_VERSION_NUMBER;
const unsigned int spank_plugin_version = 1;

namespace carma::slurm {
namespace {

constexpr int kQuietS = 5;  // delay before the user is shown why the step waits
constexpr int kPollS = 30;
constexpr int kVerdictS = 10;  // how long a failed script waits for its requeue
constexpr int kAwayS = 600;    // how long carmad may be away
constexpr int kFailed = -1;    // Slurm ignores errors above 0, including those of spank.h
constexpr std::uint32_t kMaxFiles = 64;
// Environment variable that marks the steps of a job whose script has a lease. Its value is the job
// id, such as "4711".
constexpr char kJobVariable[] = "CARMA_LEASE_JOB";
// The process name while waiting. Slurm's process trackers ignore processes named like slurmstepd.
constexpr char kWaits[] = "carma-wait";

struct Arguments {
  std::string socket = "/run/carma/carmad.sock";
  std::string cluster = "slurm";
  std::int64_t wait_min = 0;  // longest wait for a lease; 0: as long as the job may run
};

Arguments arguments;
Wanted wanted;
bool used = false;           // at least one option was given
std::string option_trouble;  // about an invalid option; makes the step fail on its node

// Data that a task's process shares with slurmstepd.
struct Shared {
  OpenFile errors[kMaxFiles], outputs[kMaxFiles];  // of each task
  volatile bool adopted;                           // at least one task has its GPUs
};

// State of the step, set by slurmstepd before it forks the tasks.
struct State {
  std::string node;
  std::string socket;
  Step step;
  std::int64_t lease = 0;
  bool joined = false;  // the step uses the lease of the job's script
  std::string trouble;  // why there is no lease
  Shared* shared = nullptr;
  std::uint32_t tasks = 0, ended = 0;
  Ending ending;
};
State* state = nullptr;  // null: the step does not use carmad

// ---- arguments and options ----

bool TakeArgument(std::string_view text) {
  const std::size_t sign = text.find('=');
  const std::string_view name = text.substr(0, sign);
  const std::string_view value = sign == std::string_view::npos ? "" : text.substr(sign + 1);
  if (name == "socket" && !value.empty() && value.front() == '/') {
    arguments.socket = value;
  } else if (name == "cluster" && !value.empty()) {
    arguments.cluster = value;
  } else if (const auto minutes = Whole(value, 0, 525'600); name == "wait" && minutes) {
    arguments.wait_min = *minutes;
  } else {
    slurm_error("carma: plugstack.conf: '%s': expected socket=PATH, cluster=NAME or wait=MINUTES",
                std::string(text).c_str());
    return false;
  }
  return true;
}

enum Option { kMemory = 1, kGpus, kExclusive, kSmShare, kSummary, kBatchSize, kRetries };

int TakeOption(int option, const char* text, int) {
  const std::string_view value = text == nullptr ? "" : text;
  used = true;
  const auto take = [&](auto& target, const auto& read, const char* name, const char* expected) {
    if (read) {
      target = *read;
      return 0;
    }
    option_trouble =
        std::string("--carma-") + name + " '" + OneLine(value, 80) + "': expected " + expected;
    slurm_error("carma: %s", option_trouble.c_str());
    return kFailed;
  };
  constexpr std::int64_t kMostBatch = 1'000'000'000;
  switch (option) {
    case kMemory:
      return take(wanted.memory_mib, MemoryMib(value), "mem", "GPU memory such as 12G or 800M");
    case kGpus:
      return take(wanted.gpus, Whole(value, 1, 1024), "gpus", "a number of GPUs from 1 to 1024");
    case kSmShare:
      return take(wanted.sm_share, Share(value), "sm-share", "a share from 1% to 100%");
    case kBatchSize:
      return take(wanted.batch_size, Whole(value, 1, kMostBatch), "batch-size",
                  "a number from 1 to 1000000000");
    case kRetries:
      return take(wanted.retries, Whole(value, 0, 1000), "retries", "a number from 0 to 1000");
    case kSummary:
      return take(wanted.summary, value.empty() ? std::optional<std::string>() : std::string(value),
                  "summary", "the path of a model summary");
    default:
      wanted.exclusive = true;
      return 0;
  }
}

spank_option OptionOf(Option option, const char* name, const char* value, const char* usage) {
  const auto text = [](const char* words) { return const_cast<char*>(words); };
  return {text(name), text(value), text(usage), value != nullptr, option, TakeOption};
}

spank_option options[] = {
    OptionOf(kMemory, "carma-mem", "SIZE",
             "GPU memory that the job needs on each GPU, such as 12G; CARMA assigns the GPUs"),
    OptionOf(kGpus, "carma-gpus", "N",
             "number of GPUs that CARMA assigns to the job on its node (default 1)"),
    OptionOf(kExclusive, "carma-exclusive", nullptr, "give the job exclusive use of its GPUs"),
    OptionOf(kSmShare, "carma-sm-share", "SHARE",
             "limit the job to this share of each GPU's multiprocessors, such as 30%"),
    OptionOf(kSummary, "carma-summary", "FILE",
             "summary of the job's model, used to estimate GPU memory"),
    OptionOf(kBatchSize, "carma-batch-size", "N", "batch size for the --carma-summary estimate"),
    OptionOf(kRetries, "carma-retries", "N",
             "number of restarts after running out of GPU memory (default 3)"),
};

// Slurm passes a job's options to srun in the environment of the job's processes. sbatch and salloc
// must not pass these options on to another job.
void ForgetInherited() {
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view name =
        std::string_view(*variable).substr(0, std::strcspn(*variable, "="));
    if (name.find("SLURM_SPANK_OPTION_carma_") != name.npos) names.emplace_back(name);
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

// ---- the step ----

std::string Variable(spank_t spank, const char* name) {
  char value[4096] = "";
  if (spank_getenv(spank, name, value, sizeof value) != ESPANK_SUCCESS) return "";
  return value;
}

std::string NodeName(spank_t spank) {
  if (const char* name = std::getenv("SLURMD_NODENAME"); name != nullptr) return name;
  if (const std::string name = Variable(spank, "SLURMD_NODENAME"); !name.empty()) return name;
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return host;
}

std::string StepName(std::uint32_t number) {
  if (number == SLURM_BATCH_SCRIPT) return "batch";
  if (number == SLURM_INTERACTIVE_STEP) return "interactive";
  return std::to_string(number);
}

std::uint32_t RestartOf(spank_t spank) {
  std::uint32_t count = 0;
  // S_SLURM_RESTART_COUNT is always 0 in batch steps, so the environment is checked first.
  if (const auto told = Whole(Variable(spank, "SLURM_RESTART_COUNT"), 0, 1'000'000))
    return static_cast<std::uint32_t>(*told);
  if (spank_get_item(spank, S_SLURM_RESTART_COUNT, &count) != ESPANK_SUCCESS) return 0;
  return count;
}

Step ReadStep(spank_t spank, std::uint32_t number) {
  Step step;
  step.cluster = arguments.cluster;
  step.name = StepName(number);
  spank_get_item(spank, S_JOB_ID, &step.job);
  spank_get_item(spank, S_JOB_UID, &step.uid);
  spank_get_item(spank, S_JOB_GID, &step.gid);
  spank_get_item(spank, S_JOB_NODEID, &step.rank);
  gid_t* groups = nullptr;
  int group_count = 0;
  if (spank_get_item(spank, S_JOB_SUPPLEMENTARY_GIDS, &groups, &group_count) == ESPANK_SUCCESS)
    step.groups.assign(groups, groups + std::max(group_count, 0));
  step.restart = RestartOf(spank);
  step.keeper = ::getpid();
  step.job_name = Variable(spank, "SLURM_JOB_NAME");
  if (step.job_name.empty()) step.job_name = "job-" + std::to_string(step.job);
  int count = 0;
  char** words = nullptr;
  const bool has_words =
      step.name != "batch" && spank_get_item(spank, S_JOB_ARGV, &count, &words) == ESPANK_SUCCESS;
  for (int i = 0; has_words && i < count && words[i] != nullptr; ++i)
    step.command.emplace_back(words[i]);
  step.folder = AbsolutePath(Variable(spank, "SLURM_SUBMIT_DIR"), "").value_or("/");
  return step;
}

std::uint32_t NodesOf(spank_t spank, const Step& step) {
  if (step.name == "batch" || step.name == "interactive") {
    const auto told = Whole(Variable(spank, "SLURM_JOB_NUM_NODES"), 1, 1'000'000);
    return told ? static_cast<std::uint32_t>(*told) : 1;
  }
  std::uint32_t nodes = 1;
  spank_get_item(spank, S_JOB_NNODES, &nodes);
  return nodes;
}

void ShareMemory(spank_t spank) {
  spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &state->tasks);
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) state->shared = static_cast<Shared*>(memory);
}

void AskForLease(spank_t spank) {
  state->trouble = option_trouble;
  if (!state->trouble.empty()) return;
  if (NodesOf(spank, state->step) > 1 && !wanted.exclusive) {
    state->trouble =
        "a multi-node job cannot share GPUs: use --carma-exclusive, or one node (--nodes=1)";
    return;
  }
  if (!wanted.summary.empty())
    wanted.summary = AbsolutePath(wanted.summary, state->step.folder).value_or(wanted.summary);
  const Standing standing = Carmad(state->socket).Ask(state->step, wanted, kRestartS);
  state->lease = standing.id;
  state->joined = standing.step != state->step.name;
  state->trouble = standing.trouble;
}

// ---- a task ----

int Refuse(const std::string& why) {
  ::dprintf(STDERR_FILENO, "carma: no GPUs for job %u on %s: %s\n", state->step.job,
            state->node.c_str(), OneLine(why, 1000).c_str());
  return kFailed;
}

// The last lines of the task's output. First come those of files that carmad saw the task's
// processes write to, as in `prog > log 2>&1` or `srun --error=file prog`, then those of stdout and
// stderr.
std::string LastWords(std::uint32_t task) {
  constexpr std::size_t kMostFiles = 4, kMostOfFile = 8 << 10;
  std::vector<OpenFile> files;
  const Standing now = Carmad(state->socket).Await(state->lease, 0);
  const std::size_t first = now.outputs.size() > kMostFiles ? now.outputs.size() - kMostFiles : 0;
  for (std::size_t i = first; i < now.outputs.size(); ++i) files.push_back(FileOf(now.outputs[i]));
  if (state->shared != nullptr) {
    files.push_back(state->shared->outputs[task]);
    files.push_back(state->shared->errors[task]);
  }
  std::string words;
  for (auto file = files.begin(); file != files.end(); ++file) {
    const auto is_same = [&](const OpenFile& other) {
      return std::strcmp(other.path, file->path) == 0;
    };
    if (std::any_of(file + 1, files.end(), is_same)) continue;
    const std::string tail = TailOf(*file, state->step.uid, state->step.gid, state->step.groups);
    const bool last = file + 1 == files.end();
    words += tail.substr(last || tail.size() < kMostOfFile ? 0 : tail.size() - kMostOfFile);
  }
  return words;
}

// Since Slurm 24.11, slurmstepd has signal handlers, which its child inherits and keeps until it
// calls exec. With these handlers, a waiting child would survive scancel, and scontrol suspend
// would not stop it.
void RestoreSignals() {
  for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGTSTP})
    ::signal(number, SIG_DFL);
}

// Waits for the lease. Returns an empty string once it is granted, otherwise the reason why it was
// not.
std::string AwaitGrant(const Carmad& carmad) {
  const std::int64_t started = MonotonicMs();
  std::int64_t away_ms = 0;
  int poll_s = kQuietS;
  for (;;) {
    const std::int64_t asked = MonotonicMs();
    const Standing now = carmad.Await(state->lease, poll_s);
    if (now.id != 0) {
      away_ms = 0;
      if (now.state == "granted" || now.state == "adopted") return "";
      if (now.state == "ended") return "(" + now.reason + ") " + now.reason_text;
      if (poll_s == kQuietS) {
        ::dprintf(STDERR_FILENO, "carma: job %u is waiting for GPUs on %s: (%s) %s\n",
                  state->step.job, state->node.c_str(), now.reason.c_str(),
                  now.reason_text.c_str());
      }
      poll_s = kPollS;
    } else if (!now.away || away_ms >= kAwayS * 1000) {
      return now.trouble;
    } else {
      ::poll(nullptr, 0, 1000);
      // The job may have been suspended since the request, so at most one polling period is
      // counted.
      away_ms += std::min<std::int64_t>(MonotonicMs() - asked, kPollS * 1000);
    }
    if (arguments.wait_min > 0 && MonotonicMs() - started >= arguments.wait_min * 60'000)
      return "none became free within " + std::to_string(arguments.wait_min) + " min";
  }
}

int TakeLease(spank_t spank) {
  const Carmad carmad(state->socket);
  for (const std::int64_t started = MonotonicMs();;) {
    if (const std::string why = AwaitGrant(carmad); !why.empty()) return Refuse(why);
    Standing standing;
    const auto environment = carmad.Adopt(state->lease, standing);
    for (const auto& [name, value] : environment) {
      if (spank_setenv(spank, name.c_str(), value.c_str(), 1) != ESPANK_SUCCESS)
        return Refuse("the variable " + name + " cannot be set");
    }
    if (!environment.empty()) {
      spank_setenv(spank, kJobVariable, std::to_string(state->step.job).c_str(), 1);
      if (state->shared != nullptr) state->shared->adopted = true;
      return 0;
    }
    // The job did not adopt its lease in time, perhaps because it was suspended. It waits until the
    // lease is granted again.
    const bool again = !standing.away && carmad.Await(state->lease, 0).state == "waiting";
    const bool late = MonotonicMs() - started >= kAwayS * std::int64_t{1000};
    if (!again && (!standing.away || late)) return Refuse(standing.trouble);
    ::poll(nullptr, 0, 1000);
  }
}

}  // namespace
}  // namespace carma::slurm

using namespace carma::slurm;

// The version of the Slurm headers used for the build. `carma slurm check` searches the file for
// this string.
CARMA_EXPORT const char carma_slurm_release[];
const char carma_slurm_release[] = "carma for Slurm " CARMA_SLURM_RELEASE;

CARMA_EXPORT int slurm_spank_init(spank_t spank, int count, char** texts) {
  const spank_context_t context = spank_context();
  if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE)
    return ESPANK_SUCCESS;
  for (int i = 0; i < count; ++i) {
    if (!TakeArgument(texts[i])) return kFailed;
  }
  if (context == S_CTX_ALLOCATOR) ForgetInherited();
  for (spank_option& option : options) {
    if (spank_option_register(spank, &option) != ESPANK_SUCCESS) return kFailed;
  }
  return ESPANK_SUCCESS;
}

CARMA_EXPORT int slurm_spank_init_post_opt(spank_t spank, int, char**) {
  if (spank_context() != S_CTX_REMOTE) return ESPANK_SUCCESS;
  std::uint32_t number = 0;
  if (spank_get_item(spank, S_JOB_STEPID, &number) != ESPANK_SUCCESS || number == SLURM_EXTERN_CONT)
    return ESPANK_SUCCESS;
  // The steps of a job with a lease share that lease, even if they were started from outside the
  // job.
  const bool script = number == SLURM_BATCH_SCRIPT || number == SLURM_INTERACTIVE_STEP;
  if (!used && script && Variable(spank, "CARMA_TASK_ID").empty()) return ESPANK_SUCCESS;
  state = new State;
  state->node = NodeName(spank);
  state->socket = WithNode(arguments.socket, state->node);
  state->step = ReadStep(spank, number);
  // If the job's script has a lease, this node has a carmad, which may be restarting. Otherwise the
  // node may have none, and waiting would be pointless.
  const bool certain = Variable(spank, kJobVariable) == std::to_string(state->step.job);
  if (!used && !Carmad(state->socket).HasBase(state->step.job, certain ? kRestartS : 0)) {
    state = nullptr;
    return ESPANK_SUCCESS;
  }
  ShareMemory(spank);
  AskForLease(spank);
  return ESPANK_SUCCESS;
}

CARMA_EXPORT int slurm_spank_task_init(spank_t spank, int, char**) {
  if (state == nullptr) return ESPANK_SUCCESS;
  if (state->lease == 0) return Refuse(state->trouble);
  int task = 0;
  if (state->shared != nullptr && spank_get_item(spank, S_TASK_ID, &task) == ESPANK_SUCCESS &&
      task >= 0 && static_cast<std::uint32_t>(task) < kMaxFiles) {
    NoteOpenFile(STDERR_FILENO, state->shared->errors[task]);
    NoteOpenFile(STDOUT_FILENO, state->shared->outputs[task]);
  }
  const std::string warning = task == 0 && !state->joined ? SummaryWarning(wanted) : "";
  if (!warning.empty()) ::dprintf(STDERR_FILENO, "carma: warning: %s\n", warning.c_str());
  ::prctl(PR_SET_NAME, kWaits);
  RestoreSignals();
  return TakeLease(spank);
}

CARMA_EXPORT int slurm_spank_task_exit(spank_t spank, int, char**) {
  if (state == nullptr || state->lease == 0 || state->joined) return ESPANK_SUCCESS;
  // A task that never adopted its GPUs has nothing to report. carmad notices on its own that the
  // task is gone.
  if (state->shared != nullptr && !state->shared->adopted) return ESPANK_SUCCESS;
  int status = 0, task = 0;
  spank_get_item(spank, S_TASK_EXIT_STATUS, &status);
  spank_get_item(spank, S_TASK_ID, &task);
  ++state->ended;
  if (status != 0 && state->ending.status == 0) {
    state->ending.status = status;
    if (task >= 0 && static_cast<std::uint32_t>(task) < kMaxFiles)
      state->ending.stderr_tail = LastWords(static_cast<std::uint32_t>(task));
  }
  if (state->ended < state->tasks) return ESPANK_SUCCESS;
  const Carmad carmad(state->socket);
  const bool told = carmad.End(state->lease, state->ending);
  if (state->ending.status != 0 && state->step.name == "batch")
    carmad.AwaitVerdict(state->lease, state->ending, told, kVerdictS);
  return ESPANK_SUCCESS;
}
