// trace info: prints statistics of a cluster trace.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/bars.h"
#include "cli/client/verbs.h"
#include "lab/trace/job_statistics.h"
#include "lab/verbs/trace/verbs.h"

namespace carma::cli {
namespace {

using base::Json;
using trace::JobStatistics;

constexpr std::size_t kSlices = 48;
constexpr std::size_t kShownGroups = 5;

// What the catalogue says about the workloads of a trace.
struct WorkloadFacts {
  std::map<std::string, std::size_t> classes;
  std::int64_t highest_mib = 0;  // on one GPU
};

WorkloadFacts FactsOf(const LoadedJobs& loaded) {
  WorkloadFacts facts;
  for (const trace::Job& job : loaded.trace.jobs) {
    const auto workload = loaded.catalogue.Find(loaded.trace.workloads.Text(job.workload));
    const std::string weight_class = workload ? (*workload)->weight_class : "unknown";
    ++facts.classes[weight_class.empty() ? "unclassed" : weight_class];
    if (!workload) continue;
    for (const std::int64_t mib : (*workload)->memory_mib)
      facts.highest_mib = std::max(facts.highest_mib, mib);
  }
  return facts;
}

// ---- JSON ----

Json ToJson(const trace::Spread& spread) {
  return {{"count", spread.count}, {"mean", spread.mean}, {"deviation", spread.deviation},
          {"min", spread.min},     {"p05", spread.p05},   {"p25", spread.p25},
          {"p50", spread.p50},     {"p75", spread.p75},   {"p95", spread.p95},
          {"p99", spread.p99},     {"max", spread.max}};
}

Json ToJson(const std::vector<trace::GroupFacts>& groups) {
  Json list = Json::array();
  for (const trace::GroupFacts& group : groups)
    list.push_back({{"name", group.name}, {"jobs", group.jobs}, {"gpu_hours", group.gpu_hours}});
  return list;
}

Json ToJson(const JobSource& source, const LoadedJobs& loaded, const JobStatistics& facts) {
  const trace::JobTrace& trace = loaded.trace;
  Json complaints = Json::object();
  for (const auto& [kind, count] : trace.complaints.counts())
    complaints[std::string(trace::Describe(kind).key)] = count;
  Json gpus = Json::object();
  for (const auto& [milli, count] : facts.gpu_milli) gpus[fmt::format("{}", milli / 1e3)] = count;
  Json json{{"trace", source.path},
            {"format", trace.format},
            {"sha256", trace.sha256},
            {"provenance", trace.provenance},
            {"jobs", facts.jobs},
            {"cpu_jobs", trace.cpu_jobs},
            {"complaints", complaints},
            {"statuses", facts.statuses},
            {"gpus", gpus},
            {"durations_s", ToJson(facts.durations_s)},
            {"last_submit_s", facts.last_submit_s},
            {"gpu_seconds", facts.gpu_hours * 3600},
            {"offered_gpus", facts.offered_gpus},
            {"arrivals",
             {{"gaps_s", ToJson(facts.arrivals.gaps_s)},
              {"cv", facts.arrivals.cv},
              {"burstiness", facts.arrivals.burstiness},
              {"memory", facts.arrivals.memory},
              {"together", facts.arrivals.together}}},
            {"concurrency",
             {{"span_s", facts.concurrency.span_s},
              {"mean_gpus", facts.concurrency.mean_gpus},
              {"peak_gpus", facts.concurrency.peak_gpus},
              {"peak_jobs", facts.concurrency.peak_jobs},
              {"peak_s", facts.concurrency.peak_s},
              {"mean_gpus_slices", facts.concurrency.mean_slices}}},
            {"users", ToJson(facts.users)},
            {"vcs", ToJson(facts.vcs)}};
  if (facts.arrivals.dispersion)
    json["arrivals"]["dispersion_per_hour"] = *facts.arrivals.dispersion;
  if (trace.start_ms) json["start"] = trace::FormatLocalTime(*trace.start_ms);
  if (!facts.by_hour.empty()) json["by_hour"] = facts.by_hour;
  if (trace.workloads.size() > 1) {
    const WorkloadFacts workloads = FactsOf(loaded);
    json["classes"] = workloads.classes;
    json["highest_memory_mib"] = workloads.highest_mib;
  }
  return json;
}

// ---- text ----

std::string Span(double seconds) {
  return base::FormatSpan(base::Duration(std::llround(seconds * 1000)));
}

// Draws numbers as "▁▂█", relative to the largest number.
template <class Numbers>
std::string Bars(const Numbers& numbers) {
  const double largest = std::max(1e-9, static_cast<double>(*std::ranges::max_element(numbers)));
  std::string bars;
  for (const auto number : numbers) bars += SmallBar(static_cast<double>(number) / largest);
  return bars;
}

std::string CountsText(const std::map<std::string, std::size_t>& counts) {
  std::string text;
  for (const auto& [name, count] : counts)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, name);
  return text;
}

std::string GpusText(const JobStatistics& facts) {
  std::map<int, std::size_t> jobs;  // by number of GPUs; 0: a share of one
  for (const auto& [milli, count] : facts.gpu_milli)
    jobs[milli < 1000 ? 0 : (milli + 999) / 1000] += count;
  std::string text;
  for (const auto& [gpus, count] : jobs) {
    text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", count,
                        gpus == 0 ? "a share of one" : std::to_string(gpus));
  }
  return text;
}

