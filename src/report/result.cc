#include "report/result.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text.h"

namespace carma::report {
namespace {

double MeanOf(const Case& of, double (*quantity)(const Metrics&)) {
  double sum = 0;
  for (const Metrics* each : of.replays) sum += quantity(*each);
  return sum / static_cast<double>(of.replays.size());
}

double FailedMean(const Case& of) {
  return MeanOf(of, [](const Metrics& run) { return static_cast<double>(Failed(run)); });
}

double ExecutedMean(const Case& of) {
  return MeanOf(of, [](const Metrics& run) { return static_cast<double>(run.executed); });
}

// "4", "3.5"
std::string TasksText(double count) {
  return LineOf("tasks").text(count);
}

// "24 % ± 1", with as many digits as the error allows.
std::string PercentText(const Change& change) {
  const double percent = std::abs(change.relative.mean) * 100;
  const double sd = change.relative.sd * 100;
  const bool replays = change.relative.runs > 1;
  const int digits = replays ? (sd < 0.95 ? 1 : 0) : (percent < 9.95 ? 1 : 0);
  std::string text = fmt::format("{:.{}f} %", percent, digits);
  if (replays) text += fmt::format(" ± {:.{}f}", sd, digits);
  return text;
}

bool Nothing(const Change& change) {
  return change.within_noise || std::abs(change.relative.mean) < 0.0005;
}

std::string EndsText(const Change& change, bool of_several) {
  if (Nothing(change)) return of_several ? "finishes no earlier than" : "finishes as early as";
  return fmt::format("finishes {} {} than", PercentText(change),
                     change.relative.mean < 0 ? "earlier" : "later");
}

std::string NameOf(const Case& of) {
  return of.label.empty() ? "the other run" : of.label;
}

// The index of the fastest case, not counting the first. A case with more failed tasks than the
// first is chosen only if all of them have more.
std::size_t Best(const std::vector<Case>& cases) {
  const Line& total = LineOf("trace_total_s");
  std::size_t best = 1;
  const auto rank = [&](const Case& of) {
    return std::pair(FailedMean(of) > FailedMean(cases.front()), Over(of, total)->mean);
  };
  for (std::size_t i = 2; i < cases.size(); ++i) {
    if (rank(cases[i]) < rank(cases[best])) best = i;
  }
  return best;
}

// "; 4 of its 60 tasks did not succeed"
std::string FailedText(const Case& of) {
  const double failed = FailedMean(of);
  if (failed <= 0) return "";
  return fmt::format("; {} of its {} did not succeed", TasksText(failed),
                     base::Counted(of.replays.front()->tasks, "task"));
}

std::string Compared(const std::vector<Case>& cases) {
  const Case& base = cases.front();
  const Case& best = cases[Best(cases)];
  for (const Case* each : {&base, &best}) {
    if (ExecutedMean(*each) == 0)
      return fmt::format("The runs cannot be compared, because no task ran in {}.", NameOf(*each));
  }
  const std::optional<Change> total = ChangeOf(LineOf("trace_total_s"), base, best);
  if (!total) return "The runs cannot be compared, because one of them took no time.";
  const char* const of = total->relative.mean > 0 ? ", best of the others," : ", best of these,";
  std::string text = fmt::format("{}{} {} {}", NameOf(best), cases.size() > 2 ? of : "",
                                 EndsText(*total, cases.size() > 2),
                                 base.label.empty() ? "the first run" : base.label);
  const std::optional<Change> jct = ChangeOf(LineOf("jct_mean_s"), base, best);
  if (jct && !Nothing(*jct)) {
    text += fmt::format("; a task completes {} {} after submission", PercentText(*jct),
                        jct->relative.mean < 0 ? "sooner" : "later");
  }
  if (const std::optional<Estimated> slowdown = Over(best, LineOf("slowdown_mean"))) {
    text += fmt::format("{} takes {:.2f} times as long as when running alone",
                        jct && !Nothing(*jct) ? " and" : "; a task", slowdown->mean);
  }
  return text + FailedText(best) + ".";
}

std::string Single(const Case& of) {
  const double executed = ExecutedMean(of);
  const double failed = FailedMean(of);
  if (executed == 0 && failed > 0)
    return fmt::format("No task was run; {} did not succeed.", TasksText(failed));
  if (executed == 0) return "No tasks have ended.";
  const std::size_t runs = of.replays.size();
  std::string text =
      fmt::format("{} task{} in {}{}, with a wait of {} and a run time of {} per task",
                  TasksText(executed), executed == 1 ? "" : "s",
                  SpanText(MeanOf(of, [](const Metrics& run) { return run.trace_total_s; })),
                  runs > 1 ? fmt::format(" (mean of {} runs)", runs) : "",
                  SpanText(MeanOf(of, [](const Metrics& run) { return run.waiting.mean; })),
                  SpanText(MeanOf(of, [](const Metrics& run) { return run.execution.mean; })));
  if (executed > 1) text += " on average";
  if (const std::optional<Estimated> active = Over(of, LineOf("sm_active")))
    text += fmt::format("; the GPUs' SMs were {:.0f} % busy", active->mean * 100);
  if (failed == 0) return text + "; all succeeded.";
  // Counts all tasks, because some of the failed tasks may never have started.
  const double all = Over(of, LineOf("tasks"))->mean;
  return text + fmt::format("; {}{} did not succeed.", TasksText(failed),
                            all == executed ? "" : " of all " + TasksText(all));
}

}  // namespace

std::int64_t Failed(const Metrics& metrics) {
  std::int64_t failed = 0;
  for (const auto& [state, count] : metrics.tasks_by_state) {
    if (core::IsFinal(state) && state != core::TaskState::kSucceeded) failed += count;
  }
  return failed;
}

std::string ResultSentence(std::span<const Metrics> runs) {
  const std::vector<Case> cases = CasesOf(runs);
  if (cases.empty()) return "";
  if (cases.size() > 1) return Compared(cases);
  return Single(cases.front());
}

std::vector<Headline> Headlines(std::span<const Metrics> runs) {
  const std::vector<Case> cases = CasesOf(runs);
  if (cases.empty()) return {};
  const Case& base = cases.front();
  const Case& shown = cases.size() > 1 ? cases[Best(cases)] : base;
  std::vector<Headline> headlines;
  for (const char* key :
       {"trace_total_s", "jct_mean_s", "slowdown_mean", "energy_mj", "oom_crashes"}) {
    const Line& line = LineOf(key);
    const std::optional<Estimated> value = Over(shown, line);
    if (!value) continue;
    Headline& headline = headlines.emplace_back(line.name, line.text(value->mean), "");
    if (&shown == &base) continue;
    if (const std::optional<Change> change = ChangeOf(line, base, shown)) {
      headline.change = Nothing(*change)
                            ? "no difference"
                            : (change->relative.mean < 0 ? "-" : "+") + PercentText(*change);
    }
  }
  return headlines;
}

}  // namespace carma::report
