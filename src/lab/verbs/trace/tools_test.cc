// Tests `carma trace` end to end.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "api/task_view.h"
#include "api/views.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/fake_daemon.h"
#include "cli/shell_quote.h"
#include "lab/verbs/lab.h"

namespace carma::cli {
namespace {

class TraceTools : public ::testing::Test {
 protected:
  std::string File(const std::string& name, const std::string& text) {
    const std::string path = daemon_.dir() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  Ran Run(std::vector<std::string> words) {
    words.insert(words.begin(), "trace");
    return RunWords(daemon_.socket_path(), std::move(words), "", LabProgram());
  }
  // A trace with one job per hour for a day, in two clusters.
  std::string Jobs() {
    std::string text =
        "# found somewhere\n# start: 2020-03-01T00:00:00\n"
        "submit_s,gpus,duration_s,vc,user,status\n";
    for (int i = 0; i < 24; ++i) {
      text += std::to_string(i * 3600) + "," +
              (i % 4 == 3   ? "2"
               : i % 4 == 2 ? "0.5"
                            : "1") +
              "," + std::to_string(600 + 60 * i) + (i % 2 == 0 ? ",even" : ",\"o,dd\"") +
              ",u,passed\n";
    }
    return File("jobs.csv", text);
  }

  FakeDaemon daemon_;
};

TEST_F(TraceTools, InfoDescribesATrace) {
  const Ran text = Run({"info", Jobs()});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_EQ(text.err, "");
  for (const char* piece :
       {"2020-03-01T00:00:00", "24 (24 passed)", "6 on a share of one, 12 on 1, 6 on 2",
        "Clusters     2: o,dd", "found somewhere", "mean 1:00:00"}) {
    EXPECT_NE(text.out.find(piece), std::string::npos) << piece << "\n" << text.out;
  }
  const Ran json = Run({"info", Jobs(), "--json"});
  const auto facts = base::ParseJson(json.out);
  ASSERT_TRUE(facts) << json.out;
  EXPECT_EQ((*facts)["jobs"], 24);
  EXPECT_EQ((*facts)["arrivals"]["cv"], 0.0);
  EXPECT_EQ((*facts)["gpus"]["0.5"], 6);
  EXPECT_EQ((*facts)["by_hour"].size(), 24u);
  EXPECT_EQ((*facts)["sha256"].get<std::string>().size(), 64u);
}

TEST_F(TraceTools, InfoShowsTheWorkloadsOfATaskTrace) {
  const Ran text = Run({"info", "demo60"});
  EXPECT_NE(text.out.find("60 (9 heavy, 7 light, 44 medium)"), std::string::npos) << text.out;
  const auto facts = base::ParseJson(Run({"info", "demo60", "--json"}).out);
  ASSERT_TRUE(facts);
  EXPECT_EQ((*facts)["classes"]["heavy"], 9);
  EXPECT_EQ((*facts)["highest_memory_mib"], 26'240);
}

TEST_F(TraceTools, InfoCountsWorkloadsThatTheCatalogueLacks) {
  const std::string jobs =
      File("j.csv", "submit_s,gpus,duration_s,workload_id\n0,1,5,mine\n1,1,5,mine\n2,1,5,\n");
  const Ran text = Run({"info", jobs});
  EXPECT_NE(text.out.find("Tasks        3 (3 unknown)\n"), std::string::npos) << text.out;
  EXPECT_EQ(text.out.find("Memory"), std::string::npos) << text.out;
}

TEST_F(TraceTools, WindowAndSampleAcceptOtherWorkloads) {
  const std::string workloads =
      File("w.csv",
           "workload_id,gpus,solo_seconds,solo_smact,mps_sensitivity,mps_pressure,memory_mib\n"
           "mine,1,600,0.3,0.5,0.3,1600\n");
  const std::string trace = File("t.csv", "submit_s,workload_id\n0,mine\n600,mine\n1200,mine\n");
  for (const char* verb : {"window", "sample"}) {
    const Ran ran = Run({verb, trace, "--workloads", workloads});
    EXPECT_EQ(ran.exit_code, 0) << verb << ran.err;
    EXPECT_EQ(ran.err, "") << verb;
    EXPECT_NE(ran.out.find("600,mine\n"), std::string::npos) << verb << ran.out;
  }
}

TEST_F(TraceTools, KeepTheRequestsOfTasks) {
  const std::string tasks = File("t.csv",
                                 "submit_s,workload_id,account,qos,cpus,gpu_type\n"
                                 "0,inception-b32,vision,night,4,A100\n"
                                 "600,inception-b32,,,,any\n"
                                 "900,inception-b32,,,2.5,\n");
  const std::string jobs = File("j.csv", Run({"export", tasks, "--as", "jobs"}).out);
  for (const std::vector<std::string>& words : {std::vector<std::string>{"window", tasks},
                                                {"sample", tasks, "--load", "1000"},
                                                {"map", tasks},
                                                {"map", jobs},
                                                {"export", tasks, "--as", "tasks"}}) {
    const Ran ran = Run(words);
    EXPECT_EQ(ran.exit_code, 0) << words[0] << ran.err;
    EXPECT_TRUE(
        ran.out.ends_with("submit_s,workload_id,account,qos,cpus,gpu_type\n"
                          "0,inception-b32,vision,night,4,A100\n"
                          "600,inception-b32,,,,\n"
                          "900,inception-b32,,,2.5,\n"))
        << words[0] << "\n"
        << ran.out;
  }
  const Ran script = Run({"export", tasks, "--as", "script"});
  EXPECT_NE(script.out.find(" --account vision --qos night --gpu-type A100 --cpus 4 "),
            std::string::npos)
      << script.out;
  EXPECT_NE(script.out.find(" --gpus 1 --cpus 3 "), std::string::npos) << "cores are rounded up";
  const Ran generated = Run({"generate", "--fit", tasks, "--tasks", "9"});
  EXPECT_NE(generated.out.find(",vision,night,4,A100\n"), std::string::npos) << generated.out;
  const std::string bad =
      File("b.csv", "submit_s,workload_id,qos,cpus\n0,inception-b32,a b,4\n5,inception-b32,,-1\n");
  const Ran warned = Run({"window", bad});
  EXPECT_EQ(warned.exit_code, 0);
  EXPECT_NE(warned.err.find("b.csv:2: invalid account, qos, cpus or gpu_type: ',a b,4,'; task "
                            "kept without these values"),
            std::string::npos)
      << warned.err;
  EXPECT_TRUE(warned.out.ends_with("submit_s,workload_id\n0,inception-b32\n5,inception-b32\n"))
      << warned.out;
}

TEST_F(TraceTools, WindowAcceptsTimeSpansDatesAndClusters) {
  const std::string jobs = Jobs();
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"--from", "22h"}, "0,0.5,1920,even,u,passed\n3600,2,1980,\"o,dd\",u,passed\n"},
      {{"--from", "2020-03-01 22:00", "--to", "2020-03-01T23:00:00"}, "0,0.5,1920,even,u,passed\n"},
      {{"--from", "20h", "--vc", "o,dd", "--max-gpus", "1"}, "0,1,1860,\"o,dd\",u,passed\n"},
  };
  for (const auto& [options, rows] : cases) {
    std::vector<std::string> words{"window", jobs};
    words.insert(words.end(), options.begin(), options.end());
    const Ran ran = Run(words);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_TRUE(
        ran.out.starts_with("# found somewhere\n# made by carma 1.2.3: trace window --from"));
    EXPECT_TRUE(ran.out.ends_with("\nsubmit_s,gpus,duration_s,vc,user,status\n" + rows)) << ran.out;
  }
  EXPECT_EQ(Run({"window", jobs, "--from", "0"}).exit_code, 0);
  EXPECT_NE(Run({"window", jobs, "--from", "22h"}).out.find("# start: 2020-03-01T22:00:00\n"),
            std::string::npos);
}

TEST_F(TraceTools, AChainOfToolsKeepsTheProvenance) {
  const std::string window = File("w.csv", Run({"window", Jobs(), "--from", "2h"}).out);
  const std::string sample =
      File("s.csv", Run({"sample", window, "--gpus", "2", "--tasks", "10"}).out);
  const Ran mapped = Run({"map", sample, "--mix", "light=1,heavy=1", "--keep-durations"});
  EXPECT_EQ(mapped.exit_code, 0) << mapped.err;
  std::vector<std::size_t> places;
  for (const char* origin :
       {"# found somewhere\n", "trace window --from '2h' from ", "22 of 24 jobs\n",
        "trace sample --gpus 2 --tasks 10 --seed 1 from ", "skipped: 0 with more than 2 GPUs",
        "trace map --mix light=1,heavy=1 --keep-durations --seed 1 from ",
        "submit_s,workload_id,solo_s,user\n"}) {
    places.push_back(mapped.out.find(origin));
    ASSERT_NE(places.back(), std::string::npos) << origin << "\n" << mapped.out;
  }
  EXPECT_TRUE(std::is_sorted(places.begin(), places.end()));
  EXPECT_EQ(Run({"map", sample, "--mix", "light=1,heavy=1", "--keep-durations"}).out, mapped.out);
  const std::string tasks = File("t.csv", mapped.out);
  EXPECT_EQ(Run({"info", tasks}).exit_code, 0);
  const Ran again = Run({"window", tasks, "--to", "12h"});
  EXPECT_NE(again.out.find("submit_s,workload_id,solo_s,user\n"), std::string::npos)
      << "a part of a task trace is a task trace\n"
      << again.out;
}

TEST_F(TraceTools, MapWarnsOfAMixThatTheCatalogueCannotGive) {
  const Ran ran = Run({"map", Jobs()});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.err,
            "carma: warning: 6 of 24 jobs are heavy, not 2: no other class uses as many GPUs; "
            "'trace window --max-gpus' drops such jobs\n");
  const std::string small = File("w.csv", Run({"window", Jobs(), "--max-gpus", "1"}).out);
  EXPECT_EQ(Run({"map", small}).err, "");
}

