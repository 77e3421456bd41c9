// `carma slurm`: CARMA's part in setting up a Slurm node (configuration, checks, prolog and
// epilog).
#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "api/lease_view.h"
#include "base/file.h"
#include "base/host.h"
#include "base/json.h"
#include "base/program_output.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/calls.h"
#include "cli/client/verbs.h"
#include "cli/slurm/site.h"
#include "config/settings.h"

extern char** environ;

namespace carma::cli {
namespace {

using base::Json;

constexpr int kGuardS = 5;
// A carmad that is restarting or being upgraded is back within this time.
constexpr std::chrono::seconds kRestart{60};
constexpr std::chrono::milliseconds kAgain{250};
constexpr std::size_t kMaxText = 4 << 20;
constexpr std::size_t kMaxPlugin = 64 << 20;
// Prefix of the variables that Slurm uses to pass the plug-in's options to prologs.
constexpr std::string_view kOptionSet = "SPANK__SLURM_SPANK_OPTION_carma_";

std::string NodeName() {
  std::string name = base::GetEnv("SLURMD_NODENAME");
  return name.empty() ? base::ShortHostName() : name;
}

// Returns `asked` if given, otherwise this host's Slurm node. Returns kInvalid if several exist.
Result<std::string> NodeHere(const std::string& asked) {
  if (!asked.empty()) return asked;
  if (!base::GetEnv("SLURMD_NODENAME").empty()) return NodeName();
  // Gives up early, because scontrol would keep trying for a minute without a slurm.conf.
  const std::string aliases =
      base::OutputOf({"scontrol", "show", "aliases"}, kMaxText, std::chrono::seconds(3));
  return OnlyNode(aliases, base::ShortHostName());
}

Result<std::vector<api::GpuView>> GpusOf(Context& context) {
  return CARMA_TRY(ListGpus(context.client())).value;
}

// The folder lib/carma/slurm next to the programs' folder if it exists, otherwise the folder where
// packages install the plug-in.
std::string PluginFolder() {
  const std::string bin = base::ExecutableDir();
  const std::string beside = bin.substr(0, bin.rfind('/')) + "/lib/carma/slurm";
  return base::Exists(beside) ? beside : "/usr/lib/carma/slurm";
}

Result<Unit> RunConfig(Context& context, const std::string& asked) {
  const std::vector<api::GpuView> gpus = CARMA_TRY(GpusOf(context));
  const std::string node = CARMA_TRY(NodeHere(asked));
  const std::string text = ConfigText({node, PluginFolder(), context.Socket()}, gpus);
  const Json json = {
      {"count", UsableGib(gpus)}, {"gib_per_gpu", SmallestGib(gpus)}, {"text", text}};
  Print(context, context.json ? base::DumpJson(json) + "\n" : text);
  return Unit{};
}

// ---- check ----

// The joined contents of all files that match `pattern`.
std::string TextsOf(const std::string& pattern) {
  std::string all;
  glob_t found{};
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i)
      all += "\n" + base::ReadFile(found.gl_pathv[i], kMaxText).value_or("");
  }
  ::globfree(&found);
  return all;
}

// The file's text, followed by the files that its "include PATTERN" lines name.
std::string PlugstackText(const std::string& path) {
  std::string all = base::ReadFile(path, kMaxText).value_or("");
  const std::string text = all;
  for (const std::string_view line : base::Split(text, '\n')) {
    const std::vector<std::string_view> words = base::SplitWords(line);
    if (words.size() == 2 && words[0] == "include") all += TextsOf(std::string(words[1]));
  }
  return all;
}

std::string WithNode(std::string path, const std::string& node) {
  for (std::size_t at = path.find("%n"); at != std::string::npos; at = path.find("%n"))
    path.replace(at, 2, node);
  return path;
}

SlurmFacts AskSlurm(Context& context, const std::string& node) {
  SlurmFacts facts{.node = node, .socket = context.Socket(), .gpus = GpusOf(context)};
  facts.config = ReadLines(base::OutputOf({"scontrol", "show", "config"}, kMaxText));
  facts.node_config =
      ReadWords(base::OutputOf({"scontrol", "-o", "show", "node", facts.node}, kMaxText));
  facts.partitions =
      ReadPartitions(base::OutputOf({"scontrol", "-o", "show", "partition"}, kMaxText));
  facts.release = ReleaseOf(base::OutputOf({"scontrol", "--version"}, kMaxText));
  const auto value = [&](const char* name, const char* usual) {
    const auto found = facts.config.find(name);
    return found == facts.config.end() ? std::string(usual) : found->second;
  };
  const std::string conf = value("SLURM_CONF", "/etc/slurm/slurm.conf");
  facts.prolog = TextsOf(value("Prolog", ""));
  facts.epilog = TextsOf(value("Epilog", ""));
  facts.submission = TextsOf(conf.substr(0, conf.rfind('/')) + "/job_submit.lua");
  const Called<api::StatusView> status = GetStatus(context.client());
  // A node's carmad is usually root's and does not read the caller's configuration.
  const bool of_root = !status || status->value.uid == 0;
  const auto loaded = config::Load(config::StandardSources(std::nullopt, of_root));
  facts.requeues = !loaded || loaded->settings.slurm_enabled;
  if (status)
    facts.restart = std::ranges::find(status->value.config_needs_restart, "slurm.enabled") !=
                    status->value.config_needs_restart.end();
  facts.plugin = FindPlugin(PlugstackText(value("PlugStackConfig", "/etc/slurm/plugstack.conf")));
  if (!facts.plugin) return facts;
  PluginLine& line = *facts.plugin;
  if (!line.path.starts_with('/') && facts.config.contains("PluginDir"))
    line.path = facts.config.at("PluginDir") + "/" + line.path;
  line.socket = WithNode(line.socket, facts.node);
  facts.plugin_release = PluginRelease(base::ReadFile(line.path, kMaxPlugin).value_or(""));
  return facts;
}

