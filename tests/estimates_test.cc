// Tests how a task's memory requirement is predicted from its model summary, learned when the task
// ends, and used for the next run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "base/file.h"
#include "base/json.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Words = std::vector<std::string>;

// A small network of fully connected layers, as torchsummary prints it.
std::string SummaryOf(int width) {
  const auto number = [](std::int64_t value) {
    std::string text = std::to_string(value);
    for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
      text.insert(static_cast<std::size_t>(at), ",");
    return text;
  };
  const std::int64_t first = 785 * width, second = (width + 1) * 10;
  const std::string line(64, '-'), double_line(64, '=');
  return line + "\n        Layer (type)               Output Shape         Param #\n" +
         double_line + "\n            Linear-1                 [-1, " + std::to_string(width) +
         "]         " + number(first) + "\n              ReLU-2                 [-1, " +
         std::to_string(width) +
         "]               0\n            Linear-3                   [-1, 10]          " +
         number(second) + "\n" + double_line + "\nTotal params: " + number(first + second) +
         "\nTrainable params: " + number(first + second) + "\nNon-trainable params: 0\n" + line +
         "\n";
}

class Estimates : public ::testing::Test {
 protected:
  void SetUp() override {
    summary_ = Write("model.txt", SummaryOf(1024));
    site.Start();
  }
  std::string Write(const std::string& name, const std::string& text, unsigned mode = 0644) const {
    const std::string path = site.out_dir() + "/" + name;
    WriteText(path, text, mode);
    return path;
  }
  // Submits a training task that has a model summary and takes 200 simulated seconds.
  std::uint64_t Train(std::int64_t memory_mib, int seed, const std::string& batch = "32",
                      const std::string& then = "", Words options = {}) const {
    std::string command;
    for (const std::string& word : SimTask({.memory_mib = memory_mib, .solo_s = 200}))
      command += word + " ";
    options.insert(
        options.end(),
        {"--model-summary", summary_, "--batch-size", batch, "--optimizer", "adam", "--", "/bin/sh",
         "-c", command + (then.empty() ? "" : "; " + then) + " # --seed " + std::to_string(seed)});
    return site.Submit(options);
  }
  base::Json Estimate(Words args) const {
    args.insert(args.begin(), "estimate");
    args.emplace_back("--json");
    const Ran ran = site.Carma(args);
    const base::Result<base::Json> json = base::ParseJson(ran.out);
    EXPECT_TRUE(json) << ran.Text();
    return json.value_or(base::Json::object());
  }
  int CalibratedTasks() const { return Estimate({summary_})["calibration"]["tasks"].get<int>(); }

  Site site;
  std::string summary_;
};

