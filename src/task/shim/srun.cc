#include "task/shim/srun.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>
#include <string_view>

#include "base/host.h"
#include "base/text.h"
#include "task/describe/slurm.h"
#include "task/describe/spec.h"

namespace carma::task {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;
using base::Unit;
using Variables = std::map<std::string, std::string>;

constexpr int kMostTasks = 1024;
constexpr int kCannotRun = 127;

// Those that sbatch has not.
constexpr std::array kOfSrun{
    SlurmOption{"cpu-bind", 0, true},      SlurmOption{"exact", 0, false},
    SlurmOption{"exclusive", 0, false},    SlurmOption{"export", 0, true},
    SlurmOption{"gpus", 'G', true},        SlurmOption{"gpus-per-node", 0, true},
    SlurmOption{"gres", 0, true},          SlurmOption{"immediate", 'I', false},
    SlurmOption{"job-name", 'J', true},    SlurmOption{"jobid", 0, true},
    SlurmOption{"mpi", 0, true},           SlurmOption{"overlap", 0, false},
    SlurmOption{"wait", 'W', true},        SlurmOption{"time", 't', true},
    SlurmOption{"unbuffered", 'u', false},
};

const SlurmOption* FindPassedOver(std::string_view name) {
  const auto found = std::ranges::find_if(kOfSrun, [&](const SlurmOption& each) {
    return each.name == name || (name.size() == 1 && each.letter != 0 && each.letter == name[0]);
  });
  return found == kOfSrun.end() ? FindSlurmOption(name) : &*found;
}

Result<int> CountOf(std::string_view option, std::string_view text) {
  const std::optional<std::int64_t> count = base::ParseInt(text);
  if (!count || *count < 1 || *count > kMostTasks) {
    return Fail(ErrorCode::kInvalid, fmt::format("{}: expected a number from 1 to {}, not '{}'",
                                                 option, kMostTasks, base::Printable(text, 40)));
  }
  return static_cast<int>(*count);
}

std::string Lookup(const Variables& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
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
      if (Result<Unit> taken = Take(words_[at_++]); !taken) return std::unexpected(taken.error());
    }
    plan_.command.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
    if (plan_.command.empty()) return Fail(ErrorCode::kInvalid, "expected a program to run");
    return std::move(plan_);
  }

 private:
  Result<std::string> Value(std::string_view option, const std::optional<std::string>& attached) {
    if (attached) return *attached;
    if (at_ < words_.size()) return words_[at_++];
    return Fail(ErrorCode::kInvalid, fmt::format("{}: expected a value", option));
  }

  Result<Unit> Take(const std::string& word) {
    const std::optional<OptionWord> option = TakeApart(word);
    if (!option) return Fail(ErrorCode::kInvalid, "unknown option " + base::Printable(word, 60));
    const std::string& name = option->name;
    const std::optional<std::string>& attached = option->value;
    const auto is = [&](std::string_view longer, char letter) {
      return name == longer || (letter != 0 && name.size() == 1 && name[0] == letter);
    };
    const auto into = [&](std::string& text) -> Result<Unit> {
      Result<std::string> value = Value(word, attached);
      if (!value) return std::unexpected(value.error());
      text = *std::move(value);
      return Unit{};
    };
    if (is("output", 'o')) return into(plan_.output);
    if (is("error", 'e')) return into(plan_.error);
    if (is("chdir", 'D')) return into(plan_.chdir);
    if (is("label", 'l')) return plan_.label = true, Unit{};
    if (is("kill-on-bad-exit", 'K')) return plan_.kill_on_bad_exit = attached != "0", Unit{};
    if (is("ntasks", 'n') || is("nodes", 'N') || is("gpus-per-task", 0))
      return TakeCount(name, word, attached);
    return PassOver(word, name, attached);
  }

  Result<Unit> TakeCount(const std::string& name, const std::string& word,
                         const std::optional<std::string>& attached) {
    const Result<std::string> text = Value(word, attached);
    if (!text) return std::unexpected(text.error());
    const std::string_view least = std::string_view(*text).substr(0, text->find('-'));
    const Result<int> count = CountOf(word, least);
    if (!count) return std::unexpected(count.error());
    if (name == "nodes" || name == "N") {
      if (*count > 1) return Fail(ErrorCode::kInvalid, word + ": this is one server, expected 1");
    } else if (name == "gpus-per-task") {
      plan_.gpus_per_task = *count;
    } else {
      plan_.ntasks = *count;
    }
    return Unit{};
  }

  Result<Unit> PassOver(const std::string& word, const std::string& name,
                        const std::optional<std::string>& attached) {
    const SlurmOption* known = FindPassedOver(name);
    if (known == nullptr)
      return Fail(ErrorCode::kInvalid, "unknown option " + base::Printable(word, 60));
    if (!known->takes_value) return Unit{};
    const Result<std::string> value = Value(word, attached);
    return value ? Result<Unit>(Unit{}) : std::unexpected(value.error());
  }

  const std::vector<std::string>& words_;
  std::size_t at_ = 0;
  SrunPlan plan_;
};

