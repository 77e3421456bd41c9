#include "lab/verbs/profile/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "estimate/signature.h"
#include "lab/verbs/profile/results.h"
#include "lab/verbs/profile/workloads.h"
#include "task/describe/spec.h"

namespace carma::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const std::vector<std::string> kTwo{"a", "b"};
const std::vector<ProfileMethod> kAll{ProfileMethod::kStreams, ProfileMethod::kMps,
                                      ProfileMethod::kMig};

std::vector<std::string> Keys(const std::vector<PlannedRun>& plan) {
  std::vector<std::string> keys;
  for (const PlannedRun& run : plan) keys.push_back(KeyOf(run));
  return keys;
}

TEST(ProfilePlan, StartsWithSoloRunsThenPairsThenDegrees) {
  const std::vector<ProfiledType> types{{"T4", 0}};
  const PlanOptions options{
      .methods = {ProfileMethod::kMps}, .repeats = 1, .degrees = {1, 2, 3}, .watchers = {}};
  EXPECT_THAT(Keys(PlanOf(kTwo, types, options)),
              ElementsAre("streams: a, run 1 on T4", "streams: b, run 1 on T4",
                          "mps: a, run 1 on T4", "mps: b, run 1 on T4", "mps: a + a, run 1 on T4",
                          "mps: a + b, run 1 on T4", "mps: b + b, run 1 on T4",
                          "mps: a + a + a, run 1 on T4", "mps: b + b + b, run 1 on T4"));
}

TEST(ProfilePlan, GivesInstancesOneProcessEach) {
  const std::vector<ProfiledType> types{{"A100 1g.5gb", 3}};
  const PlanOptions options{.methods = kAll, .repeats = 1, .degrees = {1, 2, 3, 4}};
  EXPECT_THAT(Keys(PlanOf(std::vector<std::string>{"a"}, types, options)),
              ElementsAre("streams: a, run 1 on A100 1g.5gb", "mig: a + a, run 1 on A100 1g.5gb",
                          "mig: a + a + a, run 1 on A100 1g.5gb"));
}

TEST(ProfilePlan, RunsTheWatchersInTurn) {
  const std::vector<ProfiledType> types{{"T4", 0}};
  const PlanOptions options{.methods = {},
                            .repeats = 2,
                            .pairs = false,
                            .degrees = {},
                            .watchers = {Watcher::kNobody, Watcher::kNvidiaSmi}};
  const std::vector<PlannedRun> plan = PlanOf(std::vector<std::string>{"a"}, types, options);
  ASSERT_THAT(plan, SizeIs(6));
  EXPECT_THAT(KeyOf(plan[2]), HasSubstr("watched by nobody"));
  EXPECT_THAT(KeyOf(plan[3]), HasSubstr("watched by nvidia-smi"));
  EXPECT_EQ(plan[3].repeat, 1);
}

TEST(ProfilePlan, EachRunHasAUniqueName) {
  const std::vector<ProfiledType> types{{"T4", 0}, {"A100 1g.5gb", 7}};
  const PlanOptions options{.methods = kAll,
                            .repeats = 3,
                            .degrees = {1, 2, 3, 4, 5, 6, 7},
                            .watchers = {Watcher::kNobody, Watcher::kCarma}};
  const std::vector<std::string> keys = Keys(PlanOf(kTwo, types, options));
  EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()).size(), keys.size());
}

TEST(ProfilePlan, ExpectsTheTimeOfConservedWork) {
  const auto known = [](const std::string& name) -> std::optional<KnownTime> {
    if (name == "new") return std::nullopt;
    return KnownTime{.load_s = 10, .time_s = 100, .sm_active = 0.8};
  };
  const PlannedRun alone{ProfileMethod::kStreams, "T4", {"a"}, 1, std::nullopt};
  const PlannedRun pair{ProfileMethod::kMps, "T4", {"a", "b"}, 1, std::nullopt};
  EXPECT_DOUBLE_EQ(ExpectedS(alone, known).value_or(0), 110);
  EXPECT_GT(ExpectedS(pair, known).value_or(0), 110 + 60);
  const PlannedRun instances{ProfileMethod::kMig, "T4", {"a", "b"}, 1, std::nullopt};
  EXPECT_DOUBLE_EQ(ExpectedS(instances, known).value_or(0), 110);
  EXPECT_FALSE(ExpectedS({ProfileMethod::kMps, "T4", {"a", "new"}, 1, std::nullopt}, known));
}

// ---- stored results ----

MeasuredRun Full() {
  return {.run = {ProfileMethod::kMps, "T4", {"a", "b"}, 2, Watcher::kDcgmi},
          .gpu = "GPU-a",
          .instances = {{.member = 1, .begin_s = 0.25, .end_s = 10.5, .code = 0},
                        {.member = 0, .begin_s = 0, .end_s = 12, .code = 143, .stopped = true}},
          .load_s = 1.5,
          .unload_s = 0.25,
          .sm_active = 0.5,
          .memory_mib = 4096,
          .energy_j = 1e5,
          .failed = "b ended"};
}

TEST(MeasuredRuns, ParseBackUnchanged) {
  const auto again = ParseMeasuredRun(MeasuredRunJson(Full()));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, Full());
}

TEST(MeasuredRuns, LeaveOutALastLineThatWasCutOff) {
  const std::string line = MeasuredRunJson(Full()) + "\n";
  const auto kept = ParseMeasuredRuns(line + line + line.substr(0, 20), "runs.jsonl");
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_THAT(kept->runs, SizeIs(2));
  EXPECT_EQ(kept->whole_bytes, 2 * line.size());
  const auto broken = ParseMeasuredRuns(line + "{\n" + line, "runs.jsonl");
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message, HasSubstr("runs.jsonl:2: "));
}

