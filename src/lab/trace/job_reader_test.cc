#include "lab/trace/job_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lab/trace/job_writer.h"

namespace carma::trace {
namespace {

Result<JobTrace> Read(std::string_view text, ReadOptions options = {}) {
  TextSource source(text);
  return ReadJobs(source, "f", options);
}

// Shows each job as "submit gpu_milli duration user vc status workload", with "-" for unknown
// values.
std::string Shown(const JobTrace& trace) {
  std::string text;
  for (const Job& job : trace.jobs) {
    const auto name = [](const std::string& known) { return known.empty() ? "-" : known; };
    text += SecondsText(job.submit) + " " + std::to_string(job.gpu_milli) + " " +
            (job.duration ? SecondsText(*job.duration) : "-") + " " +
            name(trace.users.Text(job.user)) + " " + name(trace.vcs.Text(job.vc)) + " " +
            name(std::string(JobStatusName(job.status))) + " " +
            name(trace.workloads.Text(job.workload)) + "\n";
  }
  return text;
}

constexpr const char* kPhilly = R"([
 {"status": "Pass", "vc": "v1", "jobid": "application_1",
  "attempts": [
   {"start_time": "2017-10-07 01:12:00", "end_time": "2017-10-07 01:13:00",
    "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0"]}]},
   {"start_time": "2017-10-07 02:00:00", "end_time": "2017-10-07 03:00:30",
    "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]}],
  "submitted_time": "2017-10-07 01:11:30", "user": "u {1}"},
 {"status": "Killed", "vc": "v1", "jobid": "application_2", "attempts": [],
  "submitted_time": "2017-10-07 01:11:00", "user": "u2"},
 {"status": "Failed", "vc": "v2", "jobid": "application_3",
  "attempts": [{"start_time": "2017-10-07 01:12:00", "end_time": null,
                "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}],
  "submitted_time": "2017-10-07 01:10:30", "user": "u2"}
])";

constexpr const char* kHelios =
    "job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,"
    "duration,queue\n"
    "1,u1,v1,\"a, b\",1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 "
    "04:55:09,36848,0\n"
    "2,u2,v2,x,0,16,1,FAILED,2020-06-09 18:41:05,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0\n"
    "3,u2,v2,x,8,16,1,TIMEOUT,2020-06-09 18:42:01,2020-06-09 18:43:01,2020-06-09 18:43:31,,0\n";

constexpr const char* kOpenb =
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_"
    "time,"
    "scheduled_time\n"
    "p0,12000,16384,1,1000,,LS,Running,100,12637,100\n"
    "p1,6000,12288,1,460,,BE,Succeeded,110,130,115\n"
    "p2,6000,12288,0,0,,BE,Succeeded,111,130,115\n"
    "p3,6000,12288,8,1000,V100M16|V100M32,LS,Pending,120,130,\n";

constexpr const char* kPai =
    "j1,tensorflow,1.0,Terminated,1000.0,1100.0,600.0,29.3,50.0,MISC\n"
    "j2,worker,4.0,Failed,1010.0,1110.5,600.0,29.3,100.0,V100\n"
    "j2,ps,2.0,Failed,1010.0,1200.0,600.0,29.3,,CPU\n"
    "j2,evaluator,1.0,Failed,1005.0,1050.0,600.0,29.3,25.0,V100\n"
    "j3,worker,,Running,1020.0,,600.0,29.3,100.0,V100\n";

TEST(ReadJobs, RecognisesEveryFormatByItsContent) {
  struct Case {
    const char* format;
    std::string text;
    std::string jobs;
    std::string start;
    std::size_t cpu_jobs = 0;
    std::size_t complaints = 0;
  };
  const std::vector<Case> cases{
      {"philly", kPhilly,
       "0 1000 - u2 v2 failed -\n"
       "60 3000 3690 u {1} v1 passed -\n",
       "2017-10-07T01:10:30", 0, 2},
      {"helios", kHelios,
       "0 1000 36848 u1 v1 passed -\n"
       "60 8000 30 u2 v2 killed -\n",
       "2020-06-09T18:41:01", 1, 0},
      {"openb", kOpenb,
       "0 1000 12537 - LS running -\n"
       "10 460 15 - BE passed -\n"
       "20 8000 - - LS pending -\n",
       "", 1, 1},
      {"pai", kPai,
       "0 500 100 - - passed -\n"
       "5 4250 105.5 - - failed -\n"
       "20 1000 - - - running -\n",
       "1970-01-01T08:16:40", 1, 1},
      {"pai",
       "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,"
       "gpu_type\n" +
           std::string(kPai),
       "0 500 100 - - passed -\n"
       "5 4250 105.5 - - failed -\n"
       "20 1000 - - - running -\n",
       "1970-01-01T08:16:40", 1, 1},
      {"pai-jobs", "j1,i1,u1,Terminated,500.0,600.0\nj2,i2,u2,Waiting,,\n",
       "0 1000 100 u1 - passed -\n", "1970-01-01T08:08:20", 0, 1},
      {"jobs", "vc,submit_s,gpus,duration_s\nv1,5,1,100\nv1,6,16,200\nv2,0,2,300\n",
       "0 2000 300 - v2 - -\n"
       "5 1000 100 - v1 - -\n"
       "6 16000 200 - v1 - -\n",
       "", 0, 1},
      {"jobs",
       "# start: 2020-01-02T03:04:05\n# of somewhere\n"
       "submit_s,gpus,gpu_milli,phase,duration_s\r\n0.5,1,460,Running,10\r\n1,8,1000,Failed,\r\n",
       "0.5 460 10 - - running -\n"
       "1 8000 - - - failed -\n",
       "2020-01-02T03:04:05", 0, 1},
      {"tasks",
       "submit_s,workload_id,solo_s\n0,bert-base-b32,\n7,gpt2-large-2gpu,12.5\n9,nobody,\n",
       "0 1000 925 - - - bert-base-b32\n"
       "7 2000 12.5 - - - gpt2-large-2gpu\n",
       "", 0, 1},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.text);
    const auto trace = Read(each.text);
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_EQ(trace->format, each.format);
    EXPECT_EQ(Shown(*trace), each.jobs);
    EXPECT_EQ(trace->start_ms ? FormatLocalTime(*trace->start_ms) : "", each.start);
    EXPECT_EQ(trace->cpu_jobs, each.cpu_jobs);
    EXPECT_EQ(trace->complaints.total(), each.complaints);
    EXPECT_TRUE(Read(each.text, {.format = each.format})) << "format named explicitly";
  }
}

