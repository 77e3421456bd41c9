#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lab/trace/task_trace.h"
#include "lab/trace/workloads.h"

namespace carma::trace {
namespace {

constexpr const char* kHeader =
    "workload_id,gpus,solo_seconds,solo_smact,mps_sensitivity,mps_pressure,memory_mib_run60,"
    "memory_mib_thesis,memory_mib_rad2,memory_mib_run60_gpu2,solo_smact_gpu2,horus_mib,"
    "faketensor_mib,gpumemnet_mib\n";

Result<Catalogue> Rows(const std::string& rows) {
  return Catalogue::Parse(kHeader + rows, "c.csv");
}

TEST(TaskTrace, MayStateTheCoresOfDataLoading) {
  const auto catalogue = Catalogue::Parse(
      "workload_id,gpus,solo_seconds,solo_smact,mps_sensitivity,mps_pressure,memory_mib,cpus\n"
      "hungry,1,100,0.5,0,0,1000,12.5\nunknown,1,100,0.5,0,0,1000,\n",
      "c.csv");
  ASSERT_TRUE(catalogue) << catalogue.error().message;
  const auto trace = ParseTrace("submit_s,workload_id,cpus\n0,hungry,\n1,unknown,3\n", "t.csv");
  ASSERT_TRUE(trace) << trace.error().message;
  const auto played = [&](std::size_t i) {
    const Submission& submission = trace->submissions[i];
    return AsSubmitted(**catalogue->Find(submission.workload_id), submission).cpus;
  };
  EXPECT_EQ(played(0), 12.5);
  EXPECT_EQ(played(1), 3);
  EXPECT_FALSE((*catalogue->Find("unknown"))->cpus);
  EXPECT_FALSE(ParseTrace("submit_s,workload_id,cpus\n0,hungry,-1\n", "t.csv"));
}

TEST(Catalogue, UsesTheBestKnownMemory) {
  const auto catalogue = Rows(
      "measured,1,10,0.5,1,0.1,100.2,200,300,,,,,\n"
      "table,1,10,0.5,1,0.1,,200,300,,,,,\n"
      "file,1,10,0.5,1,0.1,,,300,,,,,\n"
      "pair,2,10,0.5,1,0.1,100,,,50,0.25,,,\n"
      "alike,2,10,0.5,1,0.1,100,,,,,,,\n");
  ASSERT_TRUE(catalogue) << catalogue.error().message;
  const auto memory = [&](const char* id) { return (*catalogue->Find(id))->memory_mib; };
  EXPECT_EQ(memory("measured"), std::vector<std::int64_t>{101}) << "rounded up";
  EXPECT_EQ(memory("table"), std::vector<std::int64_t>{200});
  EXPECT_EQ(memory("file"), std::vector<std::int64_t>{300});
  EXPECT_EQ(memory("pair"), (std::vector<std::int64_t>{100, 50}));
  EXPECT_EQ(memory("alike"), (std::vector<std::int64_t>{100, 100}));
  EXPECT_EQ((*catalogue->Find("pair"))->sm_active, (std::vector<double>{0.5, 0.25}));
}

TEST(Catalogue, DistinguishesUnknownFromUnusable) {
  const auto catalogue = Rows("half,1,,0.5,1,0.1,100,,,,,,,\nbare,1,10,0.5,1,0.1,,,,,,,,\n");
  ASSERT_TRUE(catalogue) << catalogue.error().message;
  EXPECT_EQ(catalogue->workloads().size(), 0u);
  EXPECT_EQ(catalogue->Find("none").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(catalogue->Find("half").error().message,
            "workload 'half' cannot be replayed: the catalogue does not contain its solo_seconds");
  EXPECT_NE(catalogue->Find("bare").error().message.find("memory"), std::string::npos);
}

TEST(Catalogue, RefusesWithTheLine) {
  const std::vector<std::pair<std::string, const char*>> cases{
      {"", "c.csv: no header line"},
      {"a,b\n", "c.csv:1: no column 'workload_id'"},
      {"workload_id,gpus,solo_seconds,solo_smact,mps_sensitivity,mps_pressure\n",
       "c.csv: no column 'memory_mib'"},
      {std::string(kHeader) + "a,1\n", "c.csv:2: 2 columns"},
      {std::string(kHeader) + "a,0,10,0.5,1,0.1,100,,,,,,,\n", "c.csv:2: column 'gpus'"},
      {std::string(kHeader) + "a,1.5,10,0.5,1,0.1,100,,,,,,,\n", "c.csv:2: column 'gpus'"},
      {std::string(kHeader) + "a,1,-1,0.5,1,0.1,100,,,,,,,\n", "c.csv:2: column 'solo_sec"},
      {std::string(kHeader) + "a,1,10,80,1,0.1,100,,,,,,,\n", "c.csv:2: column 'solo_smact'"},
      {std::string(kHeader) + "a,1,10,0.5,1,0.1,1e99,,,,,,,\n", "c.csv:2: column 'memory_mib"},
      {std::string(kHeader) + ",1,10,0.5,1,0.1,100,,,,,,,\n", "c.csv:2: column 'workload_id'"},
      {std::string(kHeader) + "a,1,10,0.5,1,0.1,100,,,,,,,\na,1,10,0.5,1,0.1,100,,,,,,,\n",
       "c.csv:3: workload 'a' is listed twice"},
  };
  for (const auto& [csv, error] : cases) {
    const auto catalogue = Catalogue::Parse(csv, "c.csv");
    ASSERT_FALSE(catalogue) << error;
    EXPECT_TRUE(catalogue.error().message.starts_with(error)) << catalogue.error().message;
  }
}

TEST(Catalogue, RefusesAnEstimatorWithoutEstimates) {
  const auto catalogue = Catalogue::Parse(
      "workload_id,gpus,solo_seconds,solo_smact,mps_sensitivity,mps_pressure,"
      "memory_mib,horus_mib,gpumemnet_mib\na,1,60,0.5,1,0.1,100,120,\n",
      "c.csv");
  ASSERT_TRUE(catalogue) << catalogue.error().message;
  for (const char* source : {"none", "oracle", "horus"})
    EXPECT_TRUE(catalogue->CheckEstimates(source)) << source;
  EXPECT_FALSE(catalogue->CheckEstimates("gpumemnet")) << "an empty column";
  const auto missing = catalogue->CheckEstimates("faketensor");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message,
            "the catalogue has no estimates in a column 'faketensor_mib'; add them or choose "
            "another estimator");
}

TEST(Estimate, UsesTheRequestedColumn) {
  Workload workload{.id = "w", .gpus = 2, .memory_mib = {26'240, 16'260}};
  workload.estimates_mib = {40'000, std::nullopt, 24'000};
  EXPECT_EQ(Estimate(workload, "none"), MemoryEstimate());
  EXPECT_EQ(Estimate(workload, "oracle"), (MemoryEstimate{26'240, false}));
  EXPECT_EQ(Estimate(workload, "horus"), (MemoryEstimate{std::nullopt, true}));
  EXPECT_EQ(Estimate(workload, "faketensor"), MemoryEstimate()) << "not in the file";
  EXPECT_EQ(Estimate(workload, "gpumemnet"), (MemoryEstimate{24'000, false}));
  EXPECT_EQ(ParseEstimateSource("gpumemnet"), "gpumemnet");
  EXPECT_EQ(ParseEstimateSource("none"), "none");
  EXPECT_EQ(ParseEstimateSource("GPUMemNet").error().message,
            "expected none, oracle, horus, faketensor or gpumemnet, not 'GPUMemNet'");
}

TEST(SimTaskArguments, DescribeTheWorkload) {
  const Workload workload{.id = "w",
                          .gpus = 2,
                          .solo_s = 4060,
                          .sm_active = {0.83, 0.81},
                          .mps_sensitivity = 0.71,
                          .mps_pressure = 0.69,
                          .memory_mib = {26'240, 16'260}};
  EXPECT_EQ(
      SimTaskArguments(workload),
      (std::vector<std::string>{"--memory-mib", "26240,16260", "--solo-s", "4060", "--sm-active",
                                "0.83,0.81", "--sensitivity", "0.71", "--pressure", "0.69"}));
}

TEST(ParseTrace, ReadsSubmissions) {
  const auto trace =
      ParseTrace("# made by hand\nsubmit_s,workload_id\n0,a\n1.5,b\n1.5,a\n", "t.csv");
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->submissions.size(), 3u);
  EXPECT_EQ(trace->submissions[1].at, base::Duration(1500));
  EXPECT_EQ(trace->submissions[1].workload_id, "b");
  EXPECT_EQ(trace->submissions[1].line, 4);
}

TEST(ParseTrace, ReadsTheDurationOfATask) {
  const auto trace = ParseTrace("submit_s,workload_id,solo_s\n0,a,90\n1,a,\n", "t.csv");
  ASSERT_TRUE(trace) << trace.error().message;
  const Workload workload{.id = "a", .solo_s = 10};
  EXPECT_EQ(AsSubmitted(workload, trace->submissions[0]).solo_s, 90);
  EXPECT_EQ(AsSubmitted(workload, trace->submissions[1]).solo_s, 10);
}

TEST(ParseTrace, IgnoresOtherColumns) {
  const auto trace = ParseTrace("submit_s,workload_id,gpus,note\n0,a,1,x\n", "t.csv");
  EXPECT_TRUE(trace) << trace.error().message;
}

TEST(ParseTrace, ReadsUserAndClassOfATask) {
  const auto trace =
      ParseTrace("submit_s,workload_id,user,account,qos\n0,a,ada,vision,urgent\n1,a,,,\n", "t.csv");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->submissions[0].user, "ada");
  EXPECT_EQ(trace->submissions[0].account, "vision");
  EXPECT_EQ(trace->submissions[0].qos, "urgent");
  EXPECT_EQ(trace->submissions[1].account + trace->submissions[1].qos, "");
}

TEST(ParseTrace, ReadsAnyGpuTypeAsEmpty) {
  const auto trace = ParseTrace("submit_s,workload_id,gpu_type\n0,a,Any\n1,a,a100\n", "t.csv");
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->submissions[0].gpu_type, "");
  EXPECT_EQ(trace->submissions[1].gpu_type, "a100");
}

TEST(ParseTrace, RefusesWithTheLine) {
  const std::vector<std::pair<std::string, const char*>> cases{
      {"", "t.csv: no header line"},
      {"submit_s,workload_id\n", "t.csv: no tasks"},
      {"submit_s,gpus,duration_s,workload_id\n0,1,60,a\n",
       "t.csv: column 'duration_s' would be ignored; call it 'solo_s', or run 'carma trace map"},
      {"submit_s,workload_id,solo_s,solo_s\n0,a,1,2\n",
       "t.csv:1: two columns are named 'solo_s'; rename or remove one"},
      {"submit_s,workload_id,sol_s\n0,a,60\n",
       "t.csv: unknown column 'sol_s', did you mean solo_s? (rename or remove it)"},
      {"submit_s,workload_id\n1,a,\n",
       "t.csv:2: 3 columns, expected 2; remove the comma at the end"},
      {"submit_s\n0\n",
       "t.csv:1: no column 'workload_id' in the header (for a cluster trace, run 'carma trace "
       "map'"},
      {"submit_s,workload_id\n5,a\n4,a\n", "t.csv:3: submit_s is earlier"},
      {"submit_s,workload_id\n-1,a\n", "t.csv:2: column 'submit_s'"},
      {"submit_s,workload_id\nnan,a\n", "t.csv:2: column 'submit_s'"},
      {"submit_s,workload_id\n1e12,a\n", "t.csv:2: column 'submit_s'"},
      {"submit_s,workload_id\n,a\n", "t.csv:2: column 'submit_s' is empty"},
      {"submit_s,workload_id\n1,\n", "t.csv:2: column 'workload_id' is empty"},
      {"submit_s,workload_id\n1,a,b\n", "t.csv:2: 3 columns"},
      {"submit_s,workload_id,solo_s\n1,a,0\n", "t.csv:2: column 'solo_s'"},
      {"submit_s,workload_id\n1,\"a\n", "t.csv:2: unclosed quote"},
      {"submit_s,workload_id,qos\n1,a,in a hurry\n", "t.csv:2: column 'qos': expected"},
  };
  for (const auto& [csv, error] : cases) {
    const auto trace = ParseTrace(csv, "t.csv");
    ASSERT_FALSE(trace) << error;
    EXPECT_TRUE(trace.error().message.starts_with(error)) << trace.error().message;
  }
}

TEST(MatchWorkloads, NamesTheLineOfAnUnknownWorkload) {
  const auto catalogue = Rows("a,1,10,0.5,1,0.1,100,,,,,,,\n");
  const auto trace = ParseTrace("submit_s,workload_id\n0,a\n1,b\n", "t.csv");
  const auto matched = MatchWorkloads(*trace, *catalogue, "t.csv");
  ASSERT_FALSE(matched);
  EXPECT_EQ(matched.error().message, "t.csv:3: workload 'b' is not in the catalogue");
}

TEST(BuiltIn, DemoTraceHasTheDocumentedMix) {
  const auto catalogue = Catalogue::BuiltIn();
  ASSERT_TRUE(catalogue) << catalogue.error().message;
  EXPECT_EQ(catalogue->workloads().size(), 28u);
  const auto trace = BuiltInDemo60();
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->submissions.size(), 60u);
  EXPECT_EQ(trace->submissions.front().at, base::Duration(0));
  EXPECT_EQ(trace->submissions.back().at, std::chrono::seconds(9000));
  const auto workloads = MatchWorkloads(*trace, *catalogue, "demo60");
  ASSERT_TRUE(workloads) << workloads.error().message;
  std::map<std::string, int> classes;
  int pairs = 0;
  for (const Workload* workload : *workloads) {
    ++classes[workload->weight_class];
    pairs += workload->gpus == 2 ? 1 : 0;
    for (const std::int64_t mib : workload->memory_mib) EXPECT_LT(mib, 40'000) << workload->id;
  }
  EXPECT_EQ(classes, (std::map<std::string, int>{{"light", 7}, {"medium", 44}, {"heavy", 9}}));
  EXPECT_EQ(pairs, 3);
}

}  // namespace
}  // namespace carma::trace