TEST(MeasuredRuns, RefuseImpossibleValues) {
  const std::string good = MeasuredRunJson(Full());
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"member\":1", "\"member\":2"},
           {"\"end_s\":10.5", "\"end_s\":0.1"},
           {"\"method\":\"mps\"", "\"method\":\"magic\""},
           {"[\"a\",\"b\"]", "[]"},
           {"\"gpu_type\":\"T4\"", "\"gpu_type\":\"\""}}) {
    std::string bad = good;
    ASSERT_NE(bad.find(from), std::string::npos) << from << " in " << good;
    bad.replace(bad.find(from), from.size(), to);
    EXPECT_FALSE(ParseMeasuredRun(bad)) << bad;
  }
}

// ---- the workloads ----

TEST(ProfiledWorkloads, ParseLinesOfJson) {
  const auto read = ParseProfiledWorkloads(
      "# ours\n{\"name\":\"a\",\"command\":\"python3 train.py\",\"iterations\":100}\n\n"
      "{\"name\":\"b\",\"command\":[\"train\",\"--steps={steps}\"],\"calibrate\":[\"train\"]}\n",
      "ours.jsonl");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_THAT(*read, SizeIs(2));
  EXPECT_THAT((*read)[0].command, ElementsAre("/bin/sh", "-c", "python3 train.py"));
  for (const ProfiledWorkload& each : *read) {
    const auto again = ParseProfiledWorkloads(ProfiledWorkloadJson(each), "again");
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->front(), each);
  }
  const ProfiledWorkload ready = WithSteps((*read)[1], 310);
  EXPECT_THAT(ready.command, ElementsAre("train", "--steps=310"));
  EXPECT_EQ(ready.iterations, 310);
}

TEST(ProfiledWorkloads, HaveTheSignatureOfTheirSubmission) {
  const auto read = ParseProfiledWorkloads(
      "{\"name\":\"a\",\"command\":[\"python3\",\"train.py\"],"
      "\"task\":{\"batch_size\":32,\"optimizer\":\"adam\"}}\n"
      "{\"name\":\"b\",\"command\":[\"python3\",\"train.py\"]}\n",
      "ours.jsonl");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(ParseProfiledWorkloads(ProfiledWorkloadJson((*read)[0]), "again").value().front(),
            (*read)[0]);
  task::TaskSpec spec{.command = {"python3", "train.py"}, .workdir = "/home/ann"};
  spec.batch_size = 32;
  spec.optimizer = "adam";
  const auto signature = [&](std::size_t i) {
    return SignatureOf((*read)[i], "/home/ann", 1000).value_or("none");
  };
  EXPECT_EQ(signature(0), estimate::Signature(spec, 1000, ""));
  EXPECT_NE(signature(0), signature(1));
}

TEST(ProfiledWorkloads, RefuseWithTheLine) {
  struct Case {
    const char* line;
    const char* complaint;
  };
  const Case cases[] = {
      {"{\"name\":\"a\"}", "command"},
      {"{\"command\":\"x\"}", "name"},
      {"{\"name\":\"#a\",\"command\":\"x\"}", "'#'"},
      {"{\"name\":\"a\",\"command\":[]}", "command"},
      {"{\"name\":\"a\",\"command\":\"x {steps}\"}", "calibrate"},
      {"{\"name\":\"a\",\"command\":\"x\",\"workdir\":\"here\"}", "absolute"},
      {"{\"name\":\"a\",\"command\":\"x\",\"step\":1}", "step"},
      {"{\"name\":\"a\",\"command\":\"x\",\"task\":{\"batch\":1}}", "/task"},
      {"{\"name\":\"a\",\"command\":\"x\",\"task\":{\"command\":[]}}", "task"},
      {"name,command", ""},
  };
  for (const Case& each : cases) {
    const auto read = ParseProfiledWorkloads(std::string("\n") + each.line, "ours.jsonl");
    ASSERT_FALSE(read) << each.line;
    EXPECT_THAT(read.error().message, HasSubstr("ours.jsonl:2: ")) << each.line;
    EXPECT_THAT(read.error().message, HasSubstr(each.complaint)) << each.line;
  }
  EXPECT_FALSE(ParseProfiledWorkloads("# nothing\n", "ours.jsonl"));
}

TEST(ProfiledWorkloads, ReadTheStepsFromTheLastObject) {
  EXPECT_EQ(StepsTold("loaded\n{\"steps\":12}\n{\"steps\":310}\nbye\n"), 310);
  EXPECT_FALSE(StepsTold("steps: 310\n"));
  EXPECT_FALSE(StepsTold("{\"steps\":0}\n"));
}

TEST(ProfiledWorkloads, AreBuiltIn) {
  const auto simulated = SimulatedWorkloads({}, "/bin/simtask", 60);
  ASSERT_TRUE(simulated) << simulated.error().message;
  EXPECT_THAT(*simulated, SizeIs(4));
  EXPECT_EQ((*simulated)[0].command[0], "/bin/simtask");
  EXPECT_FALSE(SimulatedWorkloads(std::vector<std::string>{"none"}, "/bin/simtask", 60));
  EXPECT_FALSE(SimulatedWorkloads(std::vector<std::string>{"xlnet-base-2gpu"}, "/bin/simtask", 60));
  const auto trained = TrainedWorkloads({}, "python3", "train.py", 60);
  ASSERT_TRUE(trained) << trained.error().message;
  EXPECT_THAT((*trained)[2].command, ElementsAre("python3", "train.py", "train", "resnet50",
                                                 "--batch", "32", "--steps", "{steps}"));
  EXPECT_FALSE(TrainedWorkloads(std::vector<std::string>{"resnet50"}, "python3", "train.py", 60));
}

}  // namespace
}  // namespace carma::cli