TEST(ReadJobs, ReportsMistakesInALine) {
  const std::string header = "submit_s,gpus,duration_s,status\n";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"3,1", "f:3: truncated line: '3,1'; skipped"},
      {"3,1,5,passed,",
       "f:3: more values than columns (is there a comma at the end?): '5 instead of 4'; skipped"},
      {"3,1,\"5,passed", "f:3: truncated line: '3,1,\"5,passed'; skipped"},
      {",1,5,", "f:3: no usable submission time; skipped"},
      {"-3,1,5,", "f:3: no usable submission time: '-3'; skipped"},
      {"1e99,1,5,", "f:3: no usable submission time: '1e99'; skipped"},
      {"3,,5,", "f:3: no GPU count; skipped"},
      {"3,many,5,", "f:3: invalid GPU count: 'many'; skipped"},
      {"3,-1,5,", "f:3: invalid GPU count: '-1'; skipped"},
      {"3,4097,5,", "f:3: invalid GPU count: '4097'; skipped"},
      {"3,0.0001,5,", "f:3: invalid GPU count: '0.0001'; skipped"},
      {"3,1,,", "f:3: no duration; job kept without a duration"},
      {"3,1,-5,", "f:3: invalid duration: '-5'; job kept without a duration"},
      {"3,1,1e12,", "f:3: invalid duration: '1e12'; job kept without a duration"},
      {"1,1,5,", "f:3: submitted before the job on the line above: '1'; sorted into place"},
      {"3,1,5,sleepy", "f:3: unknown status: 'sleepy'; job kept without a status"},
      {std::string(70'000, '1') + ",1,5,",
       "f:3: line longer than 64 KiB: '" + std::string(40, '1') + "'; skipped"},
  };
  for (const auto& [row, told] : cases) {
    SCOPED_TRACE(told);
    const std::string text = header + "2,1,5,\n" + row + "\n4,1,5,\n";
    const auto trace = Read(text);
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_EQ(trace->complaints.told(), std::vector<std::string>{told});
    EXPECT_EQ(trace->jobs.size(), told.ends_with("skipped") ? 2u : 3u);
    const auto strict = Read(text, {.strict = true});
    ASSERT_FALSE(strict);
    EXPECT_EQ(strict.error().message, told + " (not with --strict)");
  }
}

