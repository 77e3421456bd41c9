// Tests `carma simulate` end to end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/fake_daemon.h"
#include "lab/verbs/lab.h"
#include "report/report.h"

namespace carma::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SimulateCommand : public ::testing::Test {
 protected:
  SimulateCommand() {
    std::string name = std::filesystem::temp_directory_path() / "carma-simulate-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~SimulateCommand() override { std::filesystem::remove_all(folder_); }

  static Ran Run(std::vector<std::string> words) {
    words.insert(words.begin(), "simulate");
    return RunWords("/nonexistent.sock", std::move(words), "", LabProgram());
  }
  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = folder_ + "/" + name;
    EXPECT_TRUE(base::WriteFileAtomic(path, text));
    return path;
  }
  std::string Read(const std::string& name) const {
    return base::ReadFile(folder_ + "/" + name, 64 << 20).value_or("");
  }

  std::string folder_;
};

TEST_F(SimulateCommand, NeedsNeitherFilesNorADaemon) {
  const Ran ran = Run({});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("Simulated: 60 tasks of demo60 on dgx-station-a100"),
                             HasSubstr("exclusive"), HasSubstr("CARMA"),
                             HasSubstr("carma simulate --trace demo60")));
}

TEST_F(SimulateCommand, ARuleThatNoGpuMeetsIsReported) {
  const Ran ran = Run({"--policy", "magm,require=free_mib > 1000000"});
  EXPECT_EQ(ran.exit_code, kExitUsage);
  EXPECT_EQ(ran.err,
            "carma: 60 tasks can never start: the policy's rules (require, limits) forbid it\n");
}

TEST_F(SimulateCommand, ALoadOfWhichNothingRunsHasNoMeans) {
  const std::string path =
      Write("t.csv", "submit_s,workload_id,gpu_type\n0,resnet50-b32,h100\n5,resnet50-b32,h100\n");
  const std::vector<std::string> words{"--trace",  path,        "--server", "1xA100-40GB",
                                       "--policy", "exclusive", "--policy", "magm"};
  const Ran text = Run(words);
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_EQ(
      text.err,
      "carma: warning: no task ran under exclusive, magm; --json --record gives the reasons\n");
  EXPECT_THAT(text.out, HasSubstr("cannot be compared, because no task ran in exclusive."));
  std::vector<std::string> as_json = words;
  as_json.emplace_back("--json");
  const Ran json = Run(as_json);
  EXPECT_EQ(json.err, text.err);
  const auto reports = base::ParseJson(json.out);
  ASSERT_TRUE(reports) << reports.error().message;
  const base::Json& first = (*reports)[0];
  for (const base::Json& part : {first, first["groups"][0]}) {
    for (const char* key : {"waiting_s", "execution_s", "jct_s", "slowdown"})
      EXPECT_TRUE(part[key].is_null()) << key;
  }
  EXPECT_TRUE(report::ReportsFromJsonText(json.out)) << "carma report can read it";
}

TEST_F(SimulateCommand, TheNumberOfThreadsDoesNotChangeResults) {
  const std::vector<std::string> words = {"--runs", "4", "--noise", "0.05", "--json"};
  std::vector<std::string> one = words, three = words;
  one.insert(one.end(), {"--threads", "1"});
  three.insert(three.end(), {"--threads", "3"});
  const Ran alone = Run(one);
  EXPECT_EQ(alone.exit_code, 0) << alone.err;
  EXPECT_EQ(alone.out, Run(three).out);
}

TEST_F(SimulateCommand, WarnsOfRunsThatRepeatEachOther) {
  EXPECT_EQ(Run({"--runs", "2", "--policy", "magm"}).err,
            "carma: warning: all runs of a policy are the same; --noise varies the tasks' "
            "durations\n");
  EXPECT_EQ(Run({"--runs", "2", "--policy", "magm", "--noise", "0.03"}).err, "");
  EXPECT_EQ(Run({"--policy", "magm"}).err, "");
  EXPECT_THAT(Run({"--policy", "magm", "--noise", "0.005"}).out,
              HasSubstr("1 run each, 0.5 % noise on durations"));
}

