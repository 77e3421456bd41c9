#include "task/describe/description.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace carma::task {
namespace {

SubmitterContext Eve() {
  return {.cwd = "/home/eve/proj",
          .home = "/home/eve",
          .user = "eve",
          .environment = {{"PATH", "/bin"}, {"LANG", "C"}, {"SECRET", "s"}},
          .now = base::FromMs(1'772'373'600'000)};
}

struct Setting {
  const char* option;
  std::string value;
};
Result<std::vector<TaskSpec>> Describe(const std::vector<Setting>& settings) {
  Description description;
  description.SetCommand({"/usr/bin/true", "x"});
  for (const Setting& setting : settings) {
    if (auto set = description.Set(setting.option, setting.value); !set)
      return std::unexpected(set.error());
  }
  return description.Finish(Eve());
}
TaskSpec One(const std::vector<Setting>& settings) {
  const auto tasks = Describe(settings);
  EXPECT_TRUE(tasks) << tasks.error().message;
  return tasks ? tasks->at(0) : TaskSpec{};
}
std::string ErrorOf(const std::vector<Setting>& settings) {
  const auto tasks = Describe(settings);
  return tasks ? "no error" : tasks.error().message;
}

TEST(Description, FillsInDefaults) {
  const TaskSpec spec = One({});
  EXPECT_EQ(spec.name, "true");
  EXPECT_EQ(spec.workdir, "/home/eve/proj");
  EXPECT_EQ(spec.stdout_path, "/home/eve/proj/carma-%j-%B.out");
  EXPECT_EQ(spec.stderr_path, "");
  EXPECT_EQ(spec.gpus, 1);
  EXPECT_FALSE(spec.memory_mib);
  EXPECT_EQ(spec.environment.size(), 3u);
}

TEST(Description, OnlyHomeIsReplacedInPaths) {
  const TaskSpec spec = One({{"output", "$HOME/log/a"}, {"chdir", "${HOME}"}, {"error", "$5"}});
  EXPECT_EQ(spec.stdout_path, "/home/eve/log/a");
  EXPECT_EQ(spec.workdir, "/home/eve");
  EXPECT_EQ(spec.stderr_path, "/home/eve/$5");
  for (const char* path : {"$SCRATCH/a", "/x/${USER}", "$HOMER/a"}) {
    EXPECT_EQ(
        ErrorOf({{"output", path}}),
        std::string(path) +
            ": only $HOME is expanded here; write out the path, using %j for the task number");
  }
  SubmitterContext inside = Eve();
  inside.cwd = "/data/a$b";
  Description description;
  description.SetCommand({"true"});
  ASSERT_TRUE(description.Set("output", "/data/a$b/log"));
  EXPECT_TRUE(description.Finish(inside)) << "the shell may have inserted the current folder";
  ASSERT_TRUE(description.Set("output", "/data/a$bc/log"));
  EXPECT_FALSE(description.Finish(inside)) << "another folder";
}

TEST(Description, NeedsAStatedFolderIfTheCurrentOneWasRemoved) {
  Description description;
  description.SetCommand({"true"});
  const SubmitterContext removed{.home = "/home/eve", .user = "eve"};
  const auto nowhere = description.Finish(removed);
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().message,
            "the current folder no longer exists; cd elsewhere or give -D FOLDER");
  ASSERT_TRUE(description.Set("chdir", "run"));
  EXPECT_FALSE(description.Finish(removed));
  ASSERT_TRUE(description.Set("chdir", "/tmp"));
  ASSERT_TRUE(description.Set("output", "x.out"));
  const auto tasks = description.Finish(removed);
  ASSERT_TRUE(tasks) << tasks.error().message;
  EXPECT_EQ(tasks->front().stdout_path, "/tmp/x.out");
  ASSERT_TRUE(description.Set("model-summary", "m.txt"));
  EXPECT_FALSE(description.Finish(removed));
}

TEST(Description, ResolvesPaths) {
  const TaskSpec spec = One({{"chdir", "run"},
                             {"output", "logs/%x.out"},
                             {"error", "~/err"},
                             {"model-summary", "./m.txt"},
                             {"conda-env", "envs/tf"}});
  EXPECT_EQ(spec.workdir, "/home/eve/proj/run");
  EXPECT_EQ(spec.stdout_path, "/home/eve/proj/run/logs/%x.out") << "below the working folder";
  EXPECT_EQ(spec.stderr_path, "/home/eve/err");
  EXPECT_EQ(spec.model_summary, "/home/eve/proj/m.txt");
  EXPECT_EQ(spec.conda_env, "/home/eve/proj/envs/tf");
  EXPECT_EQ(One({{"output", "a"}, {"error", "a"}}).stderr_path, "") << "both share one file";
  EXPECT_EQ(One({{"conda-env", "tf"}}).conda_env, "tf");
}