// ---- running ----

// That a script's end or a notice is told by.
constexpr std::array kPassedOn{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT};

// Those and the end of a copy: waited for, so that none comes between a fork and its note, and none
// is sent to a number that has been given to another process.
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

void Redirect(const std::string& path, int descriptor) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0 || ::dup2(file, descriptor) < 0) {
    std::fprintf(stderr, "srun: %s: %s\n", path.c_str(), std::strerror(errno));
    ::_exit(kCannotRun);
  }
}

[[noreturn]] void Become(const SrunPlan& plan, int rank, const Variables& environment) {
  for (const auto& [name, value] : SrunVariables(plan, rank, environment))
    ::setenv(name.c_str(), value.c_str(), 1);
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
  std::vector<char*> argv;
  for (const std::string& word : plan.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  std::fprintf(stderr, "srun: %s: %s\n", argv[0], std::strerror(errno));
  ::_exit(kCannotRun);
}

int CodeOf(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

Result<SrunPlan> PlanSrun(const std::vector<std::string>& arguments, const Variables& environment) {
  SrunPlan plan;
  if (const std::string ntasks = Lookup(environment, "SLURM_NTASKS"); !ntasks.empty()) {
    const Result<int> count = CountOf("SLURM_NTASKS", ntasks);
    if (!count) return std::unexpected(count.error());
    plan.ntasks = *count;
  }
  if (const auto each = base::ParseInt(Lookup(environment, "SLURM_GPUS_PER_TASK"));
      each && *each > 0)
    plan.gpus_per_task = static_cast<int>(*each);
  return Reader(arguments).Run(std::move(plan));
}

Variables SrunVariables(const SrunPlan& plan, int rank, const Variables& environment) {
  const std::string count = std::to_string(plan.ntasks), number = std::to_string(rank);
  Variables variables{{"SLURM_NTASKS", count},         {"SLURM_NPROCS", count},
                      {"SLURM_STEP_NUM_TASKS", count}, {"SLURM_STEP_ID", "0"},
                      {"SLURM_STEPID", "0"},           {"SLURM_PROCID", number},
                      {"SLURM_LOCALID", number},       {"SLURM_NODEID", "0"}};
  if (plan.gpus_per_task) {
    const std::string visible = Lookup(environment, "CUDA_VISIBLE_DEVICES");
    const std::vector<std::string_view> gpus = base::Split(visible, ',');
    std::vector<std::string> own;
    for (int i = 0; i < *plan.gpus_per_task && !visible.empty(); ++i)
      own.emplace_back(
          gpus[static_cast<std::size_t>(rank * *plan.gpus_per_task + i) % gpus.size()]);
    if (!own.empty()) variables["CUDA_VISIBLE_DEVICES"] = base::Join(own, ",");
  }
  return variables;
}

int RunSrun(const SrunPlan& plan, const Variables& environment) {
  const sigset_t waited_for = WaitedFor();
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &waited_for, &before);
  std::set<pid_t> copies;
  int worst = 0;
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
    const int signal = ::sigwaitinfo(&waited_for, nullptr);
    if (signal > 0 && signal != SIGCHLD) Tell(copies, signal);
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