TEST_F(TraceTools, SampleScalesTimesToALoad) {
  const Ran ran = Run({"sample", "demo60", "--gpus", "4", "--load", "2", "--scale-time"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(
      ran.out.find("trace sample --gpus 4 --load 2 --scale-time --seed 1 from demo60 (tasks,"),
      std::string::npos)
      << ran.out;
  EXPECT_NE(ran.out.find("load 2.000, CV of gaps 1.41 (before: 1.41), arrival profiles differ by "
                         "0.000, times x 2.0"),
            std::string::npos)
      << ran.out;
}

TEST_F(TraceTools, GenerateResemblesItsTrace) {
  const Ran jobs = Run({"generate", "--fit", Jobs(), "--tasks", "3", "--seed", "5"});
  EXPECT_EQ(jobs.exit_code, 0) << jobs.err;
  EXPECT_NE(jobs.out.find("fitted to 24 jobs\nsubmit_s,gpus,duration_s,vc,user,status\n0,"),
            std::string::npos)
      << jobs.out;
  EXPECT_NE(jobs.out.find("\n3600,"), std::string::npos);
  const Ran tasks = Run({"generate", "--fit", "demo60", "--tasks", "100"});
  EXPECT_NE(tasks.out.find("\nsubmit_s,workload_id\n0,"), std::string::npos) << tasks.out;
  const Ran plain = Run({"generate", "--max-gpus", "1"});
  EXPECT_NE(plain.out.find("built-in defaults\nsubmit_s,gpus,duration_s,status\n0,1,"),
            std::string::npos)
      << plain.out;
  EXPECT_EQ(std::ranges::count(plain.out, '\n'), 62);
  EXPECT_EQ(Run({"generate", "--max-gpus", "1"}).out, plain.out);
}

TEST_F(TraceTools, ExportWritesAScriptThatAShellRuns) {
  const std::string catalogue =
      File("c.csv",
           "workload_id,gpus,solo_seconds,solo_smact,mps_sensitivity,mps_pressure,"
           "memory_mib,horus_mib\n"
           "\"it's $HOME; rm -rf x\",1,10,0.5,1,0.1,100,40000\n");
  const std::string tasks = File(
      "t.csv", "submit_s,workload_id\n2.5,\"it's $HOME; rm -rf x\"\n4,\"it's $HOME; rm -rf x\"\n");
  const Ran ran = Run({"export", tasks, "--workloads", catalogue, "--as", "script", "--command",
                       "run {workload} {gpus} {n} {duration_s}"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  // Runs the script with stand-ins for `carma` and `sleep` that print their arguments word by word.
  const std::string script = File("s.sh",
                                  "carma() { printf '<%s>' carma \"$@\"; echo; }\n"
                                  "sleep() { echo \"sleep $1\"; }\n" +
                                      ran.out);
  ASSERT_EQ(std::system(("sh " + script + " > " + script + ".out").c_str()), 0);
  const std::string line =
      "<carma><submit><--job-name><it's $HOME; rm -rf x><--gpus><1><--memory><100><--><run>"
      "<it's $HOME; rm -rf x><1>";
  EXPECT_EQ(base::ReadFile(script + ".out", 4096).value(),
            "sleep 2.5\n" + line + "<1><10>\nsleep 1.5\n" + line + "<2><10>\n");
  const Ran whole_gpu =
      Run({"export", tasks, "--workloads", catalogue, "--as", "script", "--estimate", "horus"});
  EXPECT_NE(whole_gpu.out.find(" --gpus 1 --exclusive -- carma-simtask --memory-mib 100"),
            std::string::npos)
      << whole_gpu.out;
  const Ran missing =
      Run({"export", tasks, "--workloads", catalogue, "--as", "script", "--estimate", "gpumemnet"});
  EXPECT_EQ(missing.exit_code, kExitUsage);
  EXPECT_NE(missing.err.find("no estimates in a column 'gpumemnet_mib'"), std::string::npos);
  const Ran jobs = Run({"export", Jobs(), "--as", "script"});
  EXPECT_NE(jobs.out.find("sleep 3600\ncarma submit --job-name job-2 --gpus 1 -- sleep 660\n"),
            std::string::npos)
      << jobs.out;
}

TEST_F(TraceTools, ExportReadsTheDaemonsHistory) {
  daemon_.On("GET /v1/tasks", [](const api::Request&) {
    base::Json tasks = base::Json::array();
    tasks.push_back(ToJson(api::TaskView{.id = 1,
                                         .name = "bert-base-b32",
                                         .user = "ann",
                                         .state = "succeeded",
                                         .submitted_ms = 1'000'000,
                                         .launched_ms = 1'060'000,
                                         .attempt_ended_ms = 1'090'500,
                                         .ended_ms = 9'000'000}));
    tasks.push_back(ToJson(api::TaskView{.id = 2,
                                         .name = "mine",
                                         .user = "bob",
                                         .state = "running",
                                         .gpus = 2,
                                         .gpu_type = "A100",
                                         .submitted_ms = 1'005'000,
                                         .launched_ms = 1'060'000,
                                         .account = "vision",
                                         .qos = "interactive",
                                         .cpus = 4}));
    tasks.push_back(ToJson(api::TaskView{.id = 3,
                                         .name = "x",
                                         .user = "bob",
                                         .state = "cancelled",
                                         .submitted_ms = 1'006'000,
                                         .qos = "normal"}));
    tasks.push_back(ToJson(api::TaskView{.id = 4,
                                         .name = "saved",
                                         .user = "bob",
                                         .state = "succeeded",
                                         .submitted_ms = 1'007'000,
                                         .launched_ms = 1'090'000,
                                         .ended_ms = 1'091'000,
                                         .checkpoints = 2}));
    return api::Response{.status = 200, .body = base::DumpJson({{"tasks", tasks}})};
  });
  ::setenv("TZ", "UTC", 1);
  const Ran jobs = Run({"export"});
  EXPECT_EQ(jobs.exit_code, 0) << jobs.err;
  EXPECT_EQ(jobs.out,
            "# exported by carma 1.2.3 (trace export): 4 tasks from the daemon\n"
            "# start: 1970-01-01T00:16:40\n"
            "submit_s,gpus,duration_s,user,status,workload_id,account,qos,cpus,gpu_type\n"
            "0,1,30.5,ann,passed,bert-base-b32,,,,\n"
            "5,2,,bob,running,,vision,interactive,4,A100\n"
            "6,1,,bob,pending,,,,,\n"
            "7,1,,bob,passed,,,,,\n");
  EXPECT_NE(Run({"export", "--as", "script"}).out.find("--solo-s 925 "), std::string::npos)
      << "the solo run time, not the time with neighbours";
  const Ran tasks = Run({"export", "--as", "tasks"});
  EXPECT_EQ(tasks.exit_code, 2);
  EXPECT_EQ(tasks.err,
            "carma: a job does not name a workload; carma trace map assigns one to every job\n");
}

TEST_F(TraceTools, ExportsNoLoadForJobsThatNeverRan) {
  const std::string head = "submit_s,gpus,duration_s,status,workload_id\n";
  const std::string pending = "5,1,,pending,bert-base-b32\n";
  const std::string jobs = File(
      "j.csv", head + "0,1,100,passed,bert-base-b32\n" + pending + "9,1,,failed,bert-base-b32\n");
  const Ran tasks = Run({"export", jobs, "--as", "tasks"});
  EXPECT_TRUE(
      tasks.out.ends_with("# skipped: 1 that never ran\n"
                          "submit_s,workload_id,solo_s\n"
                          "0,bert-base-b32,100\n"
                          "9,bert-base-b32,\n"))
      << tasks.out;
  EXPECT_EQ(Run({"export", jobs, "--as", "script"}).out.find("sleep 5"), std::string::npos);
  EXPECT_NE(Run({"export", jobs}).out.find("\n5,1,,pending"), std::string::npos);
  const Ran none = Run({"export", File("p.csv", head + pending), "--as", "tasks"});
  EXPECT_EQ(none.err.substr(none.err.rfind("carma: ")), "carma: none of the jobs ever ran\n");
}

TEST_F(TraceTools, WarnsAboutBadLinesAndRefusesThemWithStrict) {
  std::string rows;
  for (int i = 0; i < 7; ++i) rows += "9,1,-5\n";
  const std::string jobs = File("j.csv", "submit_s,gpus,duration_s\n1,1,5\n3,1\n" + rows);
  const Ran ran = Run({"info", jobs});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_TRUE(ran.err.starts_with("carma: warning: " + jobs +
                                  ":3: truncated line: '3,1'; skipped\n" +
                                  "carma: warning: " + jobs + ":4: invalid duration: '-5'"))
      << ran.err;
  EXPECT_TRUE(
      ran.err.ends_with(": 8 problems: truncated line (1 time; skipped), invalid duration "
                        "(7 times; job kept without a duration)\n"))
      << ran.err;
  const Ran strict = Run({"info", jobs, "--strict"});
  EXPECT_EQ(strict.exit_code, 2);
  EXPECT_EQ(strict.err,
            "carma: " + jobs + ":3: truncated line: '3,1'; skipped (not with --strict)\n");
}

TEST_F(TraceTools, RefusesInvalidRequests) {
  const std::string jobs = Jobs();
  const std::string undated = File("u.csv", "submit_s,gpus,duration_s\n1,1,5\n");
  const std::vector<std::pair<std::vector<std::string>, const char*>> cases{
      {{"info", "/nowhere"}, "/nowhere"},
      {{"info", daemon_.dir()}, "is a folder"},
      {{"info", jobs, "--format", "swf"}, "format 'swf': expected philly, jobs, tasks, helios"},
      {{"window", jobs, "--from", "soon"}, "--from: expected a span like 36h"},
      {{"window", jobs, "--from", "36"}, "--from: expected a span like 36h"},
      {{"window", undated, "--to", "2020-01-01"}, "--to: this trace has no dates"},
      {{"window", jobs, "--from", "9d"}, "no matching jobs"},
      {{"window", jobs, "--vc", "none"}, "the trace has no virtual cluster 'none'"},
      {{"sample", jobs, "--tasks", "3", "--load", "2"},
       "--tasks and --load can be combined only with"},
      {{"sample", jobs, "--gpus", "0"}, "--gpus"},
      {{"map", jobs, "--mix", "light"}, "mix 'light': expected class shares"},
      {{"export", jobs, "--as", "pdf"}, "--as: expected jobs, tasks or script, not 'pdf'"},
      {{"export", jobs, "--user", "ada"}, "trace cannot be combined with --user"},
      {{"export", jobs, "--command", "true"}, "--command and --estimate need --as script"},
      {{"export", jobs, "--estimate", "none"}, "--command and --estimate need --as script"},
      {{"export", "--strict"}, "--strict requires trace"},
      {{"generate", "--format", "helios"}, "--format requires --fit"},
      {{"generate", "--workloads", "w.csv"}, "--workloads requires --fit"},
      {{"map", undated, "--users", "vc"}, "--users vc: the trace names no virtual clusters"},
      {{"replay", "--memory", "1=6G", "/nowhere.csv"}, "No such file"},
      {{"map", jobs, "--users", "group"}, "--users: expected user, vc, not 'group'"},
      {{"map", jobs, "--json"}, "trace map takes no --json: it writes a trace"},
      {{"export", jobs, "--as", "script", "--command", "a\nb"}, "--command: expected one line"},
      {{"generate", "--tasks", "0"}, "--tasks"},
      {{"generate", "--fit", "demo60", "--tasks", "1000001"},
       "a task trace can hold at most 1000000 tasks"},
  };
  for (const auto& [words, error] : cases) {
    const Ran ran = Run(words);
    EXPECT_NE(ran.exit_code, 0) << error;
    EXPECT_NE(ran.err.find(error), std::string::npos) << ran.err;
  }
}

TEST(ShellQuote, LeavesPlainWordsAndQuotesOthers) {
  EXPECT_EQ(ShellQuote("resnet50-b32"), "resnet50-b32");
  EXPECT_EQ(ShellQuote(""), "''");
  EXPECT_EQ(ShellQuote("a b"), "'a b'");
  EXPECT_EQ(ShellQuote("it's"), "'it'\\''s'");
  EXPECT_EQ(ShellQuote("~/x"), "'~/x'");
}

}  // namespace
}  // namespace carma::cli
