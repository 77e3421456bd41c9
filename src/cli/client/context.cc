#include <unistd.h>

#include <thread>

#include "base/file.h"
#include "base/text.h"
#include "base/user.h"
#include "cli/calls.h"
#include "cli/client/verbs.h"
#include "cli/ids.h"
#include "cli/terminal.h"
#include "config/client_socket.h"
#include "config/pilot_socket.h"
#include "config/settings.h"

namespace carma::cli {
namespace {

// For people at a terminal; a script uses what it has set up.
void NoteTwoDaemons(const Context& context, const std::string& path) {
  const bool own = path == config::OwnSocketPath(base::GetEnv("XDG_RUNTIME_DIR"));
  const bool shown = !context.json && ::isatty(::fileno(context.err)) != 0;
  if (!own || !shown || !base::Exists(config::kServerSocket)) return;
  std::fprintf(context.err,
               "carma: this is your own carmad at %s; the server's listens at %s (CARMA_SOCKET "
               "chooses)\n",
               path.c_str(), config::kServerSocket);
}

}  // namespace

Context::Context() = default;
Context::~Context() = default;

api::Client& Context::client() {
  if (!client_) {
    const std::string path = socket_path.empty() ? DefaultSocketPath() : socket_path;
    if (socket_path.empty()) NoteTwoDaemons(*this, path);
    client_ = std::make_unique<api::Client>(path);
  }
  return *client_;
}

void Context::Fail(const base::Error& error) {
  std::fprintf(err, "carma: %s\n", base::Printable(error.message, 4096).c_str());
  exit_code = error.code == base::ErrorCode::kInvalid ? kExitUsage : kExitFailure;
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
  const std::string shared = config::kServerSocket;
  if (base::Exists(own)) return own;
  // Where neither listens yet, a user without root rights can only start a daemon of its own.
  return base::Exists(shared) || ::geteuid() == 0 ? shared : own;
}

std::string OwnUserName() {
  return base::UserName(::geteuid());
}

void Print(const Context& context, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), context.out);
}

std::string VersionText(const Context& context) {
  return "carma " + context.version + (context.build.empty() ? "" : " (" + context.build + ")");
}

void Warn(const Context& context, std::string_view text) {
  std::fprintf(context.err, "carma: warning: %s\n", base::Printable(text, 4096).c_str());
}

base::Error NamedWrongly(base::Error error) {
  const bool wrongly =
      error.code == base::ErrorCode::kNotFound || error.code == base::ErrorCode::kDenied;
  if (wrongly) error.code = base::ErrorCode::kInvalid;
  return error;
}

base::Result<std::string> ReadNamed(const std::string& path, std::size_t max_bytes) {
  base::Result<std::string> text = base::ReadFile(path, max_bytes);
  if (!text) return std::unexpected(NamedWrongly(text.error()));
  return text;
}

base::Result<std::string> ReadInput(const std::string& path, std::size_t max_bytes) {
  if (path != "-") return ReadNamed(path, max_bytes);
  base::Result<std::string> text = base::ReadAll(STDIN_FILENO, max_bytes);
  if (!text) return base::Wrap(text.error(), InputName(path));
  return text;
}

std::string InputName(const std::string& path) {
  return path == "-" ? "standard input" : path;
}

base::Result<std::vector<std::uint64_t>> ResolveTasks(Context& context,
                                                      std::vector<std::string> words,
                                                      const std::string& fallback) {
  if (words.empty()) words.push_back(fallback);
  const auto ranges = ParseTaskRanges(words);
  if (!ranges) return std::unexpected(ranges.error());
  std::vector<std::uint64_t> newest;
  if (const std::uint64_t needed = BackNeeded(*ranges); needed > 0) {
    const auto page = ListTasks(context.client(), {.states = "all",
                                                   .user = OwnUserName(),
                                                   .name = "",
                                                   .limit = needed,
                                                   .newest_first = true});
    if (!page) return std::unexpected(page.error());
    for (const api::TaskView& task : page->tasks) newest.push_back(task.id);
  }
  return ExpandRanges(*ranges, newest);
}

base::Result<Settings> WithTasksResolved(Context& context, Settings settings) {
  for (auto& [option, value] : settings) {
    const bool dependency = option == "dependency" || option == "d";
    if (!dependency || value.find_first_of("@-") == std::string::npos) continue;
    std::string meant;
    for (const std::string_view list : base::Split(value, ',')) {
      const std::vector<std::string_view> words = base::Split(list, ':');
      meant += (meant.empty() ? "" : ",") + std::string(words[0]);
      for (std::size_t i = 1; i < words.size(); ++i) {
        const auto ids = ResolveTasks(context, {std::string(words[i])});
        if (!ids) return base::Wrap(ids.error(), "--dependency");
        for (const std::uint64_t id : *ids) meant += ":" + std::to_string(id);
      }
    }
    value = std::move(meant);
  }
  return settings;
}

void Show(Context& context, bool watch, double interval_s,
          const std::function<base::Result<std::string>()>& render) {
  const bool clear = watch && !context.json && ScreenOf(context.out).width > 0;
  for (;;) {
    const auto text = render();
    if (!text) return context.Fail(text.error());
    if (clear) Print(context, "\033[H\033[2J");
    Print(context, *text);
    if (!watch) return;
    if (std::fflush(context.out) != 0) return;  // nobody reads any more
    std::this_thread::sleep_for(std::chrono::duration<double>(interval_s));
  }
}

}  // namespace carma::cli