void RunCheck(Context& context, const std::string& asked) {
  const Result<std::string> node = NodeHere(asked);
  if (!node) return context.Fail(node.error());
  const std::vector<Finding> findings = CheckSlurm(AskSlurm(context, *node));
  Print(context, context.json ? base::DumpJson(FindingsJson(findings)) + "\n"
                              : DoctorText(findings, ScreenOf(context.out)));
  if (Worst(findings) == Level::kBad) context.exit_code = kExitFailure;
}

// ---- prolog and epilog ----

bool JobUsesCarma() {
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::string_view(*variable).starts_with(kOptionSet)) return true;
  }
  return false;
}

// What AskPatiently() does if carmad accepts a request but does not answer it. carmad is then hung,
// and asking again may not help.
enum class IfItHangs { kAskAgain, kGiveUp };

Result<std::string> AskPatiently(Context& context, const std::string& target, IfItHangs hangs) {
  using Clock = std::chrono::steady_clock;
  const auto limit = Clock::now() + kRestart;
  for (;;) {
    const auto asked = Clock::now();
    Result<std::string> answer = context.client().Get(target, kGuardS);
    const bool away = !answer && answer.error().code == ErrorCode::kUnavailable;
    const bool hung = Clock::now() - asked >= std::chrono::seconds(kGuardS);
    if (!away || Clock::now() >= limit || (hung && hangs == IfItHangs::kGiveUp)) return answer;
    std::this_thread::sleep_for(kAgain);
  }
}

void RunGuard(Context& context, bool always) {
  if (!always && !JobUsesCarma()) return;
  const Result<std::string> answer = AskPatiently(context, "/v1/gpus", IfItHangs::kAskAgain);
  if (!answer) context.Fail(base::Wrap(answer.error(), "no GPUs on node " + NodeName()).error());
}

// Ends leases that the job has left behind, which happens if some of the job's processes outlive
// their slurmstepd.
void RunEpilog(Context& context) {
  const std::string job = base::GetEnv("SLURM_JOB_ID");
  if (!base::ParseInt(job))
    return context.Fail(
        {ErrorCode::kInvalid, "SLURM_JOB_ID is not set, but Slurm sets it for epilogs"});
  const std::string target = "/v1/leases?job=" + job;
  const Result<std::string> answer = JobUsesCarma()
                                         ? AskPatiently(context, target, IfItHangs::kGiveUp)
                                         : context.client().Get(target, kGuardS);
  // No error if carmad does not answer; the next job's prolog will report that.
  if (!answer) return;
  const Result<Json> json = base::ParseJson(*answer);
  if (!json || !json->contains("leases")) return;
  for (const Json& each : json->at("leases")) {
    const Result<api::LeaseView> lease = api::FromJson<api::LeaseView>(each);
    if (!lease) continue;
    const std::string cancel = fmt::format("/v1/tasks/{}/cancel", lease->id);
    const Result<std::string> done = context.client().Call("POST", cancel, "", kGuardS);
    if (!done && done.error().code == ErrorCode::kUnavailable) return;
  }
}

}  // namespace

void AddSlurmCommand(Syntax app, Context& context) {
  const Syntax verb =
      app.AddVerb("slurm", "Set up and check a Slurm node: configuration, check, prolog");
  verb.NeedsVerb();
  verb.Footer(
      "  carma slurm config   # lines for slurm.conf, gres.conf, plugstack.conf\n"
      "  carma slurm check    # what is still wrong on this node\n"
      "See docs/server/slurm.md. Every verb also takes --json and --socket PATH.");
  auto node = std::make_shared<std::string>();
  const auto add = [&](const char* name, const char* help) {
    const Syntax one = verb.AddVerb(name, help);
    one.AddOption("--node", "NAME", *node,
                  "node name in Slurm (default: Slurm's node on this host)");
    return one;
  };
  add("config", "Print the lines that Slurm's configuration needs for this server")
      .OnRun([&context, node] { context.Report(RunConfig(context, *node)); });
  add("check", "Check the plug-in, counts and prolog; exit with 1 if something is wrong")
      .OnRun([&context, node] { RunCheck(context, *node); });
  auto always = std::make_shared<bool>(false);
  const Syntax guard =
      verb.AddVerb("guard", "In a prolog: fail unless carmad responds within a minute");
  guard.AddFlag("--always", *always, "also check for jobs without plug-in options");
  guard.OnRun([&context, always] { RunGuard(context, *always); });
  verb.AddVerb("epilog", "In an epilog: end the leases that the job left behind").OnRun([&context] {
    RunEpilog(context);
  });
}

}  // namespace carma::cli
