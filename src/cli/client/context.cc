#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <optional>
#include <thread>
#include <tuple>

#include "api/url.h"
#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "base/user.h"
#include "base/words.h"
#include "cli/calls.h"
#include "cli/client/verbs.h"
#include "cli/ids.h"
#include "cli/terminal.h"
#include "config/client_socket.h"
#include "config/settings.h"
#include "core/values/task_request.h"
#include "task/describe/spec.h"

namespace carma::cli {
namespace {

// Tells the user if `carma` uses the user's own daemon although the server also has one. Silent if
// standard error is not a terminal: a script has presumably chosen its daemon.
void NoteTwoDaemons(const Context& context, const std::string& path) {
  const bool own = path == config::OwnSocketPath(base::GetEnv("XDG_RUNTIME_DIR"));
  const bool shown = !context.json && ::isatty(::fileno(context.err)) != 0;
  if (!own || !shown || !base::Exists(config::kServerSocket)) return;
  std::fprintf(context.err,
               "carma: using your own carmad at %s; the server's carmad is at %s (set CARMA_SOCKET "
               "to choose)\n",
               path.c_str(), config::kServerSocket);
}

std::optional<base::Time> ParseDate(const std::string& text) {
  for (const char* format :
       {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d"}) {
    std::tm parts{};
    const char* end = ::strptime(text.c_str(), format, &parts);
    if (end == nullptr || *end != '\0') continue;
    const std::chrono::month month(static_cast<unsigned>(parts.tm_mon + 1));
    const std::chrono::day day(static_cast<unsigned>(parts.tm_mday));
    if (!(std::chrono::year(parts.tm_year + 1900) / month / day).ok()) return std::nullopt;
    parts.tm_isdst = -1;
    const std::time_t seconds = std::mktime(&parts);
    if (seconds == -1) return std::nullopt;
    return base::FromMs(std::int64_t{seconds} * 1000);
  }
  return std::nullopt;
}

// Parses a date in local time, or a span before now. "Now" is the daemon's time, which differs from
// this machine's time on a simulated server.
Result<base::Time> ParseMoment(Context& context, const char* option, const std::string& text) {
  if (const std::optional<base::Time> date = ParseDate(text)) return *date;
  const bool has_unit = text.find_first_of("smhd") != std::string::npos;
  const Result<base::Duration> ago = base::ParseSpan(text);
  if (!has_unit || !ago) {
    return Invalid(std::string(option) +
                   ": expected a date like \"2026-03-01 14:05\" or a span like " +
                   "2h for two hours ago, not '" + base::Printable(text, 40) + "'");
  }
  const Answer<api::StatusView> status = CARMA_TRY(GetStatus(context.client()));
  return base::FromMs(status.value.now_ms) - *ago;
}

// Finds the first number in [low, high) for which `holds` is true, by binary search. `holds` must
// also be true for all larger numbers.
template <class Holds>
Result<std::uint64_t> FirstThat(std::uint64_t low, std::uint64_t high, Holds holds) {
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    const bool answer = CARMA_TRY(holds(middle));
    (answer ? high : low) = answer ? middle : middle + 1;
  }
  return low;
}

// Finds the task with this index in an array. Binary search works, because an array's tasks have
// consecutive numbers and ascending indices.
Result<std::uint64_t> MemberOf(Context& context, std::uint64_t array, std::int64_t index) {
  const auto wrong = NotFound("array {} has no task with index {}", array, index);
  const auto first = CARMA_TRY(GetTask(context.client(), array));
  const auto& [value, text] = first;
  if (!value.array_index || index < *value.array_index) return wrong;
  const auto most = static_cast<std::uint64_t>(index - *value.array_index);
  const auto id = FirstThat(array, array + most, [&](std::uint64_t each) -> Result<bool> {
    const auto task = GetTask(context.client(), each);
    if (!task) {
      if (task.error().code == ErrorCode::kNotFound) return true;
      return std::unexpected(task.error());
    }
    return task->value.array_id != value.array_id || task->value.array_index.value_or(0) >= index;
  });
  if (!id) return id;
  const auto member = GetTask(context.client(), *id);
  if (!member || member->value.array_id != value.array_id || member->value.array_index != index)
    return wrong;
  return *id;
}

// Returns the whole array if `id` is its first task, because dependencies and Slurm commands refer
// to an array by its first task. If `own` is true, `id` is the caller's last task, which may be any
// task in the array.
TaskRange WholeArray(Context& context, std::uint64_t id, bool own) {
  const TaskRange alone{.first = id, .last = id};
  const auto task = GetTask(context.client(), id);
  // Errors are ignored here, because a later call will report the problem.
  if (!task || !task->value.array_id || (!own && *task->value.array_id != id)) return alone;
  const std::uint64_t first = *task->value.array_id;
  const auto end =
      FirstThat(id + 1, id + 1 + task::kMaxArrayTasks, [&](std::uint64_t each) -> Result<bool> {
        const auto other = GetTask(context.client(), each);
        return !other || other->value.array_id != first;
      });
  return {.first = first, .last = end.value_or(id + 1) - 1};
}

}  // namespace

Context::Context() = default;
Context::~Context() = default;

api::Client& Context::client() {
  if (!client_) {
    const std::string path = Socket();
    if (socket_path.empty()) NoteTwoDaemons(*this, path);
    client_ = std::make_unique<api::Client>(path);
  }
  return *client_;
}

std::string Context::Socket() const {
  return socket_path.empty() ? DefaultSocketPath() : socket_path;
}

void Context::Fail(const base::Error& error) {
  std::fprintf(err, "carma: %s\n", base::Printable(error.message, 4096).c_str());
  exit_code = error.code == ErrorCode::kInvalid ? kExitUsage : kExitFailure;
}

void Context::Report(const Result<Unit>& done) {
  if (!done) Fail(done.error());
}

std::string DefaultSocketPath() {
  if (std::string path = base::GetEnv("CARMA_SOCKET"); !path.empty()) return path;
  const config::Environment job = {{"SLURM_JOB_ID", base::GetEnv("SLURM_JOB_ID")},
                                   {"XDG_RUNTIME_DIR", base::GetEnv("XDG_RUNTIME_DIR")},
                                   {"TMPDIR", base::GetEnv("TMPDIR")}};
  if (std::string path = config::JobPilotSocket(job, ::geteuid()); !path.empty()) return path;
  const config::Sources sources = config::StandardSources(std::nullopt, ::geteuid() == 0);
  if (std::string path = config::ConfiguredSocket(sources); !path.empty()) return path;
  std::string own = config::OwnSocketPath(base::GetEnv("XDG_RUNTIME_DIR"));
  if (base::Exists(own)) return own;
  // Without root's carmad, a user without root privileges can only start a daemon of their own.
  const bool shared = base::Exists(config::kServerSocket) || base::Exists(config::kServerTrace);
  return shared || ::geteuid() == 0 ? config::kServerSocket : own;
}

std::string OwnUserName() {
  return base::UserName(::geteuid());
}

void Print(const Context& context, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), context.out);
}

