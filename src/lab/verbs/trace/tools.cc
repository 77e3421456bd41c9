// trace window, sample, map, generate: make a new trace and write it to standard output.
#include <fmt/format.h>

#include "base/text.h"
#include "base/try.h"
#include "cli/client/verbs.h"
#include "lab/trace/job_mapping.h"
#include "lab/verbs/trace/verbs.h"

namespace carma::cli {
namespace {

using base::Duration;

// Parses a time span since the start ("36h", "0") or a date in the trace's own time ("2017-10-09",
// "2017-10-09 12:00", "2017-10-09T12:00:30"). Returns `otherwise` if the text is empty.
Result<Duration> ParseMoment(const char* option, const std::string& text,
                             const trace::JobTrace& trace, Duration otherwise) {
  if (text.empty()) return otherwise;
  constexpr std::string_view kMidnight = "0000-00-00 00:00:00";
  const bool date = text.size() >= 10 && text[4] == '-' && text[7] == '-';
  if (text == "0") return Duration(0);
  if (!date) {
    if (text.find_first_of("smhd") != std::string::npos) {
      if (const Result<Duration> span = base::ParseSpan(text)) return *span;
    }
  } else if (const auto at = trace::ParseLocalTime(
                 text + std::string(kMidnight.substr(std::min(text.size(), kMidnight.size()))))) {
    if (trace.start_ms) return Duration(*at - *trace.start_ms);
    return Invalid(std::string(option) + ": this trace has no dates; give a span like 36h");
  }
  return Invalid(std::string(option) +
                 ": expected a span like 36h since the trace's start or a date like \"2017-10-09 "
                 "12:00\", not '" +
                 base::Printable(text, 40) + "'");
}

// Looks up the number of a name. Returns nothing for an empty name, or kNotFound if the name does
// not occur in the trace.
Result<std::optional<std::uint32_t>> NumberOf(const trace::Names& names, const char* what,
                                              const std::string& name) {
  if (name.empty()) return std::optional<std::uint32_t>();
  for (std::uint32_t i = 1; i < names.size(); ++i) {
    if (names.Text(i) == name) return i;
  }
  return NotFound("the trace has no {} '{}'", what, base::Printable(name, 60));
}

std::string WindowCommand(const WindowFlags& flags) {
  std::string command = "window";
  const auto add = [&command](const char* option, const std::string& value) {
    if (!value.empty()) command += fmt::format(" {} '{}'", option, base::Printable(value, 60));
  };
  add("--from", flags.from);
  add("--to", flags.to);
  add("--vc", flags.vc);
  add("--user", flags.user);
  if (flags.max_gpus) command += fmt::format(" --max-gpus {}", *flags.max_gpus);
  return command;
}

Result<Unit> CutWindow(trace::JobTrace& trace, const WindowFlags& flags) {
  const Duration from = CARMA_TRY(ParseMoment("--from", flags.from, trace, Duration(0)));
  const Duration to = CARMA_TRY(ParseMoment("--to", flags.to, trace, Duration::max()));
  const auto vc = CARMA_TRY(NumberOf(trace.vcs, "virtual cluster", flags.vc));
  const auto user = CARMA_TRY(NumberOf(trace.users, "user", flags.user));
  return trace::KeepJobs(trace, [&](const trace::Job& job) {
    return job.submit >= from && job.submit < to && (!vc || job.vc == *vc) &&
           (!user || job.user == *user) &&
           (!flags.max_gpus || trace::WholeGpus(job) <= *flags.max_gpus);
  });
}

// Warns of classes that got more than their share of the jobs, because no other class has workloads
// that use as many GPUs as these jobs.
void WarnOfMix(Context& context, const std::vector<trace::ClassShare>& mix,
               const trace::MappedTasks& mapped) {
  for (std::size_t i = 0; i < mix.size(); ++i) {
    if (mapped.by_class[i] <= mapped.quotas[i]) continue;
    Warn(context, fmt::format("{} of {} are {}, not {}: no other class uses as many GPUs; "
                              "'trace window --max-gpus' drops such jobs",
                              mapped.by_class[i],
                              base::Counted(mapped.trace.submissions.size() - mapped.kept, "job"),
                              base::Printable(mix[i].weight_class, 40), mapped.quotas[i]));
  }
}

}  // namespace

Result<Unit> RunTraceWindow(Context& context, const WindowFlags& flags) {
  LoadedJobs loaded = CARMA_TRY(LoadJobs(context, flags.source));
  trace::JobTrace& trace = loaded.trace;
  const std::int64_t before = std::ssize(trace.jobs);
  CARMA_TRY(CutWindow(trace, flags));
  trace.provenance.push_back(MadeBy(context, WindowCommand(flags), flags.source, trace));
  trace.provenance.push_back(
      fmt::format("{} of {}", trace.jobs.size(), base::Counted(before, "job")));
  return PrintTrace(context, loaded, trace.format);
}

Result<Unit> RunTraceSample(Context& context, const SampleFlags& flags) {
  if (flags.tasks && flags.load && !flags.scale_time)
    return Invalid("--tasks and --load can be combined only with --scale-time");
  LoadedJobs loaded = CARMA_TRY(LoadJobs(context, flags.source));
  trace::JobTrace& trace = loaded.trace;
  const trace::SampleFacts facts = CARMA_TRY(trace::SampleJobs(trace, flags));
  constexpr double kClose = 0.9;
  const bool all = trace.jobs.size() == facts.from;
  if (all && flags.load && facts.load < kClose * *flags.load) {
    Warn(context, fmt::format("the trace's load is only {:.2f} on {}, so all jobs are kept; "
                              "--scale-time compresses their times",
                              facts.load, base::Counted(flags.gpus, "GPU")));
  }
  std::string command = fmt::format("sample --gpus {}", flags.gpus);
  if (flags.tasks) command += fmt::format(" --tasks {}", *flags.tasks);
  if (flags.load) command += fmt::format(" --load {}", *flags.load);
  if (flags.scale_time) command += " --scale-time";
  command += fmt::format(" --seed {}", flags.seed);
  trace.provenance.push_back(MadeBy(context, command, flags.source, trace));
  trace.provenance.push_back(fmt::format(
      "{} of {}; skipped: {} with more than {}, {} without a duration; load {:.3f}, CV of "
      "gaps {:.2f} (before: {:.2f}), arrival profiles differ by {:.3f}{}",
      trace.jobs.size(), base::Counted(facts.from, "job"), facts.too_large,
      base::Counted(flags.gpus, "GPU"), facts.no_duration, facts.load, facts.cv_after,
      facts.cv_before, facts.profile_distance,
      flags.scale_time ? fmt::format(", times x {:.6g}", facts.time_factor) : ""));
  return PrintTrace(context, loaded, trace.format);
}

Result<Unit> RunTraceMap(Context& context, const MapFlags& flags) {
  LoadedJobs loaded = CARMA_TRY(LoadJobs(context, flags.source));
  std::vector<trace::ClassShare> mix = trace::MixFor(loaded.catalogue);
  if (!flags.mix.empty()) mix = CARMA_TRY(trace::ParseMix(flags.mix));
  const bool groups_as_users = flags.users == "vc";
  if (groups_as_users && loaded.trace.vcs.size() == 1)
    return Invalid("--users vc: the trace names no virtual clusters");
  const trace::MappedTasks mapped =
      CARMA_TRY(trace::MapJobs(loaded.trace, loaded.catalogue,
                               {.mix = mix,
                                .keep_durations = flags.keep_durations,
                                .groups_as_users = groups_as_users,
                                .seed = flags.seed}));
  WarnOfMix(context, mix, mapped);
  std::vector<std::string>& provenance = loaded.trace.provenance;
  provenance.push_back(
      MadeBy(context,
             fmt::format("map{}{}{}{} --seed {}", flags.mix.empty() ? "" : " --mix " + flags.mix,
                         flags.source.workloads.empty()
                             ? ""
                             : " --workloads " + base::Printable(flags.source.workloads),
                         flags.keep_durations ? " --keep-durations" : "",
                         groups_as_users ? " --users vc" : "", flags.seed),
             flags.source, loaded.trace));
  std::string facts;
  for (std::size_t i = 0; i < mix.size(); ++i)
    facts += fmt::format("{}{} {}", i == 0 ? "" : ", ", mapped.by_class[i],
                         mix[i].weight_class.empty() ? "of any class" : mix[i].weight_class);
  provenance.push_back(
      fmt::format("{}, {} named in the trace; {} with a different GPU count, {} of unknown "
                  "duration; skipped: {}",
                  facts, mapped.kept, base::Counted(mapped.other_gpus, "job"), mapped.no_duration,
                  mapped.never_ran));
  return trace::WriteTasks(mapped.trace, provenance, loaded.trace.start_ms, OutputOf(context));
}

Result<Unit> RunTraceGenerate(Context& context, const GenerateFlags& flags) {
  std::string command = fmt::format("generate --tasks {}", flags.tasks);
  if (flags.mean_gap_s) command += fmt::format(" --mean-gap {}", *flags.mean_gap_s);
  if (flags.max_gpus) command += fmt::format(" --max-gpus {}", *flags.max_gpus);
  command += fmt::format(" --seed {}", flags.seed);

  trace::JobGenerator generator(flags);
  LoadedJobs made;
  std::vector<std::string>& provenance = made.trace.provenance;
  if (flags.fit.path.empty()) {
    provenance.push_back(
        fmt::format("made by carma {}: trace {}, built-in defaults", context.version, command));
  } else {
    made = CARMA_TRY(LoadJobs(context, flags.fit));
    generator = CARMA_TRY(trace::JobGenerator::Fit(made.trace, flags));
    made.trace.jobs.clear();
    made.trace.start_ms.reset();  // generated jobs have no time of day
    provenance.push_back(MadeBy(context, command, flags.fit, made.trace));
    provenance.push_back(fmt::format("fitted to {} jobs", generator.fitted()));
  }
  const auto next = [&] { return generator.Next(); };
  if (made.trace.format != kTaskFormat)
    return trace::WriteJobs(made.trace, flags.tasks, next, OutputOf(context));
  if (flags.tasks > trace::kMaxTraceTasks)
    return Invalid("--tasks: a task trace can hold at most {} tasks", trace::kMaxTraceTasks);
  for (std::size_t i = 0; i < flags.tasks; ++i) made.trace.jobs.push_back(next());
  return PrintTrace(context, made, kTaskFormat);
}

}  // namespace carma::cli