TEST(Description, AcceptsEveryOption) {
  const TaskSpec spec = One({{"J", "my job"},
                             {"G", "2"},
                             {"memory", "12G"},
                             {"t", "1:30:00"},
                             {"H", ""},
                             {"priority", "-5"},
                             {"no-requeue", ""},
                             {"exclusive", ""},
                             {"sm-share", "30%"},
                             {"max-slowdown", "1.5"},
                             {"batch-size", "32"},
                             {"optimizer", "adam"},
                             {"precision", "amp"},
                             {"retries", "0"},
                             {"comment", "note"},
                             {"d", "afterok:1:2,afterany:3,afternotok:4"},
                             {"begin", "now+1hour"}});
  EXPECT_EQ(spec.name, "my job");
  EXPECT_EQ(spec.gpus, 2);
  EXPECT_EQ(spec.memory_mib, 12 * 1024);
  EXPECT_EQ(spec.memory_source, "given");
  EXPECT_EQ(spec.time_limit, base::Duration(5'400'000));
  EXPECT_TRUE(spec.held);
  EXPECT_EQ(spec.priority, -5);
  EXPECT_FALSE(spec.requeue);
  EXPECT_TRUE(spec.exclusive);
  EXPECT_EQ(spec.sm_share, 0.3);
  EXPECT_EQ(spec.max_slowdown, 1.5);
  EXPECT_EQ(spec.batch_size, 32);
  EXPECT_EQ(spec.optimizer, "adam");
  EXPECT_EQ(spec.precision, "amp");
  EXPECT_EQ(spec.max_recoveries, 0);
  EXPECT_EQ(spec.comment, "note");
  ASSERT_EQ(spec.dependencies.size(), 4u);
  EXPECT_EQ(spec.dependencies[3].kind, core::DependencyKind::kAfterNotOk);
  EXPECT_EQ(spec.begin, Eve().now + std::chrono::hours(1));
}

TEST(Description, ServingTasksHaveADefaultSlowdownLimit) {
  EXPECT_EQ(One({}).max_slowdown, std::nullopt);
  EXPECT_EQ(One({{"serve", ""}}).max_slowdown, 1.25);
  EXPECT_EQ(One({{"max-slowdown", "1.1"}, {"serve", ""}}).max_slowdown, 1.1);
  EXPECT_EQ(SpecFromJsonText(R"({"command":["a"],"workdir":"/","serve":true})")->max_slowdown,
            1.25);
}

TEST(Description, TheLastSettingWins) {
  EXPECT_EQ(One({{"gpus", "2"}, {"gpus", "1"}}).gpus, 1);
  EXPECT_FALSE(One({{"exclusive", ""}, {"collocated", ""}}).exclusive);
  EXPECT_TRUE(One({{"no-requeue", ""}, {"requeue", ""}}).requeue);
  EXPECT_EQ(One({{"time", "5"}, {"time", "unlimited"}}).time_limit, std::nullopt);
}