TEST_F(SimulateCommand, PrintsAListOfReportsAsJson) {
  const Ran ran = Run({"--json", "--record", "--policy", "exclusive", "--policy", "magm"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const auto reports = report::ReportsFromJsonText(ran.out);
  ASSERT_TRUE(reports) << reports.error().message;
  ASSERT_EQ(reports->size(), 2u);
  EXPECT_TRUE((*reports)[1].metrics.simulated);
  ASSERT_TRUE((*reports)[1].run);
  EXPECT_EQ((*reports)[1].run->tasks.size(), 60u);
  EXPECT_LT((*reports)[1].metrics.trace_total_s, (*reports)[0].metrics.trace_total_s);
}

TEST_F(SimulateCommand, TheLineThatItPrintsRepeatsARun) {
  const Ran all = Run({"--json", "--runs", "2", "--noise", "0.1", "--policy", "lug,sm_cap=0.7"});
  const auto reports = report::ReportsFromJsonText(all.out);
  ASSERT_TRUE(reports);
  const std::string line = (*reports)[1].metrics.provenance;
  ASSERT_THAT(line, HasSubstr("--policy lug,sm_cap=0.7 --runs 1 --noise 0.1 --seed 2"));
  std::vector<std::string> words;
  for (const std::string_view word : base::SplitWords(line)) words.emplace_back(word);
  words.erase(words.begin(), words.begin() + 2);  // removes "carma simulate"
  words.emplace_back("--json");
  const auto again = report::ReportsFromJsonText(Run(words).out);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->front().metrics, (*reports)[1].metrics);
}

TEST_F(SimulateCommand, AnExperimentFileNamesItsPolicies) {
  const std::string path = Write("e.toml",
                                 "trace = \"demo60\"\nruns = 3\n[common]\nestimator = \"none\"\n"
                                 "[run.alone]\nmapper = \"exclusive\"\n"
                                 "[matrix]\nmapper = [\"magm\", \"lug\"]\n");
  const Ran ran = Run({path, "--runs", "2", "--csv"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(std::ranges::count(ran.out, '\n'), 1 + 3 * 2) << "the flag wins";
  EXPECT_THAT(ran.out, AllOf(HasSubstr("alone"), HasSubstr("lug")));
  EXPECT_THAT(Run({path, "--csv", "--json"}).err,
              HasSubstr("--csv cannot be combined with --json"));
}

TEST_F(SimulateCommand, RowsAndReportsNameTheirSeed) {
  const std::vector<std::string> words = {"--policy", "magm", "--runs",  "2",
                                          "--seed",   "7",    "--noise", "0.03"};
  std::vector<std::string> csv = words, json = words;
  csv.emplace_back("--csv");
  json.emplace_back("--json");
  const Ran ran = Run(csv);
  const std::vector<std::string_view> lines = base::Split(ran.out, '\n');
  ASSERT_EQ(lines.size(), 4u) << ran.out;
  EXPECT_TRUE(lines[0].ends_with(",provenance,seed")) << lines[0];
  EXPECT_TRUE(lines[1].ends_with("\",7")) << lines[1];
  EXPECT_TRUE(lines[2].ends_with("\",8")) << lines[2];
  const auto reports = report::ReportsFromJsonText(Run(json).out);
  ASSERT_TRUE(reports) << reports.error().message;
  EXPECT_EQ((*reports)[1].metrics.seed, 8u);
}

TEST_F(SimulateCommand, PoliciesStartFromAConfiguration) {
  const std::string path = Write("carma.toml",
                                 "[policy]\nmapper = \"first-fit\"\n"
                                 "[collocation]\nmethod = \"streams\"\n");
  const Ran ran = Run({"--config", path, "--policy", "sm_cap=0.5"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("--policy first-fit,collocation=streams,sm_cap=0.5"));
}

TEST_F(SimulateCommand, ReservationsBelongToTheLoad) {
  const std::string path = Write("e.toml",
                                 "reserve = [\"for=nobody gpus=0,1 from=0s for-time=8h\"]\n"
                                 "[run.magm]\nmapper = \"magm\"\n");
  const Ran with = Run({path});
  EXPECT_EQ(with.exit_code, 0) << with.err;
  EXPECT_THAT(with.out, HasSubstr("--reserve 'for=nobody gpus=0,1 from=0s for-time=8h' --policy"));
  const Ran without =
      Run({path, "--reserve", "for=nobody gpus=0,1 from=900h for-time=8h", "--csv"});
  EXPECT_EQ(without.exit_code, 0) << without.err;
  EXPECT_NE(Run({path, "--csv"}).out, without.out) << "the flag wins";
  const Ran wrong = Run({"--reserve", "for=ada gpus=0 from=1h"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("reserve: expected either to= or for-time="));
}

TEST_F(SimulateCommand, WritesFiguresToAFile) {
  const Ran ran = Run({"--policy", "magm", "--html", folder_ + "/out.html"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(Read("out.html"), AllOf(HasSubstr("<svg"), HasSubstr("demo60")));
}

TEST_F(SimulateCommand, EstimatesFromTheWorkloadsSummaries) {
  Write("Net.model",
        "----------------------------------------------------------------\n"
        "        Layer (type)               Output Shape         Param #\n"
        "================================================================\n"
        "            Linear-1                 [-1, 1000]       1,001,000\n"
        "              ReLU-2                 [-1, 1000]               0\n"
        "            Linear-3                   [-1, 10]          10,010\n"
        "================================================================\n"
        "Total params: 1,011,010\n");
  const std::string workloads = Write(
      "w.csv",
      "workload_id,gpus,solo_seconds,solo_smact,mps_sensitivity,mps_pressure,memory_mib,batch_size,"
      "summary_file,optimizer\nnet,1,600,0.3,0.5,0.3,1600,64,net.model,adam\n");
  const std::string trace = Write("t.csv", "submit_s,workload_id\n0,net\n1,net\n");
  const std::vector<std::string> load = {"--trace", trace,      "--workloads",
                                         workloads, "--policy", "magm,estimator=structural"};
  EXPECT_THAT(Run(load).err, HasSubstr("specify their folder with --summaries"));
  const Ran missing =
      Run({"--trace", trace, "--workloads", workloads, "--policy", "magm,estimator=gpumemnet"});
  EXPECT_EQ(missing.exit_code, kExitUsage);
  EXPECT_THAT(missing.err, HasSubstr("no estimates in a column 'gpumemnet_mib'"));
  std::vector<std::string> with = load;
  with.insert(with.end(), {"--summaries", folder_, "--json"});
  const Ran ran = Run(with);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
}

TEST_F(SimulateCommand, TheModelAppliesToEveryPolicy) {
  const std::vector<std::string> policies = {"--csv", "--policy", "exclusive", "--policy", "magm"};
  std::vector<std::string> slower = policies;
  slower.insert(slower.end(), {"--model", "load=10m"});
  const Ran plain = Run(policies);
  const Ran loading = Run(slower);
  EXPECT_EQ(loading.exit_code, 0) << loading.err;
  EXPECT_NE(plain.out, loading.out);
  EXPECT_THAT(loading.out, HasSubstr("--model load=10m --policy exclusive"));
}

TEST_F(SimulateCommand, ShowsTheBoundWithASlowdownLimit) {
  const Ran ran = Run({"--policy", "magm", "--slowdown-limit", "1.5"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("SM activity area, slowdown at most 1.5"),
                             HasSubstr("--seed 1 --slowdown-limit 1.5")));
}

TEST_F(SimulateCommand, MistakesAreUsageErrors) {
  const std::string unordered = Write("u.csv", "submit_s,workload_id\n5,x\n1,x\n");
  const std::string unknown = Write("k.csv", "submit_s,workload_id\n0,nobody\n");
  const struct {
    std::vector<std::string> words;
    const char* message;
  } cases[] = {
      {{"--policy", "magm,sm_cap=2"}, "--policy: sm_cap: expected"},
      {{"--policy", "magm,label=a", "--policy", "lug,label=a"}, "two policies are called 'a'"},
      {{"--model", "memory_ramp=soon"}, "--model: memory_ramp: expected time span"},
      {{"--model", "time_slot=5s"}, "time slot: 5 s is not longer than the load time"},
      {{"--server", "4xABACUS"}, "unknown GPU type 'ABACUS'"},
      {{"--trace", unordered}, "u.csv:3"},
      {{unordered}, "expected an experiment file (TOML); use --trace for a trace"},
      {{"--trace", unknown}, "k.csv:2"},
      {{"--trace", Write("t.csv.gz", "\x1f\x8b\b")}, "t.csv.gz: a gzip file; use gunzip first"},
      {{"--runs", "0"}, "--runs"},
      {{"--record"}, "--record: needs --json"},
      {{"--seed", "-1"}, "--seed: expected a number from 0"},
      {{"--policy", "magm,estimator=crystal-ball"}, "estimator: expected none, oracle"},
      {{Write("bad.toml", "[run.x]\nmappr = \"lug\"\n")},
       "bad.toml:2: mappr: unknown policy keyword"},
      {{"--server", "1xA100-40GB"}, "needs 2 GPUs, but the largest server has 1"},
  };
  for (const auto& each : cases) {
    const Ran ran = Run(each.words);
    EXPECT_EQ(ran.exit_code, kExitUsage) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(each.message));
    EXPECT_EQ(ran.out, "");
  }
}

TEST_F(SimulateCommand, ValidateComparesTheModelsWithoutAnyFile) {
  const Ran ran = Run({"validate"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("All required figures agree."));
}

TEST_F(SimulateCommand, ValidateReplaysAMeasuredRun) {
  const std::string tasks = Write("tasks.csv",
                                  "task_no,workload_id,gpu,start_s,end_s,slowdown\n"
                                  "1,resnet50-b32,0,0,3000,2.0\n"
                                  "2,resnet50-b128,0,0,6000,1.3\n");
  const Ran ran = Run({"validate", "--tasks", tasks});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("slowdown of 2 tasks"), HasSubstr("2 that ran for"),
                             HasSubstr("resnet50-b128")));
  EXPECT_THAT(Run({"validate", "--tasks", tasks, "--least", "90m"}).out,
              HasSubstr("1 that ran for at least"));
  EXPECT_EQ(Run({"validate", "--tasks", tasks, "--least", "soon"}).exit_code, kExitUsage);
  EXPECT_THAT(Run({"validate", "--tasks", tasks, "--runs", "3"}).err,
              HasSubstr("--runs requires --trace"));
  EXPECT_EQ(Run({"--policy", "lug", "validate", "--tasks", tasks}).exit_code, kExitUsage);
  const Ran unknown = Run({"validate", "--trace", Write("t.csv", "submit_s,workload_id\n0,x\n")});
  EXPECT_EQ(unknown.exit_code, kExitUsage);
}

TEST_F(SimulateCommand, ValidateComparesPairsWithTheModelOfStreams) {
  const std::string pairs = Write("pairs.csv",
                                  "speed1,speed2,u1,m1,u2,m2\n0.9,0.8,60,20,90,50\n"
                                  "0.7,0.75,95,60,90,50\n1.0,0.97,20,5,40,20\n");
  const Ran ran = Run({"validate", "--pairs", pairs});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("3 pairs"), HasSubstr("no interference"),
                             HasSubstr("the simulator's"), HasSubstr("best for these pairs")));
  EXPECT_THAT(Run({"validate", "--json", "--pairs", pairs}).out,
              AllOf(HasSubstr("\"pairs\":3"), HasSubstr("\"method\":\"streams\"")));
  const std::string mixed = Write("mixed.csv",
                                  "method,speed1,speed2,u1,m1,u2,m2\nmps,0.9,0.8,50,25,80,10\n"
                                  "streams,0.7,0.6,50,25,80,10\n");
  EXPECT_THAT(Run({"validate", "--pairs", mixed}).out,
              AllOf(HasSubstr("1 pair that took turns"), HasSubstr("1 pair under MPS")));
  EXPECT_EQ(Run({"validate", "--pairs", Write("bad.csv", "speed1\n1\n")}).exit_code, kExitUsage);
}

TEST_F(SimulateCommand, RefusesToValidateAnUnpublishedTrace) {
  const Ran ran = Run({"validate", "--trace", "demo60"});
  EXPECT_EQ(ran.exit_code, kExitUsage);
  EXPECT_THAT(ran.err, HasSubstr("expected a trace of the published evaluation"));
}

}  // namespace
}  // namespace carma::cli
