// Implements scontrol, sbatch and scancel inside a task.
#include "task/shim/slurm_calls.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>

#include "base/file.h"
#include "base/host.h"
#include "base/json.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/try.h"
#include "task/describe/options.h"
#include "task/describe/slurm.h"
#include "task/shim/environment.h"

namespace carma::task {
namespace {

using base::Json;
using Variables = std::map<std::string, std::string>;
using Words = std::vector<std::string>;

constexpr std::size_t kMostHosts = 65'536;
constexpr std::size_t kMaxTaskBytes = 16 << 20;

// Parses "81", or "81_3" for the task with that index in this task's own array.
Result<std::string> TaskNumber(std::string_view word, const Variables& environment) {
  const std::size_t bar = word.find('_');
  const auto id = base::ParseInt(word.substr(0, bar));
  const auto wrong = Invalid("expected a task number, not '" + base::Printable(word, 40) + "'");
  if (!id || *id < 1) return wrong;
  if (bar == std::string_view::npos) return std::to_string(*id);
  const std::string_view index = word.substr(bar + 1);
  if (std::to_string(*id) != Lookup(environment, "SLURM_ARRAY_JOB_ID"))
    return Invalid("'" + base::Printable(word, 40) +
                   "' does not belong to this task's array; use the task's own number");
  if (index == Lookup(environment, "SLURM_ARRAY_TASK_ID"))
    return Lookup(environment, "SLURM_JOB_ID");
  const auto number = base::ParseInt(index);
  const auto low = base::ParseInt(Lookup(environment, "SLURM_ARRAY_TASK_MIN"));
  const auto high = base::ParseInt(Lookup(environment, "SLURM_ARRAY_TASK_MAX"));
  const auto step = base::ParseInt(Lookup(environment, "SLURM_ARRAY_TASK_STEP"));
  const auto count = base::ParseInt(Lookup(environment, "SLURM_ARRAY_TASK_COUNT"));
  const bool regular =
      number && low && high && step && count && *step > 0 && (*high - *low) / *step + 1 == *count;
  if (!regular || *number < *low || *number > *high || (*number - *low) % *step != 0) return wrong;
  return std::to_string(*id + (*number - *low) / *step);
}

Result<CarmaCall> Each(const char* verb, const Words& words, std::size_t at,
                       const Variables& environment) {
  CarmaCall call{.words = {verb}};
  for (; at < words.size(); ++at) {
    for (const std::string_view piece : base::Split(words[at], ',')) {
      const std::string task = CARMA_TRY(TaskNumber(piece, environment));
      // As in Slurm, an array's number means the whole array, and a task's own number means only
      // that task.
      const bool one = piece.contains('_') || task == Lookup(environment, "SLURM_JOB_ID");
      call.words.push_back(one ? task : task + "_*");
    }
  }
  if (call.words.size() == 1) return Invalid("expected a task number");
  return call;
}

// Parses settings such as "JobId=5 TimeLimit=2:00:00".
Result<CarmaCall> Update(const Words& words, std::size_t at, const Variables& environment) {
  struct Name {
    std::string_view slurm, option;
  };
  constexpr std::array kNames{Name{"timelimit", "--time"}, Name{"jobname", "--job-name"},
                              Name{"name", "--job-name"}, Name{"priority", "--priority"}};
  std::string task;
  Words options;
  for (; at < words.size(); ++at) {
    const std::size_t equals = words[at].find('=');
    const std::string name = base::ToLower(words[at].substr(0, equals));
    const std::string value = equals == std::string::npos ? "" : words[at].substr(equals + 1);
    const auto* known = std::ranges::find(kNames, name, &Name::slurm);
    if (name == "jobid" || name == "job") {
      task = CARMA_TRY(TaskNumber(value, environment));
    } else if (known != kNames.end() && !value.empty()) {
      options.insert(options.end(), {std::string(known->option), value});
    } else {
      return Invalid("update: expected JobId=, TimeLimit=, JobName= or Priority=, not '" +
                     base::Printable(words[at], 60) + "'");
    }
  }
  if (task.empty() || options.empty())
    return Invalid("update: expected JobId=ID and a setting to change, such as TimeLimit=2:00:00");
  CarmaCall call{.words = {"edit", task}};
  call.words.insert(call.words.end(), options.begin(), options.end());
  return call;
}

Result<CarmaCall> ShowOf(const Words& words, std::size_t at, bool one_line,
                         const Variables& environment) {
  const std::string what = at < words.size() ? base::ToLower(words[at]) : "";
  const std::string named = at + 1 < words.size() ? words[at + 1] : "";
  if (what.starts_with("hostname")) {
    const auto hosts =
        CARMA_TRY(ExpandHosts(named.empty() ? Lookup(environment, "SLURM_JOB_NODELIST") : named));
    return CarmaCall{.text = base::Join(hosts, "\n") + (hosts.empty() ? "" : "\n")};
  }
  if (what == "job" || what == "jobs" || what == "jobid" || what.starts_with("job=") ||
      what.starts_with("jobid=")) {
    const std::size_t equals = what.find('=');
    const std::string given = equals == std::string::npos ? named : what.substr(equals + 1);
    const std::string number = CARMA_TRY(
        TaskNumber(given.empty() ? Lookup(environment, "SLURM_JOB_ID") : given, environment));
    return CarmaCall{.words = {"show", "--json", number},
                     .show = one_line ? CarmaCall::Show::kJobLine : CarmaCall::Show::kJob};
  }
  return Invalid("show: expected job or hostnames, not '" + base::Printable(what, 40) + "'");
}

// ---- show job ----

std::string Text(const Json& task, const char* key) {
  const auto found = task.find(key);
  if (found == task.end() || found->is_null()) return "";
  return found->is_string() ? found->get<std::string>() : base::DumpJson(*found);
}

std::string OrNull(std::string text) {
  return text.empty() ? "(null)" : text;
}

std::optional<std::int64_t> Number(const Json& task, const char* key) {
  const auto found = task.find(key);
  if (found == task.end() || !found->is_number()) return std::nullopt;
  return static_cast<std::int64_t>(found->get<double>());
}

std::string Moment(std::optional<std::int64_t> ms) {
  std::string text = ms ? base::FormatTime(base::FromMs(*ms)) : "Unknown";
  std::ranges::replace(text, ' ', 'T');
  return text;
}

std::string Span(std::int64_t seconds) {
  const std::string clock =
      fmt::format("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
  return seconds < 86'400 ? clock : fmt::format("{}-{}", seconds / 86'400, clock);
}

std::string SlurmState(const std::string& state) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kOthers{
      {{"launching", "CONFIGURING"},
       {"stopping", "COMPLETING"},
       {"succeeded", "COMPLETED"},
       {"timed_out", "TIMEOUT"},
       {"lost", "NODE_FAIL"},
       {"submitted", "PENDING"},
       {"estimating", "PENDING"},
       {"queued", "PENDING"}}};
  for (const auto& [ours, slurms] : kOthers) {
    if (ours == state) return std::string(slurms);
  }
  std::string upper = state;
  std::ranges::transform(upper, upper.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return upper;
}

// ---- calls to carma ----

[[noreturn]] void BecomeCarma(const Words& words) {
  // This program is installed in libexec/carma.
  const std::string program = base::ExecutableDir() + "/../../bin/carma";
  Words call{program};
  call.insert(call.end(), words.begin(), words.end());
  ::execv(program.c_str(), base::Argv(call).data());
  std::fprintf(stderr, "%s: %s\n", program.c_str(), std::strerror(errno));
  ::_exit(1);
}

// Runs carma and passes each line of its output to `take` as it arrives.
template <class Take>
int ReadCarma(const Words& words, Take take) {
  Result<base::Pipe> pipe = base::MakePipe();
  if (!pipe) return 1;
  const pid_t child = ::fork();
  if (child < 0) return 1;
  if (child == 0) {
    ::dup2(pipe->write.get(), STDOUT_FILENO);
    BecomeCarma(words);
  }
  pipe->write.reset();
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t count = ::read(pipe->read.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(buffer, static_cast<std::size_t>(count));
    for (std::size_t end = 0; (end = text.find('\n')) != std::string::npos;) {
      take(text.substr(0, end));
      text.erase(0, end + 1);
    }
  }
  if (!text.empty()) take(text);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int Refuse(const char* program, const base::Error& error) {
  std::fprintf(stderr, "%s (CARMA's): %s\n", program, error.message.c_str());
  return 1;
}

int Run(const char* program, const Result<CarmaCall>& call) {
  if (!call) return Refuse(program, call.error());
  std::fputs(call->text.c_str(), stdout);
  std::fflush(stdout);
  if (call->words.empty()) return 0;
  if (call->show == CarmaCall::Show::kAsItIs) {
    // Slurm's programs print nothing in this case, so the output of carma is discarded.
    const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null >= 0) ::dup2(null, STDOUT_FILENO);
    BecomeCarma(call->words);
  }
  std::string json;
  const int code = ReadCarma(call->words, [&](const std::string& line) {
    if (json.size() < kMaxTaskBytes) json += line + "\n";
  });
  if (code != 0) return code;
  const auto text = JobText(json, call->show == CarmaCall::Show::kJobLine);
  if (!text) return Refuse(program, text.error());
  std::fputs(text->c_str(), stdout);
  return 0;
}

}  // namespace

Result<CarmaCall> PlanScontrol(const Words& arguments, const Variables& environment) {
  bool one_line = false;
  std::size_t at = 0;
  for (; at < arguments.size() && arguments[at].starts_with('-'); ++at)
    one_line |= arguments[at] == "-o" || arguments[at] == "--oneliner";
  const std::string verb = at < arguments.size() ? base::ToLower(arguments[at]) : "";
  ++at;
  for (const char* same : {"requeue", "hold", "release"}) {
    if (verb == same) return Each(same, arguments, at, environment);
  }
  if (verb == "show") return ShowOf(arguments, at, one_line, environment);
  if (verb == "update") return Update(arguments, at, environment);
  return Invalid("expected show, requeue, hold, release or update, not '" +
                 base::Printable(verb, 40) + "'");
}

Result<CarmaCall> PlanScancel(const Words& arguments, const Variables& environment) {
  CarmaCall call{.words = {"cancel"}};
  bool chosen = false;
  for (std::size_t at = 0; at < arguments.size(); ++at) {
    const std::string& word = arguments[at];
    const std::optional<OptionWord> option = TakeApart(word);
    if (!option) {
      const CarmaCall named = CARMA_TRY(Each("cancel", {word}, 0, environment));
      call.words.insert(call.words.end(), named.words.begin() + 1, named.words.end());
      chosen = true;
      continue;
    }
    const std::string& name = option->name;
    if (name == "me") {
      call.words.emplace_back("--all");
      chosen = true;
    } else if (name == "quiet" || name == "Q" || name == "verbose" || name == "v") {
      continue;
    } else if (name == "name" || name == "jobname" || name == "n" || name == "state" ||
               name == "t" || name == "user" || name == "u") {
      const std::string value = option->value             ? *option->value
                                : ++at < arguments.size() ? arguments[at]
                                                          : "";
      if (value.empty()) return Invalid(word + ": expected a value");
      const bool state = name == "state" || name == "t", user = name == "user" || name == "u";
      const std::string low = base::ToLower(value);
      if (user) {
        call.words.insert(call.words.end(), {"--all", "--user", value});
      } else {
        call.words.insert(call.words.end(), {state ? "--state" : "--name",
                                             state && (low == "pending" || low == "pd") ? "queued"
                                             : state                                    ? low
                                                                                        : value});
      }
      chosen = true;
    } else {
      return Invalid("unknown option " + base::Printable(word, 60));
    }
  }
  if (!chosen) return Invalid("expected a task number");
  return call;
}

Result<SbatchCall> PlanSbatch(const Words& arguments, const Variables& environment) {
  SbatchCall call{.words = {"submit", "--parsable"}};
  Words options;
  bool wraps = false;
  std::size_t at = 0;
  while (at < arguments.size() && arguments[at].starts_with('-') && arguments[at] != "-") {
    const std::string& word = arguments[at++];
    if (word == "--") break;
    const std::optional<OptionWord> option = TakeApart(word);
    const auto unknown = Invalid("unknown option " + base::Printable(word, 60));
    if (!option) return unknown;
    const std::string& name = option->name;
    if (name == "parsable") {
      call.parsable = true;
      continue;
    }
    if (name == "wait" || name == "W" || name == "test-only") {
      call.words.emplace_back(name == "test-only" ? "--check" : "--wait");
      continue;
    }
    const OptionInfo* own = FindOption(name);
    if (own != nullptr && !own->sbatch && name != "wrap") own = nullptr;
    const SlurmOption* known = own != nullptr ? nullptr : FindSlurmOption(name);
    if (own == nullptr && known == nullptr) return unknown;
    const bool takes_value = own != nullptr ? !own->value.empty() : known->takes_value;
    std::optional<std::string> value = option->value;
    if (takes_value && !value) {
      if (at == arguments.size()) return Invalid(word + ": expected a value");
      value = arguments[at++];
    }
    const std::string text =
        fmt::format("--{}{}", own != nullptr ? own->name : known->name, value ? "=" + *value : "");
    wraps |= name == "wrap";
    if (name == "wrap") {
      call.words.push_back(text);
    } else {
      options.push_back(text);
    }
  }
  const std::string script = at < arguments.size() ? arguments[at] : wraps ? "" : "-";
  // If a task submits its own script, the new task gets the task's name, because the script's file
  // name is only "script" or a number.
  const std::string own = Lookup(environment, "CARMA_ATTEMPT_DIR");
  const bool again =
      (!own.empty() && script.starts_with(own + "/")) || script.starts_with("/proc/");
  if (again)
    options.insert(options.begin(), "--job-name=" + Lookup(environment, "CARMA_TASK_NAME"));
  // At least one --sbatch option is needed to mark the task as written for Slurm.
  if (options.empty()) options.emplace_back("--quiet");
  for (const std::string& option : options) call.words.push_back("--sbatch=" + option);
  if (!script.empty()) call.words.push_back(script);
  if (at < arguments.size())
    call.words.insert(call.words.end(), arguments.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                      arguments.end());
  return call;
}

Result<std::vector<std::string>> ExpandHosts(std::string_view list) {
  std::vector<std::string> hosts;
  const auto wrong =
      Invalid("expected hosts such as 'n1,n[2-4]', not '" + base::Printable(list, 60) + "'");
  while (!list.empty()) {
    const std::size_t open = list.find('['), comma = list.find(',');
    if (open == std::string_view::npos || comma < open) {
      if (const std::string_view host = list.substr(0, comma); !host.empty())
        hosts.emplace_back(host);
      list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
      continue;
    }
    const std::size_t close = list.find(']', open);
    if (close == std::string_view::npos) return wrong;
    const std::string_view before = list.substr(0, open);
    std::string_view rest = list.substr(close + 1);
    const std::string_view after = rest.substr(0, rest.find(','));
    for (const std::string_view piece : base::Split(list.substr(open + 1, close - open - 1), ',')) {
      const std::size_t dash = piece.find('-');
      const std::string_view low = piece.substr(0, dash);
      const auto first = base::ParseInt(low);
      const auto last = dash == piece.npos ? first : base::ParseInt(piece.substr(dash + 1));
      if (!first || !last || *first < 0 || *last < *first) return wrong;
      if (static_cast<std::uint64_t>(*last - *first) + hosts.size() >= kMostHosts) return wrong;
      for (std::int64_t number = *first; number <= *last; ++number)
        hosts.push_back(fmt::format("{}{:0{}}{}", before, number, low.size(), after));
    }
    rest.remove_prefix(after.size());
    if (rest.starts_with(',')) rest.remove_prefix(1);
    list = rest;
  }
  return hosts;
}

Result<std::string> JobText(std::string_view task_json, bool one_line) {
  const Json task = CARMA_TRY(base::ParseJson(task_json));
  if (!task.is_object() || !task.contains("id"))
    return Invalid("the output of carma show does not describe a task");
  const auto launched = Number(task, "launched_ms"), last = Number(task, "attempt_ended_ms");
  const auto ended = last ? last : Number(task, "ended_ms");
  const auto limit_s = Number(task, "time_limit_s");
  const std::int64_t now_ms = static_cast<std::int64_t>(std::time(nullptr)) * 1000;
  const std::int64_t ran_s =
      launched ? std::max<std::int64_t>(0, (ended.value_or(now_ms) - *launched) / 1000) : 0;
  const std::string host = launched ? base::ShortHostName() : "";
  std::string command;
  if (const auto words = task.find("command"); words != task.end() && words->is_array()) {
    for (const Json& word : *words)
      command += (command.empty() ? "" : " ") + (word.is_string() ? word.get<std::string>() : "");
  }
  std::optional<std::int64_t> end = ended;
  if (!end && launched && limit_s) end = *launched + *limit_s * 1000;
  const std::string array = Number(task, "array_index")
                                ? fmt::format("ArrayJobId={} ArrayTaskId={} ",
                                              Text(task, "array_id"), Text(task, "array_index"))
                                : "";
  const Words lines{
      fmt::format("JobId={} {}JobName={}", Text(task, "id"), array, Text(task, "name")),
      fmt::format("UserId={}({})", Text(task, "user"), Text(task, "uid")),
      fmt::format("Priority={} Account={} QOS={}", Text(task, "priority"),
                  OrNull(Text(task, "account")), OrNull(Text(task, "qos"))),
      fmt::format("JobState={} Reason={}", SlurmState(Text(task, "state")),
                  Text(task, "reason").empty() ? "None" : Text(task, "reason")),
      fmt::format("Restarts={} BatchFlag=1 ExitCode={}:{}",
                  std::max<std::int64_t>(0, Number(task, "attempt").value_or(0) - 1),
                  Number(task, "exit_code").value_or(0), Number(task, "signal").value_or(0)),
      fmt::format("RunTime={} TimeLimit={} TimeMin=N/A", Span(ran_s),
                  limit_s ? Span(*limit_s) : "UNLIMITED"),
      fmt::format("SubmitTime={}", Moment(Number(task, "submitted_ms"))),
      fmt::format("StartTime={} EndTime={}", Moment(launched), Moment(end)),
      fmt::format("NodeList={} BatchHost={}", OrNull(host), OrNull(host)),
      fmt::format("NumNodes=1 NumCPUs={}", Number(task, "cpus").value_or(1)),
      fmt::format("Command={}", OrNull(command)),
      fmt::format("WorkDir={}", Text(task, "workdir")),
      fmt::format("StdErr={}", Text(task, "stderr_path")),
      "StdIn=/dev/null",
      fmt::format("StdOut={}", Text(task, "stdout_path")),
      fmt::format("TresPerNode=gres:gpu:{}", Number(task, "gpus").value_or(0))};
  return base::Join(lines, one_line ? " " : "\n   ") + "\n";
}

int RunScontrol(const Words& arguments, const Variables& environment) {
  return Run("scontrol", PlanScontrol(arguments, environment));
}

int RunScancel(const Words& arguments, const Variables& environment) {
  return Run("scancel", PlanScancel(arguments, environment));
}

int RunSbatch(const Words& arguments, const Variables& environment) {
  const Result<SbatchCall> call = PlanSbatch(arguments, environment);
  if (!call) return Refuse("sbatch", call.error());
  return ReadCarma(call->words, [&](const std::string& line) {
    // As in Slurm, an array is identified by the number of its first task.
    const std::string first = line.substr(0, line.find('-'));
    const bool submitted = base::ParseInt(first).has_value();
    std::fprintf(stdout, "%s%s\n", submitted && !call->parsable ? "Submitted batch job " : "",
                 submitted ? first.c_str() : line.c_str());
    std::fflush(stdout);
  });
}

}  // namespace carma::task
