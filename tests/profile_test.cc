// Tests that `carma profile`, on simulated GPUs, finds the tasks' parameters, leaves nothing
// behind, and continues where it stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/calls.h"
#include "lab/trace/workloads.h"
#include "profile/profiles.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr bool kStretched = true;
#else
constexpr bool kStretched = false;
#endif

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

struct Known {
  const char* name;
  double u, s, p;
  std::int64_t memory_mib;
};
constexpr double kSoloS = 60, kLoadS = 4;

class Profile : public ::testing::Test {
 protected:
  explicit Profile(const SiteOptions& options = {.shape = "4xA100-40GB", .time_scale = 50})
      : site(options) {
    site.Set("collocation.mps_control", "\"" + Program("carma-simmps") + "\"");
    site.Set("monitor.sample_period", "\"1s\"");
  }

  void Describe(const std::vector<Known>& workloads, double solo_s = kSoloS) const {
    std::string lines;
    for (const Known& each : workloads) {
      const Training training{each.memory_mib,
                              solo_s,
                              each.u,
                              {"--sensitivity", std::to_string(each.s), "--pressure",
                               std::to_string(each.p), "--load-s", std::to_string(kLoadS)}};
      lines += base::DumpJson(
                   {{"name", each.name}, {"command", SimTask(training)}, {"iterations", 50}}) +
               "\n";
    }
    WriteText(Workloads(), lines);
  }
  std::string Workloads() const { return site.folder() / "workloads.jsonl"; }
  std::string Results() const { return site.folder() / "measured"; }
  Words Call(Words more) const {
    Words words{"profile", Workloads(), "--config", site.config_file(), "--output", Results()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Ran Run(Words more) const {
    return site.Carma(Call(std::move(more)), {.deadline = 3 * kDeadline});
  }
  std::vector<profile::WorkloadProfile> Found() const {
    const auto profiles =
        profile::ParseProfiles(ReadText(Results() + "/profiles.csv"), "profiles.csv");
    EXPECT_TRUE(profiles) << profiles.error().message;
    return profiles.value_or(std::vector<profile::WorkloadProfile>{});
  }
  std::size_t RunsKept() const {
    const std::string text = ReadText(Results() + "/runs.jsonl");
    return static_cast<std::size_t>(std::ranges::count(text, '\n'));
  }
  // Expects that no process or MPS daemon is left on the GPUs.
  void ExpectNothingLeft() const {
    EXPECT_TRUE(Eventually([&] { return site.SimGpu({"audit"}).code == 0; }))
        << site.SimGpu({"audit"}).Text();
    EXPECT_TRUE(Eventually([&] { return Keepers().empty(); }));
  }
  // Command lines that contain --keep and mention this test's folder.
  std::vector<std::string> Keepers() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      if (!base::ParseInt(entry.path().filename().string())) continue;
      std::string line = base::ReadFile(entry.path().string() + "/cmdline", 1 << 20).value_or("");
      if (line.find("--keep") != line.npos && line.find(site.folder().path()) != line.npos)
        found.push_back(line);
    }
    return found;
  }

  Site site;
};

TEST_F(Profile, FindsTheParametersOfSimulatedTasks) {
  if (kStretched) GTEST_SKIP() << "the sanitizer slows down tasks that run beside others";
  const std::vector<Known> known{{"small", 0.30, 0.9, 0.5, 3000},
                                 {"sensitive", 0.60, 2.0, 0.6, 5000},
                                 {"large", 0.85, 0.6, 1.2, 9000}};
  Describe(known);
  const Ran ran = Run({"--methods", "mps", "--degrees", "none", "--no-watching"});
  ASSERT_EQ(ran.code, 0) << ran.Text();
  EXPECT_THAT(ran.err, HasSubstr("36 runs on 4 GPUs"));
  const std::vector<profile::WorkloadProfile> found = Found();
  ASSERT_THAT(found, SizeIs(3)) << ran.Text();
  for (std::size_t i = 0; i < known.size(); ++i) {
    EXPECT_EQ(found[i].workload, known[i].name);
    EXPECT_EQ(found[i].memory_mib, known[i].memory_mib);
    EXPECT_NEAR(found[i].sm_active.value_or(0) / known[i].u, 1, 0.05) << known[i].name;
    EXPECT_NEAR(found[i].time_s / kSoloS, 1, 0.05) << known[i].name;
    EXPECT_NEAR(profile::IterationS(found[i]).value_or(0), kSoloS / 50, 0.05 * kSoloS / 50);
    ASSERT_TRUE(found[i].sensitivity && found[i].pressure) << known[i].name;
    for (std::size_t j = 0; j < known.size(); ++j) {
      EXPECT_NEAR(*found[i].sensitivity * found[j].pressure.value_or(0) / (known[i].s * known[j].p),
                  1, 0.05)
          << known[i].name << " beside " << known[j].name << "\n"
          << ran.out;
    }
  }
  const auto catalogue = trace::Catalogue::Parse(ReadText(Results() + "/catalogue.csv"), "c.csv");
  ASSERT_TRUE(catalogue) << catalogue.error().message;
  EXPECT_EQ((*catalogue->Find("large"))->memory_mib, std::vector<std::int64_t>{9000});
  EXPECT_THAT(ReadText(Results() + "/profile.html"),
              AllOf(HasSubstr("Slowdown of the first workload alongside the second, mps"),
                    HasSubstr("sensitive / small")));
  EXPECT_THAT(ReadText(Results() + "/slowdowns.csv"), HasSubstr("small + large,large,"));
  ExpectNothingLeft();
}

