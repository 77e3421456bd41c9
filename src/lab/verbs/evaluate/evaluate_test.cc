// End-to-end tests of carma estimate evaluate on a small data set.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "cli/fake_daemon.h"
#include "lab/verbs/lab.h"

namespace carma::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Evaluations : public ::testing::Test {
 protected:
  void SetUp() override {
    Write(
        "layers.jsonl",
        R"({"model":"net","family":"nets","input":[3,64,64],"output":[-1,64,64,64],"params":1728,)"
        R"("layers":[["Conv2d",[-1,3,64,64],[-1,64,64,64],1728,0,1728,0,"stem"],)"
        R"(["ReLU",[-1,64,64,64],[-1,64,64,64],0,0,0,0,"act"]]})"
        "\n");
    Write("measured.csv",
          "model,batch,measured_mib,censored,family\nnet,8,1770,0,nets\nnet,512,4600,0,nets\n"
          "net,99999,39600,1,nets\n");
  }
  std::string Write(const std::string& name, const std::string& text) {
    EXPECT_TRUE(base::WriteFileAtomic(Path(name), text));
    return Path(name);
  }
  std::string Path(const std::string& name) { return daemon_.dir() + "/" + name; }
  Ran Run(std::vector<std::string> more) {
    std::vector<std::string> words = {"estimate", "evaluate"};
    words.insert(words.end(), more.begin(), more.end());
    return RunWords(daemon_.socket_path(), std::move(words), "", LabProgram());
  }
  std::vector<std::string> DataSet() {
    return {"--layers", Path("layers.jsonl"), "--measured", Path("measured.csv")};
  }
  Ran RunDataSet(std::initializer_list<const char*> more) {
    std::vector<std::string> words = DataSet();
    words.insert(words.end(), more.begin(), more.end());
    return Run(std::move(words));
  }
  FakeDaemon daemon_;
};

TEST_F(Evaluations, GiveARowPerEstimatorThatHasAnAnswer) {
  const Ran ran = RunDataSet({});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("structural"));
  EXPECT_THAT(ran.out, HasSubstr("horus"));
  EXPECT_THAT(ran.out, Not(HasSubstr("given ")));
}

TEST_F(Evaluations, CountCensoredRunsSeparately) {
  const Ran ran = RunDataSet({"--json", "-e", "structural", "--by", "family"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const auto json = base::ParseJson(ran.out);
  ASSERT_TRUE(json);
  const base::Json& all = (*json)["estimators"][0];
  EXPECT_EQ(all["n"], 2);
  EXPECT_EQ(all["censored"], 1);
  EXPECT_EQ(all["censored_above_card"], 1);
  EXPECT_LT(all["mape"].get<double>(), 0.2);
  EXPECT_EQ((*json)["estimators"][1]["family"], "nets");
}

TEST_F(Evaluations, ShowARowForOnlyCensoredRuns) {
  EXPECT_TRUE(base::WriteFileAtomic(Path("censored.csv"),
                                    "model,batch,measured_mib,censored\nnet,8,39000,1\n"));
  const Ran ran = Run({"--layers", Path("layers.jsonl"), "--measured", Path("censored.csv")});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("structural"));
  EXPECT_THAT(ran.out, HasSubstr("0/1"));
  EXPECT_THAT(ran.out, Not(HasSubstr("history ")));
}

TEST_F(Evaluations, CalibrateOnEachFamilyInTurn) {
  Write("measured.csv",
        "model,batch,measured_mib,censored,family\nnet,8,1770,0,nets\nnet,16,1800,0,others\n");
  const Ran ran = RunDataSet({"--calibrate", "each"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("TEACHER"));
  EXPECT_THAT(ran.out, HasSubstr("Mean errors rise by at most 0.00"));
  const auto json = base::ParseJson(RunDataSet({"--calibrate", "each", "--json"}).out);
  ASSERT_TRUE(json);
  ASSERT_EQ((*json)["teachers"].size(), 2U);
  EXPECT_EQ((*json)["teachers"][0]["own_shipped"]["n"], 1);
  EXPECT_THAT((*json)["teachers"][0]["reason"].get<std::string>(), HasSubstr("as shipped"));
}

TEST_F(Evaluations, WriteEveryPredictionOnRequest) {
  const Ran ran = RunDataSet({"--rows", "-e", "faketensor,structural"});
  EXPECT_THAT(ran.out, HasSubstr("faketensor,net,8,1770,"));
  EXPECT_THAT(ran.out, HasSubstr("\nstructural,net,8,1770,"));
  EXPECT_EQ(ran.out.rfind("estimator,"), 0U) << "one header";
}

TEST_F(Evaluations, RefuseUnreadableFiles) {
  const struct {
    std::vector<std::string> words;
    const char* expected;
  } cases[] = {
      {{}, "expected --layers and --measured"},
      {{"--layers", "/nowhere", "--measured", Path("measured.csv")}, "/nowhere"},
      {{"--layers", Path("layers.jsonl"), "--measured", Path("layers.jsonl")}, "layers.jsonl"},
      {{"--catalogue", Path("measured.csv")}, "workload_id"},
      {{"--catalogue", Path("measured.csv"), "--layers", Path("layers.jsonl")},
       "--layers cannot be combined with --catalogue"},
      {{"--catalogue", Path("measured.csv"), "--calibrate", "each", "--rows"},
       "--rows cannot be combined with --calibrate each"},
      {{"--summaries", "/tmp"}, "--summaries requires --catalogue"},
  };
  for (const auto& each : cases) {
    const Ran ran = Run(each.words);
    EXPECT_NE(ran.exit_code, 0);
    EXPECT_THAT(ran.err, HasSubstr(each.expected));
  }
  EXPECT_THAT(RunDataSet({"-e", "oracle"}).err,
              HasSubstr("--estimator: 'oracle': expected all, or one or more of auto,structural"));
  EXPECT_EQ(RunDataSet({"--optimizer", "magic"}).exit_code, 2);
  EXPECT_EQ(RunDataSet({"--calibrate", "others"}).exit_code, 2);
}

}  // namespace
}  // namespace carma::cli
