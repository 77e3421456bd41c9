#include <string>

#include "base/result.h"
#include "base/text.h"
#include "entries.h"
#include "lab/trace/job_generator.h"
#include "lab/trace/job_mapping.h"
#include "lab/trace/job_reader.h"
#include "lab/trace/job_sample.h"
#include "lab/trace/job_statistics.h"
#include "lab/trace/job_writer.h"
#include "lab/trace/task_trace.h"
#include "lab/trace/workloads.h"
#include "profile/profiles.h"

namespace carma::fuzz {
namespace {

const trace::Catalogue& BuiltIn() {
  static const trace::Catalogue kCatalogue = *trace::Catalogue::BuiltIn();
  return kCatalogue;
}

std::string Written(const trace::JobTrace& jobs) {
  std::string text;
  const auto written = trace::WriteJobs(jobs, [&](std::string_view piece) {
    text += piece;
    return Result<Unit>();
  });
  CARMA_CHECK(written.has_value(), "memory takes everything");
  return text;
}

// Checks that the jobs are in order and within the limits, and are unchanged after being written
// and read again.
void CheckJobs(const trace::JobTrace& jobs) {
  CARMA_CHECK(!jobs.jobs.empty(), "a trace has jobs");
  CARMA_CHECK(base::IsUtf8(base::Join(jobs.complaints.told(), "")), "readable complaints");
  for (std::size_t i = 0; i < jobs.jobs.size(); ++i) {
    const trace::Job& job = jobs.jobs[i];
    CARMA_CHECK(i == 0 || jobs.jobs[i - 1].submit <= job.submit, "jobs are in chronological order");
    CARMA_CHECK(job.submit >= base::Duration(0) && job.submit <= trace::kMaxJobSubmit, "submit");
    CARMA_CHECK(job.gpu_milli > 0 && job.gpu_milli <= trace::kMaxJobGpus * 1000, "GPUs");
    CARMA_CHECK(!job.duration ||
                    (*job.duration >= base::Duration(0) && *job.duration <= trace::kMaxJobDuration),
                "duration");
  }
  const std::string text = Written(jobs);
  trace::TextSource source(text);
  const auto again = trace::ReadJobs(source, "again.csv", {.catalogue = &BuiltIn()});
  CARMA_CHECK(again && again->jobs.size() == jobs.jobs.size(), "written jobs can be read back");
  for (std::size_t i = 0; i < jobs.jobs.size(); ++i) {
    CARMA_CHECK(again->jobs[i].submit == jobs.jobs[i].submit &&
                    again->jobs[i].duration == jobs.jobs[i].duration &&
                    again->jobs[i].gpu_milli == jobs.jobs[i].gpu_milli &&
                    again->jobs[i].status == jobs.jobs[i].status,
                "unchanged");
  }
}

// Checks that the trace tools accept every trace that can be read.
void CheckTools(trace::JobTrace& jobs) {
  const trace::JobStatistics facts = trace::Describe(jobs, 4);
  CARMA_CHECK(facts.concurrency.peak_jobs <= jobs.jobs.size(),
              "concurrent jobs do not outnumber all jobs");
  if (const auto mapped = trace::MapJobs(
          jobs, BuiltIn(), {.mix = {{"light", 0.5}, {"heavy", 0.5}}, .keep_durations = true})) {
    CARMA_CHECK(trace::MatchWorkloads(mapped->trace, BuiltIn(), "mapped").has_value(), "known");
  }
  if (auto generator = trace::JobGenerator::Fit(jobs, {.mean_gap_s = 1})) {
    base::Duration last{};
    for (int i = 0; i < 20; ++i) {
      const trace::Job job = generator->Next();
      CARMA_CHECK(job.submit >= last, "generated jobs are in chronological order");
      last = job.submit;
    }
  }
  if (trace::SampleJobs(jobs, {.gpus = 4, .load = 0.5})) {
    CARMA_CHECK(!jobs.jobs.empty() && jobs.jobs[0].submit == base::Duration(0), "from the start");
  }
}

void ReadAndCheck(std::string_view bytes, std::string_view format) {
  trace::TextSource source(bytes);
  auto jobs = trace::ReadJobs(source, "fuzz", {.format = format, .catalogue = &BuiltIn()});
  if (!jobs) {
    CARMA_CHECK(base::IsUtf8(jobs.error().message), "a readable error");
    return;
  }
  CheckJobs(*jobs);
  CheckTools(*jobs);
}

}  // namespace

void FuzzJobs(std::string_view bytes) {
  ReadAndCheck(bytes, "");
}

void FuzzPhilly(std::string_view bytes) {
  ReadAndCheck(bytes, "philly");
}

void FuzzTrace(std::string_view bytes) {
  const auto trace = trace::ParseTrace(bytes, "fuzz.csv");
  if (!trace) {
    CARMA_CHECK(base::IsUtf8(trace.error().message), "a readable error");
    return;
  }
  CARMA_CHECK(!trace->submissions.empty(), "a trace has tasks");
  for (std::size_t i = 1; i < trace->submissions.size(); ++i) {
    CARMA_CHECK(trace->submissions[i - 1].at <= trace->submissions[i].at,
                "submissions are in chronological order");
  }
}

void FuzzCatalogue(std::string_view bytes) {
  const auto catalogue = trace::Catalogue::Parse(bytes, "fuzz.csv");
  if (!catalogue) {
    CARMA_CHECK(base::IsUtf8(catalogue.error().message), "a readable error");
    return;
  }
  const auto workload = catalogue->Find("resnet50-b32");
  if (!workload) return;
  CARMA_CHECK((*workload)->memory_mib.size() == static_cast<std::size_t>((*workload)->gpus),
              "a workload states its memory for each GPU");
  CARMA_CHECK(!trace::SimTaskArguments(**workload).empty(), "arguments");
  for (const char* kind : {"none", "oracle", "horus", "faketensor", "gpumemnet"}) {
    const auto estimate = trace::Estimate(**workload, kind);
    CARMA_CHECK(!estimate.mib || *estimate.mib > 0, "an estimate is positive");
  }
}

void FuzzProfiles(std::string_view bytes) {
  const auto profiles = profile::ParseProfiles(bytes, "fuzz.csv");
  if (!profiles) {
    CARMA_CHECK(base::IsUtf8(profiles.error().message), "a readable error");
    return;
  }
  const auto again = profile::ParseProfiles(profile::ProfilesCsv(*profiles), "again.csv");
  CARMA_CHECK(again && *again == *profiles, "written profiles are read back unchanged");
}

}  // namespace carma::fuzz