TEST_F(Estimates, UsesEarlierMeasurementsFromSubmissionOn) {
  const Training training{.memory_mib = 2'000, .solo_s = 200, .sm_active = 0.5};
  Words asked{"--"};
  std::ranges::copy(SimTask(training), std::back_inserter(asked));
  // The --json option must precede the command.
  const auto known = [&] {
    Words words{"estimate", "--json"};
    words.insert(words.end(), asked.begin(), asked.end());
    return base::ParseJson(site.Carma(words).out).value_or(base::Json::object());
  };
  const base::Json before = known();
  EXPECT_EQ(before.at("activity").at("sm_active"), nullptr);
  const std::string profiles =
      Write("profiles.csv",
            "workload,gpu_type,sm_active,sensitivity,pressure,load_s,time_s,iterations,memory_mib,"
            "runs,time_spread,meetings,fit_error,signature\n"
            "mine," +
                site.Gpus()[0].name + ",0.5,1.5,0.25,1,60,600,2000,3,0,4,0.01," +
                before.at("signature").get<std::string>() + "\n");
  site.Set("estimate.profiles", "'" + profiles + "'");
  site.Restart(SIGTERM);
  const base::Json activity = known().at("activity");
  EXPECT_EQ(activity.at("sm_active"), 0.5);
  EXPECT_EQ(activity.at("by"), "carma profile");
  EXPECT_EQ(activity.at("iteration_ms"), 100);
  EXPECT_NEAR(activity.at("slowdown_beside_itself").at("mps").get<double>(), 1.375, 1e-9);
  EXPECT_EQ(site.Await(site.Train({}, training)).state, "succeeded");
  EXPECT_THAT(site.Carma({"report"}).out, HasSubstr("sm_active  carma profile"));
  WriteText(profiles, "workload\n");
  site.Restart(SIGTERM);
  EXPECT_THAT(site.Status().troubles,
              ::testing::Contains(HasSubstr("estimates: estimate.profiles: ")));
}

TEST_F(Estimates, ATaskIsPredictedMeasuredAndKnownTheNextTime) {
  const std::uint64_t first = Train(5'000, 1);
  const api::TaskView ended = site.Await(first);
  EXPECT_EQ(ended.state, "succeeded");
  EXPECT_EQ(ended.estimate_method, "structural");
  ASSERT_TRUE(ended.predicted_mib && ended.bound_mib);
  EXPECT_GE(*ended.bound_mib, *ended.predicted_mib);
  EXPECT_EQ(ended.claim_mib, *ended.bound_mib) << "the bound is promised";
  EXPECT_EQ(ended.peak_mib, 5'000);
  EXPECT_THAT(site.Carma({"show", std::to_string(first)}).out,
              AllOf(HasSubstr("Predicted"), HasSubstr("(structural)"), HasSubstr("Promised"),
                    HasSubstr("4.9G at most")));

  const api::TaskView again = site.Await(Train(5'000, 2));
  EXPECT_EQ(again.estimate_method, "history") << "another seed is the same training job";
  EXPECT_EQ(again.predicted_mib, 5'000);
  EXPECT_EQ(again.claim_mib, 5'500);
  const api::TaskView other = site.Await(Train(5'000, 1, "64"));
  EXPECT_EQ(other.estimate_method, "structural") << "another batch size is not";

  site.Restart(SIGKILL);
  EXPECT_EQ(site.Await(Train(5'000, 3)).estimate_method, "history") << "also after a crash";
  const std::string metrics = site.client().Get("/metrics").value_or("");
  EXPECT_THAT(metrics, HasSubstr("carma_estimate_error_ratio_count{method=\"history\"} 1"));
  EXPECT_THAT(metrics, HasSubstr("carma_estimates_total{method=\"history\"} 1"));
}

TEST_F(Estimates, ADryRunShowsThePrediction) {
  Ran check;
  EXPECT_TRUE(Eventually([&] {  // not possible before a GPU's first sample
    check = site.Carma({"submit", "--check", "--model-summary", summary_, "--batch-size", "32",
                        "--optimizer", "adam", "--", "/bin/true"});
    return check.out.find("could start now") != std::string::npos;
  })) << check.Text();
  EXPECT_TRUE(check.Ok()) << check.Text();
  EXPECT_THAT(check.out, HasSubstr("predicted (structural)"));
  const Ran bad = site.Carma(
      {"submit", "--check", "--model-summary", site.out_dir() + "/none", "--", "/bin/true"});
  EXPECT_THAT(bad.out, AllOf(HasSubstr("no memory estimate"), HasSubstr("No such file")));
  EXPECT_THAT(site.Carma({"list", "--all", "--no-header"}).out, IsEmpty()) << "nothing was kept";
}

// The script trains nothing; CARMA only reads its text.
TEST_F(Estimates, AFineTuningScriptHasAnEstimateWithoutOptions) {
  const std::string model = site.out_dir() + "/model";
  ASSERT_TRUE(base::MakeDirs(model));
  ASSERT_TRUE(base::WriteFileAtomic(
      model + "/config.json",
      R"({"model_type":"llama","num_hidden_layers":8,"hidden_size":1024,"num_attention_heads":8,)"
      R"("intermediate_size":2816,"vocab_size":32000,"torch_dtype":"bfloat16"})"));
  const std::string script = site.out_dir() + "/train.sh";
  ASSERT_TRUE(base::WriteFileAtomic(
      script, "#!/bin/sh\nif false; then\n  python t.py --model_name_or_path " + model +
                  " --per_device_train_batch_size 2 \\\n    --max_length 512 --learning_rate 1e-5\n"
                  "fi\n"));
  const api::TaskView found = site.Await(site.Submit({script}));
  EXPECT_EQ(found.state, "succeeded");
  EXPECT_EQ(found.estimate_method, "transformer");
  EXPECT_THAT(
      found.estimate_remarks,
      ElementsAre(AllOf(HasSubstr("read: "), HasSubstr("seq-len 512 (train.sh:3: --max_length)")),
                  HasSubstr("MiB of the estimate is for tensors; the rest is the CUDA context and "
                            "fragmentation")));
  EXPECT_THAT(site.Carma({"show", std::to_string(found.id)}).out,
              AllOf(HasSubstr("(transformer)"), HasSubstr("batch 2 (train.sh:3: ")));
  const std::uint64_t held = site.Submit({"--hold", "--method", "lora", script});
  site.Restart(SIGKILL);
  ASSERT_TRUE(site.Carma({"release", std::to_string(held)}).Ok());
  const api::TaskView adapters = site.Await(held);
  EXPECT_EQ(adapters.estimate_method, "transformer") << "the settings found are stored";
  EXPECT_LT(*adapters.predicted_mib, *found.predicted_mib) << "and options take precedence";
  const api::TaskView bare = site.Await(site.Submit({"--no-reading", script}));
  EXPECT_EQ(bare.estimate_method, "");
}

TEST_F(Estimates, InconclusiveRunsAreNotLearned) {
  EXPECT_EQ(site.Await(Train(5'000, 1, "32", "exit 3")).exit_code, 3);
  EXPECT_EQ(site.Await(Train(5'000, 2, "32", "exit 3")).estimate_method, "structural");
  const Words quick = {"--", "/bin/true"};
  site.Await(site.Submit(quick));
  const api::TaskView unknown = site.Await(site.Submit(quick));
  EXPECT_EQ(unknown.estimate_method, "") << "too short to have reached its peak";
  EXPECT_THAT(unknown.estimate_remarks, IsEmpty());
  EXPECT_THAT(site.Carma({"show", std::to_string(unknown.id)}).out, HasSubstr("no estimate"));
}

TEST_F(Estimates, StatedMemoryWinsAndTheRunIsStillLearned) {
  const Words stated = {"--memory", "9000", "--model-summary", summary_, "--batch-size", "32"};
  EXPECT_EQ(site.Await(site.Train(stated, {.memory_mib = 4'000, .solo_s = 200})).claim_mib, 9'000);
  const Words silent(stated.begin() + 2, stated.end());
  const api::TaskView next = site.Await(site.Train(silent, {.memory_mib = 4'000, .solo_s = 200}));
  EXPECT_EQ(next.estimate_method, "history");
  EXPECT_EQ(next.predicted_mib, 4'000);
  site.Set("estimate.history", "false");
  site.Restart(SIGTERM);
  EXPECT_EQ(site.Await(site.Train(silent, {.memory_mib = 4'000, .solo_s = 200})).estimate_method,
            "structural");
}

TEST_F(Estimates, FiveModelsCalibrateTheServerUntilItIsReset) {
  std::vector<std::uint64_t> ids;
  for (int width = 256; width <= 1280; width += 256) {
    summary_ = Write(fmt::format("model{}.txt", width), SummaryOf(width));
    ids.push_back(Train(3'000, 1));
  }
  for (const std::uint64_t id : ids) site.Await(id);
  EXPECT_EQ(CalibratedTasks(), 5);
  const auto context = [&] {
    const base::Json json = Estimate({summary_, "--batch", "7", "-e", "structural"});
    for (const base::Json& term : json["estimates"][0]["terms"]) {
      if (term["name"] == "context") return term["mib"].get<double>();
    }
    return 0.0;
  };
  const double learned = context();
  EXPECT_GT(learned, 2'500) << "these tasks hold 3000 MiB, whatever their size";
  EXPECT_THAT(site.Carma({"estimate", summary_, "--explain"}).out,
              HasSubstr("calibration: learned from 5 small models"));
  site.Restart(SIGKILL);
  EXPECT_EQ(CalibratedTasks(), 5);
  EXPECT_DOUBLE_EQ(context(), learned);
  if (IsRoot()) {
    const Ran refused = site.Carma({"estimate", "--reset-calibration"}, {.uid = OtherUser()});
    EXPECT_EQ(refused.code, 1);
    EXPECT_THAT(refused.err, HasSubstr("administrator"));
  }
  EXPECT_TRUE(site.Carma({"estimate", "--reset-calibration"}).Ok());
  EXPECT_EQ(CalibratedTasks(), 0);
  site.Restart(SIGTERM);
  EXPECT_EQ(CalibratedTasks(), 0);
  EXPECT_EQ(site.Await(Train(3'000, 9)).estimate_method, "history") << "peaks are kept";
}

TEST_F(Estimates, BrokenPromisesAreReported) {
  std::vector<std::uint64_t> ids;
  // All estimates are requested before the first task ends, so that none of them learns from
  // another.
  for (int batch = 1; batch <= 8; ++batch)
    ids.push_back(Train(9'000, 1, std::to_string(batch), "", {"--hold"}));
  for (const std::uint64_t id : ids) ASSERT_TRUE(site.Carma({"release", std::to_string(id)}).Ok());
  for (const std::uint64_t id : ids) site.Await(id);
  EXPECT_THAT(site.Status().troubles,
              ElementsAre("estimates: 8 of the last 8 tasks estimated by structural used more than "
                          "they were promised; about 1 were expected"));
}

TEST_F(Estimates, ABadSummaryIsReportedWithoutDelay) {
  const std::string pipe = site.out_dir() + "/pipe", huge = site.out_dir() + "/huge";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0666), 0);
  ASSERT_EQ(::truncate(Write("huge", "", 0644).c_str(), (64 << 20) + 1), 0);
  std::string tampered = SummaryOf(512);
  tampered.replace(tampered.find("[-1, 512]"), 9, "[-1, -99999999999999999999]");
  const struct {
    const char* name;
    std::string path;
    const char* why;
  } cases[] = {
      {"a pipe without a writer", pipe, "pipe: expected a regular file"},
      {"no such file", site.out_dir() + "/none", "none: No such file"},
      {"a folder", site.out_dir(), "expected a regular file"},
      {"endless zeros", "/dev/zero", "expected a regular file"},
      {"a file above the limit", huge, "huge: expected at most 64 MiB"},
      {"no summary", Write("prose", "once upon a time\n"), "prose:"},
      {"cut short and tampered with", Write("tampered", tampered), "tampered:"},
  };
  for (const auto& c : cases) {
    const api::TaskView task =
        site.Await(site.Submit({"--model-summary", c.path, "--", "/bin/true"}));
    EXPECT_EQ(task.state, "succeeded") << c.name;
    EXPECT_EQ(task.estimate_method, "") << c.name;
    EXPECT_THAT(task.estimate_remarks,
                ElementsAre(AllOf(HasSubstr("no estimate: "), HasSubstr(c.why))))
        << c.name;
    EXPECT_THAT(site.Carma({"show", std::to_string(task.id)}).out, HasSubstr(c.why)) << c.name;
  }
}

TEST_F(Estimates, ASummaryIsReadWithTheRightsOfItsUser) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  const std::string secret = Write("secret.txt", SummaryOf(256), 0600);
  const auto submit = [&](const RunOptions& options) {
    return site.Await(site.Submit(
        {"--model-summary", secret, "--batch-size", "8", "-o", "/dev/null", "--", "/bin/true"},
        options));
  };
  EXPECT_EQ(submit({}).estimate_method, "structural");
  const api::TaskView refused = submit({.uid = OtherUser()});
  EXPECT_EQ(refused.state, "succeeded");
  EXPECT_EQ(refused.estimate_method, "");
  EXPECT_THAT(refused.estimate_remarks, ElementsAre(HasSubstr("Permission denied")));
}

TEST_F(Estimates, TheCommandEstimatesWithAndWithoutADaemon) {
  const auto of = [](const base::Json& json, const std::string& estimator) {
    for (const base::Json& each : json["estimates"]) {
      if (each["estimator"] == estimator) return each;
    }
    return base::Json::object();
  };
  site.Await(Train(5'000, 1));
  const base::Json with = Estimate({summary_, "--batch", "32", "--optimizer", "adam"});
  EXPECT_TRUE(with["calibration"]["daemon"].get<bool>());
  EXPECT_EQ(of(with, "auto")["method"], "structural");
  EXPECT_THAT(of(with, "history")["error"].get<std::string>(), HasSubstr("no command"));

  std::string script = "#!/bin/sh\n#CARMA --model-summary " + summary_ +
                       " --batch-size 32 --optimizer adam --memory 8G\n";
  const Words task = SimTask({.memory_mib = 5'000, .solo_s = 200});
  for (const std::string& word : task) script += word + " ";
  const std::string path = Write("train.sh", script + "# --seed 1\n", 0755);
  site.Await(site.Submit({path}));
  const base::Json known = Estimate({path});
  EXPECT_EQ(of(known, "given")["point_mib"], 8'192);
  EXPECT_EQ(of(known, "history")["point_mib"], 5'000);
  EXPECT_EQ(of(known, "auto")["method"], "history");
  EXPECT_THAT(site.Carma({"estimate", path}).out, HasSubstr("carmad would promise"));

  site.Stop(SIGTERM);
  const base::Json without = Estimate({path});
  EXPECT_FALSE(without["calibration"]["daemon"].get<bool>());
  EXPECT_EQ(of(without, "auto")["method"], "structural");
  EXPECT_GT(of(without, "structural")["point_mib"].get<int>(), 300);
  const Ran bad = site.Carma({"estimate", site.out_dir() + "/none"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("none: No such file"));
}

}  // namespace
}  // namespace carma::system_test