TEST(ReadJobs, IgnoresColumnsThatResembleNoMissingOne) {
  for (const char* text :
       {"submit_s,gpus,duration_s,gpu,start_s,user,users\n0,1,5,,,,\n",
        "submit_s,gpus,duration_s,cpu_milli,host_memory_mib,gpu_spec\n0,1,5,,,\n",
        "submit_s,gpus,duration_s,,\n0,1,5,,\n",
        "submit_s,workload_id,gpus,state\n0,bert-base-b32,1,x\n"}) {
    const auto trace = Read(text);
    EXPECT_TRUE(trace) << trace.error().message;
  }
}

TEST(ReadJobs, ReportsAStartThatItCannotRead) {
  const auto trace = Read("# start: 2020-03-01T00:00:00+01:00\nsubmit_s,gpus,duration_s\n0,1,5\n");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->complaints.told(),
            std::vector<std::string>{"f:1: invalid start: '2020-03-01T00:00:00+01:00'; ignored "
                                     "(expected local time, such as 2020-03-01T00:00:00)"});
}

TEST(ReadJobs, AJobWithoutAShareUsesAWholeGpu) {
  const auto trace = Read("submit_s,gpus,duration_s,gpu_milli\n0,1,5,\n1,1,5,460\n");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->complaints.total(), 0u);
  ASSERT_EQ(trace->jobs.size(), 2u);
  EXPECT_EQ(trace->jobs[0].gpu_milli, 1000);
  EXPECT_EQ(trace->jobs[1].gpu_milli, 460);
}

TEST(ReadJobs, TheClassOfAPodIsNotATaskClass) {
  const auto pods = Read("submit_s,gpus,duration_s,gpu_milli,qos\n0,1,5,460,Burstable\n");
  ASSERT_TRUE(pods) << pods.error().message;
  EXPECT_EQ(pods->wishes.size(), 1u) << "carma simulate would refuse an unknown class";
  EXPECT_EQ(pods->vcs.Text(pods->jobs[0].vc), "Burstable") << "as with format openb";
  const auto jobs = Read("submit_s,gpus,duration_s,qos\n0,1,5,interactive\n");
  ASSERT_TRUE(jobs) << jobs.error().message;
  EXPECT_EQ(jobs->wishes.Text(jobs->jobs[0].wishes), ",interactive,,");
}

TEST(ReadJobs, CountsAllComplaintsAndShowsTheFirst) {
  std::string text = "submit_s,gpus,duration_s\n0,1,1\n";
  for (int i = 0; i < 1000; ++i) text += "1,1,-1\n";
  const auto trace = Read(text);
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->complaints.counts().at(Complaint::kDuration), 1000u);
  EXPECT_EQ(trace->complaints.told().size(), Complaints::kToldOfEach);
}

TEST(ReadJobs, RefusesOtherFiles) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "f: empty"},
      {"# only a comment\n", "f: empty"},
      {"runtime_s\n1\n", "f:1: expected a trace in one of the formats philly, jobs, tasks"},
      {"submit_s,gpus,duration_s\n", "f: no jobs use GPUs"},
      {"submit_s,gpus,duration_s\n1,0,5\n", "f: no jobs use GPUs"},
      {"submit_s,gpus,duration_s\n1,x,5\n", "f: no jobs use GPUs; the first problem: f:2: invalid"},
      {"submit_s,gpus,duration_s,gpus\n1,1,5,2\n", "f:1: two columns are named 'gpus'; rename or"},
      {"# a\nsubmit_s,gpus,duration_s,usr\n1,1,5,ada\n",
       "f:2: unknown column 'usr', did you mean user? (rename or remove it)"},
      {"submit_s,workload_id,solos\n1,bert-base-b32,5\n",
       "f:1: unknown column 'solos', did you mean solo_s? (rename or remove it)"},
      {"[]", "f: no jobs use GPUs"},
      {"\x1f\x8b\b", "f: a gzip file; use gunzip first"},
      {"[{\"a\":", "f: no jobs use GPUs; the first problem: f:1: truncated line"},
      {"[{\"a\":\"" + std::string(2 << 20, 'x'), "f:1: a job record exceeds 1 MiB"},
  };
  for (const auto& [text, error] : cases) {
    const auto trace = Read(text);
    ASSERT_FALSE(trace) << error;
    EXPECT_TRUE(trace.error().message.starts_with(error)) << trace.error().message;
    EXPECT_EQ(trace.error().code, ErrorCode::kInvalid);
  }
  const auto semicolons = Read("submit_s;gpus;duration_s\n");
  EXPECT_TRUE(semicolons.error().message.ends_with(
      " (jobs: comma-separated, with the columns submit_s, gpus, duration_s), not "
      "'submit_s;gpus;duration_s'"))
      << semicolons.error().message;
  EXPECT_EQ(Read("gpus\n1\n", {.format = "jobs"}).error().message,
            "f:1: expected the columns of format jobs: submit_s, gpus, duration_s, not 'gpus'");
  EXPECT_FALSE(Read(kHelios, {.format = "openb"}));
  EXPECT_FALSE(Read(kHelios, {.format = "slurm"}));
  const auto many = Read(kOpenb, {.max_jobs = 2});
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().message, "f: more than 2 jobs with GPUs; use part of the file");
}