void PrintNamed(const Context& context, const std::vector<std::string>& texts, bool several) {
  if (several) return Print(context, JsonList(texts) + "\n");
  for (const std::string& text : texts) Print(context, text + "\n");
}

std::string VersionText(const Context& context) {
  return "carma " + context.version + (context.build.empty() ? "" : " (" + context.build + ")");
}

void Warn(const Context& context, std::string_view text) {
  std::fprintf(context.err, "carma: warning: %s\n", base::Printable(text, 4096).c_str());
}

void WarnIfNoUser(const Context& context, const std::string& user) {
  if (!user.empty() && ::getpwnam(user.c_str()) == nullptr)
    Warn(context, "this machine has no user '" + base::Printable(user, 40) + "'");
}

void EndEach(Context& context, const std::vector<std::string>& ids, const std::string& noun,
             const std::string& verb) {
  std::vector<std::string> ended;
  for (const std::string& id : ids) {
    const auto answer = context.client().Call(
        "POST", fmt::format("/v1/{}s/{}/{}", base::ToLower(noun), api::Escape(id), verb));
    if (!answer) {
      context.Fail(answer.error());
      continue;
    }
    ended.push_back(JsonString(id));
    if (!context.json)
      Print(context, fmt::format("{} {} is {}d\n", noun, base::Printable(id, 40), verb));
  }
  if (context.json) Print(context, JsonList(ended) + "\n");
}

Result<std::string> TimesQuery(Context& context, const std::string& since,
                               const std::string& until) {
  std::string query;
  base::Time after{};
  for (const auto& [option, key, text] :
       {std::tuple("--since", "after_ms", &since), std::tuple("--until", "until_ms", &until)}) {
    if (text->empty()) continue;
    const base::Time moment = CARMA_TRY(ParseMoment(context, option, *text));
    if (moment < after) return Invalid("--until: expected a time after --since");
    after = moment;
    query += fmt::format("&{}={}", key, std::max<std::int64_t>(0, base::ToMs(moment)));
  }
  return query;
}

base::Error NamedWrongly(base::Error error) {
  const bool wrongly = error.code == ErrorCode::kNotFound || error.code == ErrorCode::kDenied;
  if (wrongly) error.code = ErrorCode::kInvalid;
  return error;
}