TEST(Description, ReportsMistakesWithTheirPlace) {
  const std::vector<std::pair<std::vector<Setting>, const char*>> cases{
      {{{"gpuz", "1"}}, "--gpuz: unknown option 'gpuz'"},
      {{{"gpu", "first"}}, "--gpu: expected GPU indices or UUIDs such as '2,3', not 'first'"},
      {{{"gpu-type", "a:b"}}, "--gpu-type: expected part of a GPU name such as a100, or any"},
      {{{"gpus", ""}}, "--gpus: expected a value ([TYPE:]N)"},
      {{{"gpus", "-1"}}, "--gpus: expected a number of GPUs from 0 to 1024, not '-1'"},
      {{{"cpus", "0"}}, "--cpus: expected a number from 1 to 65536"},
      {{{"mem", "much"}}, "--mem: expected a memory size"},
      {{{"gpus", "99999999999999999999"}}, "--gpus: expected a number"},
      {{{"hold", "yes"}}, "--hold: takes no value"},
      {{{"memory", "lots"}}, "--memory: expected a memory size"},
      {{{"memory", "0"}}, "--memory: expected a memory size"},
      {{{"memory", "-3G"}}, "--memory: expected a memory size"},
      {{{"sm-share", "30"}}, "--sm-share: expected a share like 30% or 0.3, not '30'"},
      {{{"sm-share", "0"}}, "--sm-share: expected a share"},
      {{{"sm-share", "101%"}}, "--sm-share: expected a share"},
      {{{"sm-share", "half"}}, "--sm-share: expected a share"},
      {{{"sm-share", "nan"}}, "--sm-share: expected a share"},
      {{{"max-slowdown", "0.9"}}, "--max-slowdown: expected a number from 1 to 1000 such as 1.5"},
      {{{"max-slowdown", "1001"}}, "--max-slowdown: expected a number from 1 to 1000"},
      {{{"max-slowdown", "nan"}}, "--max-slowdown: expected a number from 1 to 1000"},
      {{{"time", "soon"}}, "--time: expected a time span"},
      {{{"array", "0-1999999"}}, "--array: an array may have at most 10000 tasks"},
      {{{"array", "5-1"}}, "--array: expected indices"},
      {{{"array", "0-9%0"}}, "--array: expected a limit of at least one task"},
      {{{"array", "1000000001"}}, "--array: array index 1000000001 is above"},
      {{{"dependency", "after:1"}}, "--dependency: expected afterok"},
      {{{"dependency", "afterok:x"}}, "--dependency: expected afterok"},
      {{{"dependency", "afterok"}}, "--dependency: expected afterok"},
      {{{"begin", "25:00"}}, "--begin: expected a time"},
      {{{"begin", "2026-02-30"}}, "--begin: expected a time"},
      {{{"export", "A B"}}, "--export: expected ALL"},
      {{{"rad-estimate", "magic"}}, "--rad-estimate: expected oracle"},
      {{{"job-name", std::string(1 << 20, 'x')}}, "name: expected 1 to 256 bytes"},
      {{{"job-name", "\xff"}}, "name: expected"},
      {{{"priority", "1e9"}}, "--priority: expected a number"},
      {{{"wrap", "true"}}, "--wrap already gives the command"},
  };
  for (const auto& [settings, error] : cases) {
    const std::string message = ErrorOf(settings);
    EXPECT_TRUE(message.starts_with(error)) << error << " <> " << message;
    EXPECT_LT(message.size(), 300u);
  }
}

TEST(Description, RefusesACommandWithoutAProgram) {
  Description description;
  description.SetCommand({""});
  const auto specs = description.Finish({.cwd = "/w", .home = "/h"});
  ASSERT_FALSE(specs);
  EXPECT_EQ(specs.error().message, "nothing to run: the first word of the command is empty");
}

TEST(Description, NamesTheOptionInAFile) {
  Description description;
  const auto set = description.Set("G", "x", "train.sh:3");
  ASSERT_FALSE(set);
  EXPECT_TRUE(set.error().message.starts_with("train.sh:3: --gpus: expected"))
      << set.error().message;
  const auto dashed = description.Set("G", "x", "-x.sh:3");
  ASSERT_FALSE(dashed);
  EXPECT_TRUE(dashed.error().message.starts_with("-x.sh:3: --gpus: expected"))
      << dashed.error().message;
}

TEST(Description, IsUnchangedByAnError) {
  Description description;
  description.SetCommand({"true"});
  ASSERT_TRUE(description.Set("gpus", "3"));
  ASSERT_FALSE(description.Set("gpus", "many"));
  EXPECT_EQ(description.Finish(Eve())->at(0).gpus, 3);
}

TEST(Description, WrapsAShellLine) {
  Description description;
  ASSERT_TRUE(description.Set("wrap", "echo $HOME | wc"));
  const auto tasks = description.Finish(Eve());
  ASSERT_TRUE(tasks) << tasks.error().message;
  EXPECT_EQ(tasks->at(0).script, "#!/bin/sh\necho $HOME | wc\n");
  EXPECT_EQ(tasks->at(0).name, "wrap");
}

TEST(Description, NeedsSomethingToRun) {
  Description description;
  const auto tasks = description.Finish(Eve());
  ASSERT_FALSE(tasks);
  EXPECT_TRUE(tasks.error().message.starts_with("nothing to run")) << tasks.error().message;
}

