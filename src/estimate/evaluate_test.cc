#include "estimate/evaluate.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/file.h"

namespace carma::estimate {
namespace {

Outcome Of(std::int64_t measured_mib, std::int64_t point_mib, std::int64_t bound_mib,
           bool censored = false) {
  Answer answer;
  answer.point_mib = point_mib;
  answer.bound_mib = bound_mib;
  return {.measured_mib = measured_mib, .censored = censored, .answer = answer};
}

TEST(Evaluate, ScoresPredictions) {
  std::vector<Outcome> outcomes = {
      Of(10'000, 9'000, 10'000),         // 10 % under, just covered
      Of(10'000, 9'400, 9'999),          // 6 % under, not covered
      Of(1'000, 1'100, 1'200),           // 10 % over, in a different 1 GiB class
      Of(2'000, 2'000, 2'400),           // exact
      Of(39'000, 50'000, 60'000, true),  // censored, predicted above the card
      Of(39'000, 30'000, 60'000, true),  // censored, predicted below the card
      {.measured_mib = 5, .censored = false, .answer = std::nullopt},
  };
  const Score score = ScoreOf(outcomes, 39'500);
  EXPECT_EQ(score.runs, 4U);
  EXPECT_EQ(score.unanswered, 1U);
  EXPECT_EQ(score.censored, 2U);
  EXPECT_EQ(score.censored_above_card, 1U);
  EXPECT_NEAR(score.mean_error, (0.1 + 0.06 + 0.1 + 0) / 4, 1e-9);
  EXPECT_NEAR(score.median_error, 0.08, 1e-9);
  EXPECT_EQ(score.under, 0.5);
  EXPECT_EQ(score.under_5, 0.5);
  EXPECT_EQ(score.under_10, 0) << "exactly 10 % is not more than 10 %";
  EXPECT_NEAR(score.over, 0.1 / 4, 1e-9);
  EXPECT_EQ(score.same_1gib, 0.5);
  EXPECT_EQ(score.same_8gib, 1);
  EXPECT_EQ(score.covered, 0.75);
  EXPECT_NEAR(score.bound_over, (0.2 + 0.2) / 4, 1e-9);
  EXPECT_TRUE(ClassScoresOf(outcomes).empty());
}

TEST(Evaluate, HandlesEmptyInput) {
  EXPECT_EQ(ScoreOf({}, 1).runs, 0U);
  EXPECT_EQ(ScoreOf({}, 1).mean_error, 0);
}

TEST(Evaluate, ScoresClasses) {
  const auto named = [](std::int64_t measured_mib, int index) {
    Outcome outcome = Of(measured_mib, 1, 1);
    outcome.answer->classes = {{.width_mib = 1000, .index = index}};
    return outcome;
  };
  // Two predictions of class 0 are correct, and one run of class 0 is predicted as class 1. Class 1
  // has one correct prediction. No measured run is in class 3.
  const std::vector<Outcome> outcomes = {named(10, 0), named(20, 0), named(30, 1), named(1500, 1),
                                         named(1700, 3)};
  const auto scores = ClassScoresOf(outcomes);
  ASSERT_EQ(scores.size(), 1U);
  const ClassScore& score = scores[0];
  EXPECT_EQ(score.classes, (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(score.confusion[0], (std::vector<std::size_t>{2, 1, 0}));
  EXPECT_EQ(score.confusion[1], (std::vector<std::size_t>{0, 1, 1}));
  EXPECT_NEAR(score.accuracy, 3.0 / 5, 1e-9);
  EXPECT_NEAR(score.recall, (2.0 / 3 + 1.0 / 2) / 2, 1e-9);
  EXPECT_NEAR(score.precision, (1.0 + 1.0 / 2) / 2, 1e-9);
  EXPECT_NEAR(score.f1, (0.8 + 0.5) / 2, 1e-9);
}

class DataSetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/carma-dataset-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    Write(
        "layers.jsonl",
        R"({"model":"a","family":"f","input":[3,8,8],"output":[-1,4],"params":120,"param_tensors":2,)"
        R"("trainable":120,"listed_params":120,"buffer_bytes":0,"saved_bytes_b2":1600,)"
        R"("saved_bytes_b4":3100,"layers":[["Conv2d",[-1,3,8,8],[-1,4,8,8],112,0,112,0,"stem"],)"
        R"(["Net",[-1,3,8,8],[-1,4],8,0,8,1,""]]})"
        "\n");
    Write("measured.csv",
          "model,batch,measured_mib,censored,family\na,8,1800,0,f\na,16,39600,1,f\nb,8,1,0,g\n");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(base::WriteFileAtomic(Path(name), text));
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

TEST_F(DataSetTest, JoinsModelsAndMeasurements) {
  const auto set =
      ReadDataSet(Path("layers.jsonl"), Path("measured.csv"), {.optimizer = Optimizer::kMomentum});
  ASSERT_TRUE(set) << set.error().message;
  ASSERT_EQ(set->runs.size(), 2U);
  EXPECT_EQ(set->without_model, 1U);
  EXPECT_EQ(set->runs[0].optimizer, Optimizer::kMomentum);
  EXPECT_TRUE(set->runs[1].censored);
  EXPECT_FALSE(set->models[0].saved) << "the rules are used instead";
  const auto exact = ReadDataSet(Path("layers.jsonl"), Path("measured.csv"), {.exact = true});
  ASSERT_TRUE(exact);
  EXPECT_EQ(exact->models[0].saved->per_sample, 750);
}

TEST_F(DataSetTest, ReducesToTorchsummarysOutput) {
  const auto set = ReadDataSet(Path("layers.jsonl"), Path("measured.csv"), {.summary_only = true});
  ASSERT_TRUE(set);
  const model::LayerList& list = set->models[0];
  ASSERT_EQ(list.layers.size(), 1U) << "the model itself has no row";
  EXPECT_TRUE(list.layers[0].in.empty());
  EXPECT_EQ(list.layers[0].kind, model::RowKind::kUnknown);
  EXPECT_FALSE(list.has_input_shapes);
}

TEST_F(DataSetTest, ReportsMistakesInTheFiles) {
  struct Case {
    const char* csv;
    const char* expected;
  };
  const Case cases[] = {
      {"model,batch\na,8\n", "measured_mib"},
      {"model,batch,measured_mib\na,0,100\n", ".csv:2: "},
      {"model,batch,measured_mib\na,8,\n", ".csv:2: "},
      {"model,batch,measured_mib,optimizer\na,8,100,magic\n", "magic"},
      {"model,batch,measured_mib,precision\na,8,100,int3\n", "int3"},
      {"model,batch,measured_mib\nz,8,100\n", "none of the 1 rows"},
  };
  for (const Case& each : cases) {
    Write("bad.csv", each.csv);
    const auto set = ReadDataSet(Path("layers.jsonl"), Path("bad.csv"), {});
    ASSERT_FALSE(set) << each.csv;
    EXPECT_EQ(set.error().code, ErrorCode::kInvalid);
    EXPECT_NE(set.error().message.find(each.expected), std::string::npos) << set.error().message;
  }
}

TEST_F(DataSetTest, ReadsACatalogueOfTasks) {
  std::filesystem::create_directory(Path("summaries"));
  Write("summaries/net.model",
        "{\"model\":\"DataParallel\",\"input\":[3,8,8],\"params\":112,\"layers\":"
        "[[\"Conv2d\",[-1,3,8,8],[-1,4,8,8],112,0,112,0,\"module.stem\"]]}\n");
  Write("catalogue.csv",
        "workload_id,model,dataset,batch_size,gpus,weight_class,memory_mib_thesis,memory_mib_rad2,"
        "memory_mib_run60,summary_file\n"
        "one,a,x,8,1,light,2000,1900,,net.model\n"
        "one_50e,a,x,8,1,light,2000,1900,,net.model\n"  // the same task with more epochs
        "two,a,x,8,2,heavy,2000,,1500,net.model\n"
        "none,a,x,8,1,light,,,,net.model\n");
  const auto set = ReadCatalogue(Path("catalogue.csv"), Path("summaries"), {});
  ASSERT_TRUE(set) << set.error().message;
  ASSERT_EQ(set->runs.size(), 2U);
  EXPECT_EQ(set->runs[0].measured_mib, 2000);
  EXPECT_EQ(set->runs[1].measured_mib, 1500);
  EXPECT_EQ(set->runs[1].batch, 4) << "DataParallel splits it";
  EXPECT_EQ(set->models.size(), 1U);
}

TEST(LeaveOut, CorrectsAndBoundsByOtherGroups) {
  // One group is predicted correctly. Every run in the other group needs twice the predicted
  // memory.
  const std::vector<Outcome> outcomes{Of(1'000, 1'000, 1'200), Of(2'000, 2'000, 2'400),
                                      Of(2'000, 1'000, 1'200), Of(4'000, 2'000, 2'400)};
  const std::vector<LeftOut> parts{{"a"}, {"a"}, {"b"}, {"b"}};
  const std::vector<Outcome> left = LeaveOut(outcomes, parts, 0.95);
  EXPECT_EQ(left[0].answer->point_mib, 2'000) << "corrected by the other group's factor";
  EXPECT_EQ(left[0].answer->bound_mib, 2'000);
  EXPECT_EQ(left[3].answer->point_mib, 2'000);
  const std::vector<LeftOut> one(4, LeftOut{"a"});
  EXPECT_FALSE(LeaveOut(outcomes, one, 0.95)[0].answer) << "there is no other group";
}

TEST(LeaveOut, LearnsTheBoundOfAKindFromRunsOfThatKind) {
  // In group a, 21 runs of fixed length needed the predicted memory, and 20 runs of varying length
  // needed 50 % more. Group b has one run of each kind, plus one of an unknown kind.
  std::vector<Outcome> outcomes;
  std::vector<LeftOut> parts;
  for (int i = 0; i < 20; ++i) {
    outcomes.push_back(Of(1'000, 1'000, 1'100));
    parts.push_back({"a", "fixed"});
    outcomes.push_back(Of(1'500, 1'000, 1'200));
    parts.push_back({"a", "varying"});
  }
  outcomes.push_back(Of(1'000, 1'000, 1'100));
  parts.push_back({"a", "fixed"});
  for (const char* kind : {"fixed", "varying", "unheard of"}) {
    outcomes.push_back(Of(1'000, 1'000, 1'100));
    parts.push_back({"b", kind});
  }
  const std::vector<Outcome> left = LeaveOut(outcomes, parts, 0.95);
  EXPECT_EQ(left[41].answer->bound_mib, 1'000);
  EXPECT_NEAR(static_cast<double>(left[42].answer->bound_mib), 1'375, 1);
  EXPECT_EQ(left[43].answer->bound_mib, 2'000) << "twice the margin of all other runs";
}

// An image model made of blocks, reduced to torchinfo's default of three levels.
TEST(DataSet, TorchInfoHidesDeepLayers) {
  const std::string layers = ::testing::TempDir() + "/deep.jsonl";
  const std::string measured = ::testing::TempDir() + "/deep.csv";
  ASSERT_TRUE(base::WriteFileAtomic(
      layers,
      R"({"model":"m","params":130,"layers":[["Conv2d",[-1,3,8,8],[-1,4,8,8],30,0,30,0,"stem"],)"
      R"(["Linear",[-1,4],[-1,4],60,0,60,0,"blocks.0.mlp.fc1"],)"
      R"(["GELU",[-1,4],[-1,4],0,0,0,0,"blocks.0.mlp.act"],)"
      R"(["Mlp",[-1,4],[-1,4],10,0,10,1,"blocks.0.mlp"],["Identity",[-1,4],[-1,4],0,0,0,0,"blocks.0.drop"],)"
      R"(["Block",[-1,4],[-1,4],0,0,0,2,"blocks.0"],["Linear",[-1,4],[-1,4],30,0,30,0,"head"]]})"
      "\n"));
  ASSERT_TRUE(base::WriteFileAtomic(measured, "model,batch,measured_mib\nm,8,2000\n"));
  const auto set = ReadDataSet(layers, measured, {.torchinfo = true});
  ASSERT_TRUE(set) << set.error().message;
  const model::LayerList& list = set->models.front();
  ASSERT_EQ(list.layers.size(), 5U);
  EXPECT_EQ(list.layers[1].type, "Mlp");
  EXPECT_EQ(list.layers[1].params, 70);
  EXPECT_EQ(list.layers[1].kind, model::RowKind::kUnknown);
  EXPECT_EQ(list.layers[3].kind, model::RowKind::kContainer);
  EXPECT_EQ(list.hidden_params, 70);
  EXPECT_TRUE(list.collapsed);
  EXPECT_FALSE(list.has_input_shapes);
  EXPECT_EQ(list.batch, 1);
  EXPECT_EQ(list.pass_bytes, 2 * 4 * (4 * 8 * 8 + 4 + 4))
      << "only modules with parameters, including hidden ones";
}

}  // namespace
}  // namespace carma::estimate