TEST_F(Profile, FindsTheFactorOfStreams) {
  if (kStretched) GTEST_SKIP() << "the sanitizer slows down tasks that run beside others";
  Describe({{"small", 0.30, 0.9, 0.5, 3000}, {"large", 0.85, 0.6, 1.2, 9000}});
  const Ran ran =
      Run({"--repeat", "1", "--methods", "streams", "--degrees", "none", "--no-watching"});
  ASSERT_EQ(ran.code, 0) << ran.Text();
  const auto json = base::ParseJson(ReadText(Results() + "/profile.json"));
  ASSERT_TRUE(json);
  EXPECT_NEAR((*json)["types"][0]["streams_a"].get<double>() / 1.5, 1, 0.05) << ran.out;
}

TEST_F(Profile, MeasuresCopiesAndMonitorsThatFit) {
  Describe({{"wide", 0.2, 0.5, 0.3, 15'000}}, 40);
  const Ran ran = Run({"--repeat", "1", "--no-pairs", "--degrees", "2,3", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.Text();
  const auto json = base::ParseJson(ran.out);
  ASSERT_TRUE(json) << ran.out;
  const base::Json& type = (*json)["types"][0];
  EXPECT_THAT(type["meetings"], SizeIs(3)) << "alone under MPS, and two copies with each method";
  ASSERT_THAT(type["watching"], SizeIs(1));
  EXPECT_EQ(type["watching"][0]["watcher"], "carma");
  EXPECT_NEAR(type["watching"][0]["share"]["mean"].get<double>(), 0, 0.2);
  ASSERT_THAT((*json)["failed"], SizeIs(1)) << "one entry for streams and MPS";
  EXPECT_THAT((*json)["failed"][0]["why"].get<std::string>(),
              HasSubstr("they need 43.9G, but only 39.6G is usable"));
}

TEST_F(Profile, ShowsItsPlanInAdvance) {
  WriteText(Workloads(), "{\"name\":\"a\",\"command\":\"exit\",\"seconds\":50}\n");
  const Words what{"--dry-run",  "--methods", "streams", "--degrees",    "2",
                   "--no-pairs", "--repeat",  "2",       "--no-watching"};
  const Ran text = Run(what);
  EXPECT_EQ(text.code, 0) << text.Text();
  EXPECT_THAT(text.err, AllOf(HasSubstr("4 runs on 4 GPUs"), HasSubstr("about ")));
  EXPECT_THAT(text.out, HasSubstr("streams: a + a, run 2 on NVIDIA A100-SXM4-40GB\n"));
  Words more = what;
  more.emplace_back("--json");
  const auto json = base::ParseJson(Run(more).out);
  ASSERT_TRUE(json);
  EXPECT_THAT((*json)["runs"], SizeIs(4));
  EXPECT_GT((*json)["seconds"].get<double>(), 0);
  EXPECT_FALSE(base::Exists(Results()));
  const Ran first = site.Carma({"profile", "--config", site.config_file(), "--methods", "streams",
                                "--dry-run", "--gpus", "0,1", Workloads()});
  EXPECT_THAT(first.err, HasSubstr("on 2 GPUs")) << "the file may follow a list";
}

TEST_F(Profile, ContinuesWhereItStopped) {
  Describe({{"one", 0.3, 0.6, 0.2, 3000}, {"two", 0.6, 1.0, 0.4, 5000}}, 40);
  const Words what{"--repeat", "1", "--methods", "streams", "--degrees", "none", "--no-watching"};
  Child first = site.StartCarma(Call(what));
  ASSERT_TRUE(Eventually([&] { return RunsKept() >= 2; }));
  first.Signal(SIGINT);
  const Ran interrupted = first.Wait();
  EXPECT_EQ(interrupted.code, 130) << interrupted.Text();
  EXPECT_THAT(interrupted.err, HasSubstr("repeat the command to continue"));
  const std::size_t kept = RunsKept();
  ExpectNothingLeft();
  const Ran second = Run(what);
  EXPECT_EQ(second.code, 0) << second.Text();
  EXPECT_THAT(second.err, HasSubstr("5 runs on 4 GPUs (" + std::to_string(kept) + " already"));
  EXPECT_EQ(RunsKept(), 5U);
  // Within this results folder, the name cannot be reused for another workload.
  Describe({{"one", 0.9, 0.6, 0.2, 3000}}, 40);
  const Ran other = Run(what);
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("with a different command"));
}

TEST_F(Profile, KeepsCommentsAmongItsCalibrations) {
  const auto line = [](const char* name) {
    return base::DumpJson({{"name", name},
                           {"calibrate", "echo '{\"steps\": 50}'"},
                           {"command", "exec " + base::Join(SimTask({3000, 10, 0.3}), " ") +
                                           " # {steps} steps"}}) +
           "\n";
  };
  const Words what{"--repeat",  "1",    "--methods",     "streams", "--no-pairs",
                   "--degrees", "none", "--no-watching", "--gpus",  "0"};
  const std::string calibrated = Results() + "/calibrated.jsonl";
  WriteText(Workloads(), line("one"));
  const Ran first = Run(what);
  ASSERT_EQ(first.code, 0) << first.Text();
  const std::string noted = "# checked by hand\n" + ReadText(calibrated);
  WriteText(calibrated, noted);
  WriteText(Workloads(), line("one") + line("two"));
  const Ran second = Run(what);
  ASSERT_EQ(second.code, 0) << second.Text();
  EXPECT_THAT(ReadText(calibrated), AllOf(StartsWith(noted), HasSubstr("\"name\":\"two\"")));
}

TEST_F(Profile, LeavesNothingBehindWhenItIsKilled) {
  Describe({{"long", 0.3, 0.6, 0.2, 3000}}, 1e6);
  for (const char* method : {"streams", "mps"}) {
    Child call = site.StartCarma(Call({"--methods", method, "--no-pairs", "--degrees", "3"}));
    ASSERT_TRUE(Eventually([&] { return !Keepers().empty(); }));
    ASSERT_TRUE(Eventually([&] { return site.SimGpu({"audit"}).code != 0; }));
    call.Signal(SIGKILL);
    call.Wait();
    ExpectNothingLeft();
  }
}

TEST_F(Profile, RefusesUsedGpus) {
  Describe({{"one", 0.3, 0.6, 0.2, 3000}}, 10);
  const Words what{"--repeat",  "1",    "--methods",     "streams", "--no-pairs",
                   "--degrees", "none", "--no-watching", "--gpus",  "1"};
  site.Start();
  const Ran open = Run(what);
  EXPECT_EQ(open.code, 1);
  EXPECT_THAT(open.err, HasSubstr("carma drain 1 first"));
  EXPECT_EQ(site.Carma({"drain", "1"}).code, 0);
  EXPECT_EQ(Run(what).code, 0);
  Child holder = Child::Start({Program("carma-simgpu"), "hold", "--gpu", "1", "--mib", "500"},
                              {.environment = {{"CARMA_SIMGPU_STATE", site.gpus_file()}}});
  ASSERT_TRUE(Eventually([&] { return site.SimGpu({"audit"}).code != 0; }));
  std::filesystem::remove_all(Results());
  const Ran used = Run(what);
  EXPECT_EQ(used.code, 1);
  EXPECT_THAT(used.err, HasSubstr("is used by process"));
  EXPECT_EQ(Run([&] {
              Words more = what;
              more.emplace_back("--beside-others");
              return more;
            }())
                .code,
            0);
  holder.Signal(SIGKILL);
  holder.Wait();
}

TEST_F(Profile, NamesAWorkloadAsTheDaemonDoes) {
  const Training training{3000, 120, 0.3, {"--load-s", "4"}};  // long enough to learn from
  site.Start();
  ASSERT_EQ(site.Await(site.Train({}, training)).state, "succeeded");
  WriteText(Workloads(), base::DumpJson({{"name", "a"}, {"command", SimTask(training)}}) + "\n");
  const Ran ran = Run({"--beside-others", "--repeat", "1", "--methods", "streams", "--no-pairs",
                       "--degrees", "none", "--no-watching"});
  ASSERT_EQ(ran.code, 0) << ran.Text();
  const auto known = cli::GetKnowledge(site.client(), Found().at(0).signature, "", "");
  ASSERT_TRUE(known) << known.error().message;
  EXPECT_THAT(known->value.runs, SizeIs(1));
}

TEST_F(Profile, ExplainsWhyAWorkloadCannotBeMeasured) {
  const std::string bad =
      "{\"name\":\"bad\",\"command\":\"echo no such data; exit 3\"}\n"
      "{\"name\":\"off\",\"command\":\"true {steps}\",\"calibrate\":\"exit 4\"}\n";
  Describe({{"good", 0.3, 0.6, 0.2, 3000}}, 10);
  WriteText(Workloads(), bad + ReadText(Workloads()));
  const Ran failed =
      Run({"--repeat", "1", "--methods", "streams", "--degrees", "none", "--no-watching"});
  EXPECT_EQ(failed.code, 1);
  EXPECT_THAT(Found(), SizeIs(1)) << "the third workload is measured";
  EXPECT_THAT(failed.err, AllOf(HasSubstr("alone, bad exited with code 3: no such data"),
                                HasSubstr("calibration of off exited with code 4")));
  WriteText(Workloads(), "{\"name\":\"worse\",\"command\":[\"/no/such/program\"]}\n");
  EXPECT_THAT(Run({"--methods", "streams"}).err, HasSubstr("No such file"));
  const Ran degrees = Run({"--degrees", "7-1"});
  EXPECT_EQ(degrees.code, 2);
  EXPECT_THAT(degrees.err, HasSubstr("--degrees"));
}

TEST_F(Profile, RunningOutOfMemoryIsAResult) {
  Describe({{"good", 0.3, 0.6, 0.2, 3000}, {"huge", 0.3, 0.6, 0.2, 60'000}}, 10);
  const Words what{"--repeat", "1", "--methods", "streams", "--degrees", "none", "--no-watching"};
  const Ran ran = Run(what);
  EXPECT_EQ(ran.code, 0) << ran.Text();
  EXPECT_THAT(Found(), SizeIs(1));
  EXPECT_THAT(ran.out, AllOf(HasSubstr("out of memory"), HasSubstr("huge failed alone")));
  EXPECT_THAT(Run(what).err, HasSubstr("(5 already measured)")) << "nothing is tried again";
}

TEST_F(Profile, RunningOutOfMemoryBesideOthersIsNoResult) {
  Describe({{"half", 0.3, 0.6, 0.2, 20'000}}, 10);
  const Words what{"--repeat",   "1",         "--methods",      "streams",
                   "--no-pairs", "--degrees", "none",           "--no-watching",
                   "--gpus",     "1",         "--beside-others"};
  Child holder = Child::Start({Program("carma-simgpu"), "hold", "--gpu", "1", "--mib", "30000"},
                              {.environment = {{"CARMA_SIMGPU_STATE", site.gpus_file()}}});
  ASSERT_TRUE(Eventually([&] { return site.SimGpu({"audit"}).code != 0; }));
  const Ran beside = Run(what);
  EXPECT_EQ(beside.code, 1) << beside.Text();
  EXPECT_THAT(beside.err, HasSubstr("(other processes may hold the memory)"));
  EXPECT_EQ(RunsKept(), 0U);
  holder.Signal(SIGKILL);
  holder.Wait();
  const Ran again = Run(what);
  EXPECT_EQ(again.code, 0) << again.Text();
  EXPECT_THAT(Found(), SizeIs(1)) << "it is tried again";
}

class ProfileMig : public Profile {
 protected:
  ProfileMig() : Profile({.shape = "A100-40GB:mig=3g.20gb+3g.20gb", .time_scale = 50}) {}
};

TEST_F(ProfileMig, MeasuresInstancesOfAGpu) {
  Describe({{"one", 0.9, 0.6, 0.2, 3000}}, 40);
  const Ran ran = Run({"--repeat", "1", "--degrees", "1-7", "--no-watching"});
  ASSERT_EQ(ran.code, 0) << ran.Text();
  const std::vector<profile::WorkloadProfile> found = Found();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].gpu_type, HasSubstr("3g.20gb"));
  EXPECT_NEAR(found[0].time_s / 40, 0.9 / (3.0 / 7), 0.1) << "slower than on a whole GPU";
  const auto json = base::ParseJson(ReadText(Results() + "/profile.json"));
  ASSERT_TRUE(json);
  const base::Json& meetings = (*json)["types"][0]["meetings"];
  ASSERT_THAT(meetings, SizeIs(1));
  EXPECT_EQ(meetings[0]["method"], "mig");
  EXPECT_NEAR(meetings[0]["slowdown"]["mean"].get<double>(), 1, 0.05);
}

}  // namespace
}  // namespace carma::system_test