TEST(Description, ExportsTheRequestedVariables) {
  using Map = std::map<std::string, std::string>;
  EXPECT_EQ(One({{"export", "NONE"}}).environment, Map());
  EXPECT_EQ(One({{"export", "LANG,X=1,MISSING"}}).environment, (Map{{"LANG", "C"}, {"X", "1"}}));
  EXPECT_EQ(One({{"export", "ALL,LANG=de"}}).environment,
            (Map{{"PATH", "/bin"}, {"LANG", "de"}, {"SECRET", "s"}}));
}

TEST(Description, LeavesOutTheVariablesOfAnEnclosingSlurmJob) {
  SubmitterContext context = Eve();
  context.environment = {{"SLURM_CONF", "/etc/slurm.conf"}, {"HOME", "/home/eve"}};
  Description outside;
  outside.SetCommand({"true"});
  EXPECT_EQ(outside.Finish(context).value()[0].environment, context.environment);
  context.environment["SLURM_JOB_ID"] = "4";
  context.environment["SLURM_NTASKS"] = "2";
  Description inside;
  inside.SetCommand({"true"});
  ASSERT_TRUE(inside.Set("export", "ALL,SLURM_NTASKS"));
  EXPECT_EQ(inside.Finish(context).value()[0].environment,
            (std::map<std::string, std::string>{
                {"HOME", "/home/eve"}, {"SLURM_CONF", "/etc/slurm.conf"}, {"SLURM_NTASKS", "2"}}));
}

TEST(Description, LeavesOutVariablesThatAreNotText) {
  Description description;
  description.SetCommand({"true"});
  SubmitterContext context = Eve();
  context.environment["BAD"] = "\xff";
  const auto tasks = description.Finish(context);
  ASSERT_TRUE(tasks);
  EXPECT_EQ(tasks->at(0).environment.count("BAD"), 0u);
  ASSERT_EQ(description.warnings().size(), 1u);
  EXPECT_NE(description.warnings()[0].find("BAD"), std::string::npos);
}

TEST(Description, MakesAnArray) {
  const auto tasks = Describe({{"array", "7,0-4:2%3"}});
  ASSERT_TRUE(tasks) << tasks.error().message;
  ASSERT_EQ(tasks->size(), 4u);
  std::vector<std::int64_t> indices;
  for (const TaskSpec& task : *tasks) {
    indices.push_back(*task.array_index);
    EXPECT_EQ(task.array_limit, 3);
  }
  EXPECT_EQ(indices, (std::vector<std::int64_t>{0, 2, 4, 7}));
  EXPECT_EQ(Describe({{"array", "0-9999"}})->size(), 10'000u);
}

TEST(Description, WarnsAboutOmittedParts) {
  Description description;
  ASSERT_TRUE(description.Set("gres", "gpu:a100:2,shard:4", "x.sh:2"));
  ASSERT_EQ(description.warnings().size(), 1u);
  EXPECT_EQ(description.warnings()[0],
            "x.sh:2: --gres: 'shard:4' means one shared GPU, regardless of the count; specify its "
            "memory with --gpu-mem");
}

TEST(Description, ChoosesGpusByTypeSizeAndName) {
  const TaskSpec typed = One({{"gpus", "a100:2"}, {"gpu-memory-min", "40G"}, {"not-on", "0"}});
  EXPECT_EQ(typed.gpus, 2);
  EXPECT_EQ(typed.gpu_type, "a100");
  EXPECT_EQ(typed.gpu_memory_min_mib, 40 * 1024);
  EXPECT_EQ(typed.not_on_gpus, std::vector<std::string>{"0"});
  EXPECT_EQ(One({{"gpus", "a100:2"}, {"gpus", "4"}}).gpu_type, std::nullopt)
      << "a later value replaces the earlier one entirely";
  EXPECT_EQ(One({{"gpu-type", "a100"}, {"gpus", "4"}}).gpu_type, "a100");
  EXPECT_EQ(One({{"gpu-type", "a100"}, {"gpu-type", "any"}}).gpu_type, std::nullopt);
  EXPECT_EQ(One({{"gpu", "2,3,2"}}).gpus, 2) << "one for each distinct name";
  EXPECT_EQ(One({{"gpu", "2,3"}, {"gpus", "1"}}).gpus, 1) << "one of them";
  EXPECT_TRUE(One({{"linked", ""}, {"gpus", "2"}}).linked_gpus);
}

}  // namespace
}  // namespace carma::task
