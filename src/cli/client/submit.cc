// `carma submit` and `carma redo`: turn one description into tasks.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/try.h"
#include "cli/calls.h"
#include "cli/client/changes.h"
#include "cli/client/checks.h"
#include "cli/client/describe.h"
#include "cli/client/gpu_text.h"
#include "cli/client/verbs.h"
#include "cli/ids.h"

namespace carma::cli {
namespace {

constexpr std::size_t kMostCascaded = 100'000;  // limit on tasks searched for dependents

std::vector<std::string> SpecsOf(const Described& described) {
  return described.specs.empty() ? std::vector{described.spec} : described.specs;
}

Result<Unit> RunCheck(Context& context, const Described& described) {
  const std::vector<std::string> specs = SpecsOf(described);
  const auto checked = CheckTasks(context.client(), specs, described.common, described.indices);
  const std::size_t count = std::max(specs.size(), described.indices.size());
  if (checked) {
    Print(context, context.json ? checked->text + "\n" : CheckText(checked->value, count));
    return Unit{};
  }
  if (checked.error().code != ErrorCode::kUnavailable)
    return std::unexpected(NamedAsTyped(checked.error()));
  Warn(context, checked.error().message + "; checked without it");
  Print(context, context.json ? fmt::format("{{\"count\":{},\"tasks\":[]}}\n", count)
                              : "Nothing was submitted; the description is valid.\n");
  return Unit{};
}

// Shows the daemon's remarks and, except with --json, the task numbers.
void Announce(Context& context, const Answer<Submission>& answer, bool parsable) {
  const Submission& submission = answer.value;
  for (const std::string& warning : submission.warnings) Warn(context, warning);
  if (context.json) return;
  const std::string range = RangeText(submission.first, submission.count);
  const char* before = submission.count == 1 ? "Submitted task " : "Submitted tasks ";
  Print(context, (parsable ? "" : before) + range + "\n");
}

void AwaitSubmitted(Context& context, const Submission& submission) {
  std::vector<std::uint64_t> ids;
  for (std::uint64_t i = 0; i < submission.count; ++i) ids.push_back(submission.first + i);
  const bool seen = !context.json && ::isatty(::fileno(context.err)) == 1;
  if (seen)
    std::fprintf(context.err, "carma: waiting for task%s %s to end\n",
                 submission.count == 1 ? "" : "s",
                 RangeText(submission.first, submission.count).c_str());
  // The response to the submission has already been printed, and a second JSON value after it would
  // make the output invalid.
  context.json = false;
  AwaitTasks(context, ids, {.quiet = true, .tell_start = seen && submission.count == 1});
}

}  // namespace

Result<task::SubmitterContext> CallerContext(Context& context, const Settings& settings) {
  task::SubmitterContext caller = CARMA_TRY(CallerContext());
  const bool begins = std::ranges::any_of(
      settings, [](const auto& each) { return each.first == "begin" || each.first == "b"; });
  if (!begins) return caller;
  if (const auto status = GetStatus(context.client()))
    caller.now = base::FromMs(status->value.now_ms);
  return caller;
}

Result<Described> DescribeWords(Context& context, const SubmitFlags& flags) {
  const auto caller = CARMA_TRY(CallerContext(context, flags.settings));
  auto resolved = CARMA_TRY(WithTasksResolved(context, flags.settings));
  SubmitFlags meant = flags;
  meant.settings = std::move(resolved);
  for (std::string& word : meant.sbatch) {
    constexpr std::string_view kDependency = "--dependency=";
    if (!word.starts_with(kDependency)) continue;
    const auto tasks =
        CARMA_TRY(WithTasksResolved(context, {{"dependency", word.substr(kDependency.size())}}));
    word = std::string(kDependency) + tasks.front().second;
  }
  auto described = Describe(meant, context.words, context.literal, caller);
  if (!described) return std::unexpected(NamedAsTyped(described.error()));
  if (!flags.no_check) {
    Result<Unit> can = CheckParameters(described->first);
    // If the task depends on other tasks, skips the check, because those tasks may create the files
    // that are missing now.
    if (can && described->first.dependencies.empty())
      can = CheckItCanStart(described->first, flags.lease);
    CARMA_TRY(
        base::Wrap(can, flags.lease ? "no lease" : "not submitted (--no-check submits anyway)"));
  }
  for (const std::string& warning : described->warnings) Warn(context, warning);
  for (const std::string& warning : StartWarnings(described->first)) Warn(context, warning);
  return described;
}

Result<Unit> RunSubmit(Context& context, const SubmitFlags& flags) {
  if (!flags.batch.empty() || flags.lines) return RunBatch(context, flags);
  const auto described = CARMA_TRY(DescribeWords(context, flags));
  if (flags.check) {
    for (const std::string& note : described.notes) Warn(context, note);
    return RunCheck(context, described);
  }
  const auto answer =
      SubmitTasks(context.client(), SpecsOf(described), described.common, described.indices);
  if (!answer) return std::unexpected(NamedAsTyped(answer.error()));
  Announce(context, *answer, flags.parsable);
  if (context.json) Print(context, answer->text + "\n");
  std::fflush(context.out);
  if (flags.wait) AwaitSubmitted(context, answer->value);
  return Unit{};
}

Result<Unit> RunRedo(Context& context, const RedoFlags& flags) {
  const auto changes = CARMA_TRY(ChangesOf(context, flags.settings));
  const auto ids = CARMA_TRY(ResolveTasks(context, flags.tasks));
  std::vector<DependentTask> again;
  for (const std::uint64_t id : ids) again.push_back({id, {}});
  if (flags.cascade) {
    const auto page =
        CARMA_TRY(ListTasks(context.client(), {.states = "all", .limit = kMostCascaded}));
    again = WithDependents(ids, page.tasks);
  }
  std::map<std::uint64_t, std::uint64_t> renewed;
  std::vector<std::string> texts;
  for (const DependentTask& task : again) {
    auto answer =
        RedoTask(context.client(), task.id, WithDependencies(changes, task.waits_for, renewed));
    if (!answer) {
      base::Error why = NamedAsTyped(answer.error());
      const auto is_qos = [](const auto& each) { return each.first == "qos"; };
      if (why.message.starts_with("--qos:") && std::ranges::none_of(flags.settings, is_qos))
        why.message = fmt::format("task {}: {}; choose a different class with --qos", task.id,
                                  answer.error().message);
      context.Fail(why);
      if (flags.cascade) break;  // dependents of a failed redo would depend on the old task
      continue;
    }
    renewed[task.id] = answer->value.first;
    Announce(context, *answer, flags.parsable);
    texts.push_back(std::move(answer->text));
  }
  if (context.json) PrintNamed(context, texts, flags.cascade || ids.size() > 1);
  return Unit{};
}

}  // namespace carma::cli