TEST(ReadJobs, ReportsWhereATornJsonFileEnds) {
  const std::string text(kPhilly);
  const auto trace = Read(text.substr(0, text.size() - 40));
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->jobs.size(), 1u);
  ASSERT_FALSE(trace->complaints.told().empty());
  EXPECT_TRUE(trace->complaints.told().back().starts_with("f:11: truncated line: '"))
      << trace->complaints.told().back();
}

TEST(ReadJobs, ReadsBackAWrittenTrace) {
  for (const char* text : {kPhilly, kHelios, kOpenb, kPai}) {
    auto trace = Read(text);
    ASSERT_TRUE(trace);
    trace->provenance = {"made by hand", "of something, \"odd\""};
    std::string written;
    const auto append = [&](std::string_view piece) -> Result<Unit> {
      written += piece;
      return Unit{};
    };
    ASSERT_TRUE(WriteJobs(*trace, append));
    const auto again = Read(written);
    ASSERT_TRUE(again) << again.error().message << written;
    EXPECT_EQ(again->format, "jobs");
    EXPECT_EQ(Shown(*again), Shown(*trace));
    EXPECT_EQ(again->provenance, trace->provenance);
    EXPECT_EQ(again->start_ms, trace->start_ms);
  }
}

// A source that returns a few bytes at a time, like a pipe.
class Drops : public ByteSource {
 public:
  Drops(std::string_view text, std::size_t drop) : text_(text), drop_(drop) {}
  Result<std::size_t> Read(char* to, std::size_t size) override {
    return text_.Read(to, std::min(size, drop_));
  }

 private:
  TextSource text_;
  std::size_t drop_;
};

TEST(ReadJobs, ReadsBytesInAnyPieces) {
  for (const char* text : {kPhilly, kHelios, kPai}) {
    const auto whole = Read(text);
    ASSERT_TRUE(whole);
    for (const std::size_t drop : {1, 2, 7}) {
      Drops source(text, drop);
      const auto trace = ReadJobs(source, "f");
      ASSERT_TRUE(trace) << trace.error().message;
      EXPECT_EQ(Shown(*trace), Shown(*whole));
      EXPECT_EQ(trace->sha256, whole->sha256);
    }
  }
}

TEST(ReadJobs, SkipsALineOfAnyLength) {
  const std::string text = "submit_s,gpus,duration_s\n1,1,5\n" + std::string(700'000, '9') +
                           ",1,5\nx,1,5\n2,1,5\n" + std::string(700'000, '9');
  for (const std::size_t drop : {999, 65'536, 1'000'000}) {
    Drops source(text, drop);
    const auto trace = ReadJobs(source, "f");
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_EQ(trace->jobs.size(), 2u);
    ASSERT_EQ(trace->complaints.told().size(), 3u);
    EXPECT_TRUE(trace->complaints.told()[0].starts_with("f:3: line longer than 64 KiB"));
    EXPECT_TRUE(trace->complaints.told()[1].starts_with("f:4: no usable submission time: 'x'"));
    EXPECT_TRUE(trace->complaints.told()[2].starts_with("f:6: line longer than 64 KiB"));
  }
}

TEST(LocalTime, ReadsTheFormatsOfTraces) {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"2017-10-07 01:12:09", "2017-10-07T01:12:09"},
      {"2020-02-29T23:59:59Z", "2020-02-29T23:59:59"},
      {"1970-01-01T00:00:00.25", "1970-01-01T00:00:00"},
  };
  for (const auto& [text, shown] : cases) {
    const auto ms = ParseLocalTime(text);
    ASSERT_TRUE(ms) << text;
    EXPECT_EQ(FormatLocalTime(*ms), shown);
  }
  for (const char* text :
       {"", "2017-10-07", "2017-02-30 00:00:00", "2017-10-07 24:00:00", "2017-10-07 01:12:09x",
        "2017-10-07 01:12:09.", "20171-0-07 01:12:09", "1969-12-31 23:59:59"}) {
    EXPECT_FALSE(ParseLocalTime(text)) << text;
  }
}

}  // namespace
}  // namespace carma::trace