std::string SpreadText(const trace::Spread& spread) {
  return fmt::format("mean {}, 5 % {}, quartiles {} {} {}, 95 % {}, longest {}", Span(spread.mean),
                     Span(spread.p05), Span(spread.p25), Span(spread.p50), Span(spread.p75),
                     Span(spread.p95), Span(spread.max));
}

std::string GroupsText(const std::vector<trace::GroupFacts>& groups, double gpu_hours) {
  std::string text = fmt::format("{}: ", groups.size());
  for (std::size_t i = 0; i < std::min(groups.size(), kShownGroups); ++i) {
    const trace::GroupFacts& group = groups[i];
    text += fmt::format("{}{} {:.0f} % ({})", i == 0 ? "" : ", ",
                        group.name.empty() ? "(not stated)" : base::Printable(group.name, 40),
                        gpu_hours > 0 ? 100 * group.gpu_hours / gpu_hours : 0.0,
                        base::Counted(group.jobs, "job"));
  }
  return text + (groups.size() > kShownGroups ? ", …" : "");
}

std::string ToText(const JobSource& source, const LoadedJobs& loaded, const JobStatistics& facts) {
  const trace::JobTrace& trace = loaded.trace;
  std::string text;
  const auto row = [&text](std::string_view title, const std::string& what) {
    text += fmt::format("{:<13}{}\n", title, what);
  };
  row("Trace", fmt::format("{} ({})", base::Printable(InputName(source.path)), trace.format));
  if (trace.start_ms) row("Start", trace::FormatLocalTime(*trace.start_ms));
  if (trace.workloads.size() > 1) {
    const WorkloadFacts workloads = FactsOf(loaded);
    row("Tasks", fmt::format("{} ({})", facts.jobs, CountsText(workloads.classes)));
    if (workloads.highest_mib > 0)
      row("Memory", "at most " + base::FormatMib(workloads.highest_mib) + " on one GPU");
  } else {
    std::string jobs = std::to_string(facts.jobs);
    if (facts.statuses.size() > 1 || !facts.statuses.contains("unknown"))
      jobs += " (" + CountsText(facts.statuses) + ")";
    if (trace.cpu_jobs > 0) jobs += fmt::format(", and {} without GPUs", trace.cpu_jobs);
    row("Jobs", jobs);
  }
  row("GPUs", GpusText(facts));
  row("Submitted", "within " + Span(facts.last_submit_s));
  row("Durations", facts.durations_s.count > 0 ? SpreadText(facts.durations_s) : "not known");
  row("Work", fmt::format("{:.1f} GPU hours, or {:.1f} GPUs on average over the submission period",
                          facts.gpu_hours, facts.offered_gpus));
  const trace::Arrivals& arrivals = facts.arrivals;
  if (arrivals.gaps_s.count > 0) {
    row("Gaps", SpreadText(arrivals.gaps_s));
    row("Burstiness",
        fmt::format("{:.2f} (CV {:.2f}, memory {:.2f}{})", arrivals.burstiness, arrivals.cv,
                    arrivals.memory,
                    arrivals.dispersion
                        ? fmt::format(", variance/mean per hour {:.1f}", *arrivals.dispersion)
                        : ""));
  }
  const trace::Concurrency& concurrency = facts.concurrency;
  row("Concurrency",
      fmt::format("{:.1f} GPUs on average, peak {:.1f} ({}) after {}", concurrency.mean_gpus,
                  concurrency.peak_gpus, base::Counted(concurrency.peak_jobs, "job"),
                  Span(concurrency.peak_s)));
  row("", fmt::format("{} slices of {}", Bars(concurrency.mean_slices),
                      Span(concurrency.span_s / static_cast<double>(kSlices))));
  if (!facts.by_hour.empty()) row("By hour", Bars(facts.by_hour) + " submissions, 0 to 23 o'clock");
  if (trace.vcs.size() > 1) row("Clusters", GroupsText(facts.vcs, facts.gpu_hours));
  if (trace.users.size() > 1) row("Users", GroupsText(facts.users, facts.gpu_hours));
  for (const std::string& line : trace.provenance) row("Origin", line);
  return text;
}

}  // namespace

Result<Unit> RunTraceInfo(Context& context, const JobSource& source) {
  const LoadedJobs loaded = CARMA_TRY(LoadJobs(context, source));
  const JobStatistics facts = trace::Describe(loaded.trace, kSlices);
  Print(context, context.json ? base::DumpJson(ToJson(source, loaded, facts)) + "\n"
                              : ToText(source, loaded, facts));
  return Unit{};
}

}  // namespace carma::cli