Result<std::string> ReadNamed(const std::string& path, std::size_t max_bytes) {
  Result<std::string> text = base::ReadFile(path, max_bytes);
  if (!text) return std::unexpected(NamedWrongly(text.error()));
  if (text->starts_with("\x1f\x8b"))
    return Invalid("{}: a gzip file; use gunzip first", base::Printable(path));
  return text;
}

Result<std::string> ReadInput(const std::string& path, std::size_t max_bytes) {
  if (path != "-") return ReadNamed(path, max_bytes);
  return base::Wrap(base::ReadAll(STDIN_FILENO, max_bytes), InputName(path));
}

std::string InputName(const std::string& path) {
  return path == "-" ? "standard input" : path;
}

Result<std::vector<std::uint64_t>> ResolveTasks(Context& context, std::vector<std::string> words,
                                                Last last) {
  if (words.empty()) words.emplace_back("@");
  auto ranges = CARMA_TRY(ParseTaskRanges(words));
  for (TaskRange& range : ranges) {
    if (range.whole) range = WholeArray(context, range.first, false);
    if (!range.index) continue;
    const auto member = CARMA_TRY(MemberOf(context, range.first, *range.index));
    range = {.first = member, .last = member};
  }
  std::vector<std::uint64_t> newest;
  if (const std::uint64_t needed = BackNeeded(ranges); needed > 0) {
    const auto page = CARMA_TRY(
        ListTasks(context.client(),
                  {.states = "all", .user = OwnUserName(), .limit = needed, .newest_first = true}));
    for (const api::TaskView& task : page.tasks) newest.push_back(task.id);
    // An array's tasks are numbered consecutively, so the newest one is also the last.
    const bool array = last == Last::kArray && !newest.empty() && page.tasks[0].array_id;
    for (TaskRange& range : ranges) {
      if (array && range.own && range.back == 0)
        range = {.first = *page.tasks[0].array_id, .last = newest[0]};
    }
  }
  return ExpandRanges(ranges, newest);
}

Result<Settings> WithTasksResolved(Context& context, Settings settings) {
  std::string meant;  // of all these options together
  for (auto& [option, value] : settings) {
    const bool dependency = option == "dependency" || option == "d";
    if (!dependency) continue;
    for (const std::string_view list : base::Split(value, ',')) {
      std::vector<std::string_view> words = base::Split(list, ':');
      // An unknown kind of dependency is passed on as typed, so that the error message shows it.
      if (!base::FromWord<core::DependencyKind>(words[0])) words = {list};
      meant += (meant.empty() ? "" : ",") + std::string(words[0]);
      for (std::size_t i = 1; i < words.size(); ++i) {
        const auto ids =
            CARMA_TRY(base::Wrap(ResolveTasks(context, {std::string(words[i])}), "--dependency"));
        const bool own = words[i].starts_with('@');
        const bool one = own || base::ParseInt(words[i]).has_value();
        for (const std::uint64_t id : ids) {
          const TaskRange all =
              one ? WholeArray(context, id, own) : TaskRange{.first = id, .last = id};
          if (one && words[0] == "afternotok" && all.first != all.last)
            Warn(context, fmt::format("--dependency: afternotok:{} requires every task in the "
                                      "array to fail (in Slurm, one suffices)",
                                      words[i]));
          for (std::uint64_t each = all.first; each <= all.last; ++each)
            meant += ":" + std::to_string(each);
        }
      }
    }
    value = meant;  // the last value counts
  }
  return settings;
}

Result<Unit> Show(Context& context, bool watch, double interval_s,
                  const std::function<Result<std::string>()>& render) {
  const bool clear = watch && !context.json && ScreenOf(context.out).width > 0;
  std::optional<std::string> last;
  bool told = false;  // whether the user has been notified that the daemon is away
  for (;;) {
    auto text = render();
    const bool away = !text && last && text.error().code == ErrorCode::kUnavailable;
    if (!text && !away) return std::unexpected(text.error());
    if (text) last = *std::move(text);
    const std::string note = away ? text.error().message + "; waiting for it" : "";
    const std::string before = away ? base::Printable(note, 4096) + "\n\n" : "";
    if (clear) Print(context, Redrawn(before + *last, ScreenOf(context.out)));
    if (!clear && !away) Print(context, *last);
    if (away && !clear && !told) Warn(context, note);
    told = away;
    if (!watch) return Unit{};
    if (std::fflush(context.out) != 0) return Unit{};  // nothing reads the output any more
    std::this_thread::sleep_for(std::chrono::duration<double>(interval_s));
  }
}

}  // namespace carma::cli
