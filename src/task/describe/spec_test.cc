#include "task/describe/spec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/rng.h"
#include "base/test_fields.h"
#include "task/describe/spec_json.h"

namespace carma::task {
namespace {

TaskSpec Good() {
  TaskSpec spec;
  spec.name = "train";
  spec.command = {"python", "train.py"};
  spec.workdir = "/home/eve";
  spec.stdout_path = "/home/eve/carma-%j.out";
  return spec;
}

struct Case {
  const char* name;
  std::function<void(TaskSpec&)> change;
  const char* error;  // how the error message begins; empty: valid
};

TEST(Validate, ChecksEveryRule) {
  const std::vector<Case> cases{
      {"a plain task", [](TaskSpec&) {}, ""},
      {"no name", [](TaskSpec& s) { s.name.clear(); }, "name: "},
      {"a name of 1 MiB", [](TaskSpec& s) { s.name.assign(1 << 20, 'x'); }, "name: "},
      {"a name in Latin-1", [](TaskSpec& s) { s.name = "caf\xe9"; }, "name: "},
      {"a name with a line break", [](TaskSpec& s) { s.name = "a\nb"; }, "name: "},
      {"a name that reverses the text", [](TaskSpec& s) { s.name = "a\u202eb"; }, "name: "},
      {"a comment with a control code of old terminals",
       [](TaskSpec& s) { s.comment = "\u009b2J"; }, "comment: "},
      {"a path with a line separator", [](TaskSpec& s) { s.workdir = "/a\u2028b"; }, "workdir: "},
      {"an output path with a terminal's escape sequence",
       [](TaskSpec& s) { s.stdout_path = "/a\x1b[2J"; }, "stdout_path: "},
      {"an argument with several lines", [](TaskSpec& s) { s.command.emplace_back("a\nb\u202e"); },
       ""},
      {"nothing to run", [](TaskSpec& s) { s.command.clear(); }, "command: "},
      {"an empty program", [](TaskSpec& s) { s.command = {""}; }, "command: "},
      {"a command and a script", [](TaskSpec& s) { s.script = "#!/bin/sh\n"; }, "command: "},
      {"a NUL byte in an argument", [](TaskSpec& s) { s.command.emplace_back("a\0b", 3); },
       "command/2: "},
      {"an argument that is not UTF-8", [](TaskSpec& s) { s.command.emplace_back("\xff"); },
       "command/2: "},
      {"an argument too large for the kernel",
       [](TaskSpec& s) { s.command.emplace_back(kMaxArgBytes, 'x'); }, "command/2: "},
      {"too many arguments", [](TaskSpec& s) { s.command.resize(kMaxArgs + 1, "x"); },
       "command: expected at most 10000"},
      {"too many bytes of arguments",
       [](TaskSpec& s) { s.command.resize(20, std::string(100'000, 'x')); },
       "command: expected at most 1048576 bytes"},
      {"a script", [](TaskSpec& s) { s.command.clear(), s.script = "#!/bin/sh\ntrue\n"; }, ""},
      {"a script without an interpreter",
       [](TaskSpec& s) { s.command.clear(), s.script = "true\n"; }, "script: "},
      {"a script of more than 4 MiB",
       [](TaskSpec& s) { s.command.clear(), s.script = "#!" + std::string(kMaxScriptBytes, 'x'); },
       "script: "},
      {"a script's path without a script", [](TaskSpec& s) { s.script_path = "/x.sh"; },
       "script_path: "},
      {"a relative script path",
       [](TaskSpec& s) { s.command.clear(), s.script = "#!/bin/sh\n", s.script_path = "x.sh"; },
       "script_path: "},
      {"script arguments without a script", [](TaskSpec& s) { s.script_args = {"x"}; },
       "script_args: "},
      {"a relative working directory", [](TaskSpec& s) { s.workdir = "eve"; }, "workdir: "},
      {"a relative output", [](TaskSpec& s) { s.stdout_path = "out"; }, "stdout_path: "},
      {"a relative error file", [](TaskSpec& s) { s.stderr_path = "err"; }, "stderr_path: "},
      {"a relative model summary", [](TaskSpec& s) { s.model_summary = "m"; }, "model_summary: "},
      {"a path of 5000 bytes", [](TaskSpec& s) { s.workdir = "/" + std::string(5000, 'x'); },
       "workdir: "},
      {"a conda environment by name", [](TaskSpec& s) { s.conda_env = "tf"; }, ""},
      {"a conda environment by path", [](TaskSpec& s) { s.conda_env = "/opt/env"; }, ""},
      {"a relative conda environment", [](TaskSpec& s) { s.conda_env = "../x"; }, "conda_env: "},
      {"a variable without a name", [](TaskSpec& s) { s.environment[""] = "x"; }, "environment: "},
      {"a variable named with '='", [](TaskSpec& s) { s.environment["a=b"] = "x"; },
       "environment: "},
      {"a variable that is not UTF-8", [](TaskSpec& s) { s.environment["A"] = "\xff"; },
       "environment/A: "},
      {"a shell function as bash exports it",
       [](TaskSpec& s) { s.environment["BASH_FUNC_f%%"] = "() {\n true\n}"; }, ""},
      {"an environment too large for the kernel",
       [](TaskSpec& s) {
         for (int i = 0; i < 20; ++i) s.environment["V" + std::to_string(i)].assign(100'000, 'x');
       },
       "environment: expected at most"},
      {"a negative number of GPUs", [](TaskSpec& s) { s.gpus = -1; }, "gpus: "},
      {"a million GPUs", [](TaskSpec& s) { s.gpus = 1'000'000; }, "gpus: "},
      {"no memory", [](TaskSpec& s) { s.memory_mib = 0; }, "memory_mib: "},
      {"absurd memory", [](TaskSpec& s) { s.memory_mib = INT64_MAX; }, "memory_mib: "},
      {"an SM share of zero", [](TaskSpec& s) { s.sm_share = 0; }, "sm_share: "},
      {"an SM share above 1", [](TaskSpec& s) { s.sm_share = 1.5; }, "sm_share: "},
      {"an SM share of NaN", [](TaskSpec& s) { s.sm_share = NAN; }, "sm_share: "},
      {"all SMs", [](TaskSpec& s) { s.sm_share = 1; }, ""},
      {"faster than alone", [](TaskSpec& s) { s.max_slowdown = 0.5; }, "max_slowdown: "},
      {"no core", [](TaskSpec& s) { s.cpus = 0; }, "cpus: "},
      {"no host memory", [](TaskSpec& s) { s.host_memory_mib = 0; }, "host_memory_mib: "},
      {"an invalid GPU name",
       [](TaskSpec& s) {
         s.on_gpus = {"1", "GPU 2"};
       },
       "on_gpus"},
      {"no GPU", [](TaskSpec& s) { s.not_on_gpus = {"-1"}; }, "not_on_gpus"},
      {"no type", [](TaskSpec& s) { s.gpu_type = "a100;"; }, "gpu_type: "},
      {"no signal", [](TaskSpec& s) { s.checkpoint_signal = "SIGUSR1"; }, "checkpoint_signal: "},
      {"a slowdown of NaN", [](TaskSpec& s) { s.max_slowdown = NAN; }, "max_slowdown: "},
      {"no slowdown allowed", [](TaskSpec& s) { s.max_slowdown = 1; }, ""},
      {"absurd priority", [](TaskSpec& s) { s.priority = INT64_MIN; }, "priority: "},
      {"no time", [](TaskSpec& s) { s.time_limit = base::Duration(0); }, "time_limit_s: "},
      {"a thousand years", [](TaskSpec& s) { s.time_limit = base::Duration(INT64_MAX); }, "time_"},
      {"begin before 1970", [](TaskSpec& s) { s.begin = base::FromMs(-1); }, "begin_ms: "},
      {"too many dependencies",
       [](TaskSpec& s) { s.dependencies.resize(core::kMaxDependencies + 1, {core::TaskId{1}}); },
       "dependencies: "},
      {"a dependency on task 0", [](TaskSpec& s) { s.dependencies.resize(1); },
       "dependencies/0/task: "},
      {"a private umask", [](TaskSpec& s) { s.umask = "0077"; }, ""},
      {"a umask in decimal", [](TaskSpec& s) { s.umask = "18"; }, "umask: expected three octal"},
      {"a umask beyond octal", [](TaskSpec& s) { s.umask = "089"; }, "umask: "},
      {"a umask with a sticky bit", [](TaskSpec& s) { s.umask = "1022"; }, "umask: "},
      {"no umask", [](TaskSpec& s) { s.umask = ""; }, "umask: "},
      {"a negative array index", [](TaskSpec& s) { s.array_index = -1; }, "array_index: "},
      {"an optimizer of two words", [](TaskSpec& s) { s.optimizer = "a b"; }, "optimizer: "},
      {"a comment of 1 MiB", [](TaskSpec& s) { s.comment.emplace(1 << 20, 'x'); }, "comment: "},
  };
  for (const Case& c : cases) {
    TaskSpec spec = Good();
    c.change(spec);
    const auto valid = Validate(spec);
    if (std::string_view(c.error).empty()) {
      EXPECT_TRUE(valid) << c.name << ": " << (valid ? "" : valid.error().message);
    } else {
      ASSERT_FALSE(valid) << c.name;
      EXPECT_TRUE(valid.error().message.starts_with(c.error)) << c.name << valid.error().message;
      EXPECT_LT(valid.error().message.size(), 300u) << c.name;
    }
  }
}

TEST(Umask, ConvertsBetweenOctalTextAndBits) {
  TaskSpec spec = Good();
  EXPECT_EQ(UmaskOf(spec), 022U);
  for (const mode_t bits : {0U, 02U, 027U, 0777U}) {
    spec.umask = UmaskText(bits);
    EXPECT_TRUE(Validate(spec)) << spec.umask;
    EXPECT_EQ(UmaskOf(spec), bits);
  }
  spec.umask = "0077";
  EXPECT_EQ(UmaskOf(spec), 077U);
}

std::string AnyText(base::Rng& rng) {
  static const std::vector<std::string> kTexts{
      "a", "naïve", "x y", "\"quoted\"", "back\\slash", "tab\there", "日本", "{}", "%j"};
  std::string text;
  for (std::uint64_t i = 0; i <= rng.Below(3); ++i) text += kTexts[rng.Below(kTexts.size())];
  return text;
}

std::string AnyLine(base::Rng& rng) {
  std::string text = AnyText(rng);
  std::ranges::replace(text, '\t', ' ');
  return text;
}

// A valid description with each field set or omitted at random.
TaskSpec AnySpec(base::Rng& rng) {
  TaskSpec s = Good();
  const auto chance = [&] { return rng.Below(2) == 0; };
  if (chance()) {
    s.command.clear();
    s.script = "#!/bin/sh\n" + AnyText(rng) + "\n";
    if (chance()) s.script_args = {AnyText(rng), ""};
    if (chance()) s.script_path = "/s/" + AnyLine(rng);
  }
  if (chance()) s.environment = {{"PATH", "/bin"}, {"X", AnyText(rng)}};
  if (chance()) s.conda_env = "/opt/" + AnyLine(rng);
  s.gpus = 1 + static_cast<int>(rng.Below(core::kMaxGpus));
  if (chance()) s.memory_mib = 1 + static_cast<std::int64_t>(rng.Below(core::kMaxMemoryMib));
  if (chance()) s.memory_source = "rad";
  if (chance()) s.umask = UmaskText(static_cast<mode_t>(rng.Below(0777)));
  s.exclusive = chance();
  if (chance()) s.sm_share = static_cast<double>(1 + rng.Below(100)) / 100;
  if (chance()) s.max_slowdown = 1 + static_cast<double>(rng.Below(100)) / 4;
  if (chance()) s.cpus = 1 + static_cast<int>(rng.Below(128));
  if (chance()) s.host_memory_mib = 1 + static_cast<std::int64_t>(rng.Below(1'000'000));
  s.own_cpus = chance();
  if (chance()) s.gpu_type = "A100-SXM4 40GB";
  if (chance()) s.gpu_memory_min_mib = 1 + static_cast<std::int64_t>(rng.Below(80'000));
  if (chance()) s.on_gpus = {"0", "GPU-5f1c0a3e-7b1d-4a55-9a53-0d8a9f3b2c01"};
  if (chance()) s.not_on_gpus = {"7"};
  s.linked_gpus = chance();
  s.no_slots = chance();
  s.no_progress = chance();
  s.serve = s.max_slowdown && chance();
  if (chance()) s.checkpoint_signal = "USR2";
  if (chance()) s.model_summary = "/m/" + AnyLine(rng);
  if (chance()) s.batch_size = 1 + static_cast<std::int64_t>(rng.Below(1000));
  if (chance()) s.optimizer = "sgd-momentum";
  if (chance()) s.precision = "bf16";
  s.priority = static_cast<std::int64_t>(rng.Below(2000)) - 1000;
  if (chance()) s.time_limit = base::Duration(1 + rng.Below(core::kMaxTimeLimit.count()));
  if (chance()) s.begin = base::FromMs(static_cast<std::int64_t>(rng.Below(core::kMaxBeginMs)));
  for (std::uint64_t i = rng.Below(4); i > 0; --i) {
    core::Dependency dependency{core::TaskId{i}, static_cast<core::DependencyKind>(rng.Below(3)),
                                std::nullopt};
    if (chance()) dependency.known_final = core::TaskState::kTimedOut;
    s.dependencies.push_back(dependency);
  }
  if (chance()) s.stderr_path = "/tmp/" + AnyLine(rng);
  s.max_recoveries = static_cast<int>(rng.Below(10));
  s.requeue = chance();
  s.held = chance();
  if (chance()) s.array_index = static_cast<std::int64_t>(rng.Below(100));
  if (chance()) s.array_limit = 1 + static_cast<std::int64_t>(rng.Below(100));
  if (chance()) s.comment = "note";
  return s;
}

TEST(SpecJson, ParsesBackUnchanged) {
  base::Rng rng(7);
  for (int i = 0; i < 2000; ++i) {
    const TaskSpec spec = AnySpec(rng);
    ASSERT_TRUE(Validate(spec)) << Validate(spec).error().message;
    const std::string text = ToJsonText(spec);
    const auto back = SpecFromJsonText(text);
    ASSERT_TRUE(back) << back.error().message << "\n" << text;
    ASSERT_EQ(*back, spec) << text;
  }
}

TEST(SpecJson, AWriterOfManySpecsWritesTheSameText) {
  base::Rng rng(8);
  SpecWriter writer;
  TaskSpec before;
  for (int i = 0; i < 500; ++i) {
    TaskSpec spec = AnySpec(rng);
    if (i % 3 == 1) spec.environment = before.environment;
    const std::string text = writer.Text(spec);
    const auto back = SpecFromJsonText(text);
    ASSERT_TRUE(back) << back.error().message;
    ASSERT_EQ(*back, spec);
    before = spec;
    spec.environment.clear();
    ASSERT_EQ(SpecButEnvironment(text), spec) << text;
  }
}

TEST(SpecJson, UsesTheCommonPartForAbsentFields) {
  const auto json = base::ParseJson(
      R"({"workdir":"/w","environment":{"A":"1"},"gpus":2,"dependencies":[{"task":5}]})");
  ASSERT_TRUE(json);
  const auto common = CommonFromJson(*json, "/common");
  ASSERT_TRUE(common) << common.error().message;

  const auto brief = SpecFromJsonText(R"({"command":["x"]})", *common);
  ASSERT_TRUE(brief) << brief.error().message;
  EXPECT_EQ(brief->workdir, "/w");
  EXPECT_EQ(brief->environment.at("A"), "1");
  EXPECT_EQ(brief->gpus, 2);
  EXPECT_EQ(brief->stdout_path, "/w/carma-%j-%B.out");

  const auto own = SpecFromJsonText(
      R"({"command":["x"],"workdir":"/v","environment":{},"gpus":1,"dependencies":[]})", *common);
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_EQ(own->workdir, "/v");
  EXPECT_TRUE(own->environment.empty());
  EXPECT_EQ(own->gpus, 1);
  EXPECT_TRUE(own->dependencies.empty());

  const auto wrong = base::ParseJson(R"({"gpus":-1})");
  EXPECT_TRUE(CommonFromJson(*wrong, "/common").error().message.starts_with("/common/gpus: "));
}

TEST(SpecJson, NamesEveryMember) {
  const std::size_t asked = base::NamesOf<core::TaskRequest>().size();
  EXPECT_EQ(asked, base::MemberCount<core::TaskRequest>() - 3) << "all but uid, user and array";
  EXPECT_EQ(base::NamesOf<TaskSpec>().size(), base::MemberCount<TaskSpec>() - 1 + asked);
  EXPECT_TRUE(base::NamesEveryMember<core::Dependency>());
}

TEST(Spec, NamesACommandByItsProgram) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"nvidia-smi"}, "nvidia-smi"},
      {{"/opt/bin/train", "--lr", "0.1"}, "train"},
      {{"python3", "train.py", "--lr", "0.1"}, "train.py"},
      {{"/usr/bin/python3.11", "-u", "-W", "ignore", "src/train.py"}, "train.py"},
      {{"python", "-m", "pkg.train"}, "pkg.train"},
      {{"python", "-c", "print()"}, "python"},
      {{"python"}, "python"},
      {{"bash", "-x", "run.sh"}, "run.sh"},
      {{"bash", "-c", "x && y"}, "bash"},
      {{"torchrun", "--nproc-per-node", "2", "train.py"}, "train.py"},
      {{"torchrun", "--nproc-per-node=2", "-m", "pkg.train"}, "pkg.train"},
      {{"python", "-m", "torch.distributed.run", "--nnodes", "1", "train.py"}, "train.py"},
      {{"accelerate", "launch", "train.py"}, "train.py"},
      {{"env", "A=1", "python", "train.py"}, "train.py"},
      {{"uv", "run", "python", "train.py"}, "train.py"},
      {{"nice", "-n", "5", "./train"}, "nice"},
      {{"python", ""}, "python"},
  };
  for (const auto& [command, name] : cases) EXPECT_EQ(NameOfCommand(command), name) << command[0];
}

TEST(SpecJson, KeepsNotificationsAndTheSignal) {
  const auto spec = SpecFromJsonText(
      R"({"command":["x"],"workdir":"/w","signal":"USR1","signal_before_s":90,"signal_main":true,
          "append_output":true,"parameters":{"lr":"0.1"},
          "notify":[{"target":"me"},{"target":"https://h/x","events":["fail"],"each_task":true}]})");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->notify[0], (NotifyRule{.target = "me"}));
  EXPECT_EQ(spec->notify[1],
            (NotifyRule{.target = "https://h/x", .events = {"fail"}, .each_task = true}));
  EXPECT_EQ(SpecFromJsonText(ToJsonText(*spec)), *spec);
  EXPECT_EQ(SpecFromJsonText(SpecWriter().Text(*spec)), *spec);
}

TEST(SpecJson, FillsDefaults) {
  const auto spec = SpecFromJsonText(R"({"command":["/usr/bin/python3","x.py"],"workdir":"/w"})");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->name, "x.py");
  EXPECT_EQ(spec->stdout_path, "/w/carma-%j-%B.out");
  EXPECT_EQ(spec->gpus, 1);
  EXPECT_TRUE(spec->requeue);
}

TEST(SpecJson, RefusesWithThePlace) {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"", "not JSON"},
      {"[]", "/: expected an object"},
      {R"({"command":["x"],"workdir":"/w","colour":1})", "/colour: unknown field"},
      {R"({"command":["x"],"workdir":"/w","gpus":"two"})", "/gpus: expected a whole number"},
      {R"({"command":["x"],"workdir":"/w","gpus":1e400})", "not JSON"},
      {R"({"command":["x"],"workdir":"/w","gpus":-1})", "/gpus: expected"},
      {R"({"command":[1],"workdir":"/w"})", "/command: expected"},
      {R"({"command":["x"],"workdir":"w"})", "/workdir: expected an absolute path"},
      {R"({"command":["x"],"workdir":"/w","environment":{"A":1}})", "/environment: expected"},
      {R"({"command":["x\u0000y"],"workdir":"/w"})", "/command/0: expected UTF-8 text without NUL"},
      {R"({"command":["x"],"workdir":"/w","dependencies":[{"task":0}]})", "/dependencies/0/task"},
      {R"({"command":["x"],"workdir":"/w","notify":[{"target":"prog"}]})", "/notify/0/target"},
      {R"({"command":["x"],"workdir":"/w","notify":[{"target":"me","events":["won"]}]})",
       "/notify/0/events"},
      {R"({"command":["x"],"workdir":"/w","signal":"USR3"})", "/signal"},
      {R"({"command":["x"],"workdir":"/w","parameters":{"a b":"1"}})", "/parameters"},
      {R"({"command":["x"],"workdir":"/w","dependencies":[{"task":1,"kind":"after"}]})",
       "/dependencies/0/kind: expected afterok"},
      {R"({"command":["x"],"workdir":"/w","time_limit_s":-3})", "/time_limit_s: expected"},
      {R"({"command":["x"],"workdir":"/w","sm_share":30})", "/sm_share: expected"},
      {R"({"command":["x"],"workdir":"/w","name":"a","name":"b"})", "duplicate key 'name'"},
  };
  for (const auto& [text, error] : cases) {
    const auto spec = SpecFromJsonText(text);
    ASSERT_FALSE(spec) << text;
    EXPECT_NE(spec.error().message.find(error), std::string::npos)
        << text << ": " << spec.error().message;
  }
}

TEST(SpecJson, NamesThePlaceInABatch) {
  const auto json = base::ParseJson(R"({"command":["x"],"workdir":"/w","gpus":-1})");
  ASSERT_TRUE(json);
  const auto spec = SpecFromJson(*json, "/tasks/3");
  ASSERT_FALSE(spec);
  EXPECT_TRUE(spec.error().message.starts_with("/tasks/3/gpus: ")) << spec.error().message;
}

TEST(ToRequest, TakesTheFieldsOfTheCore) {
  base::Rng rng(3);
  TaskSpec spec = AnySpec(rng);
  spec.sm_share = 0.25;
  const core::TaskRequest request = ToRequest(spec, 1001);
  EXPECT_EQ(request.uid, 1001u);
  spec.uid = 1001;
  EXPECT_EQ(request, static_cast<const core::TaskRequest&>(spec));
}

TEST(ExpandPath, InsertsFactsOfTheTask) {
  TaskSpec spec = Good();
  spec.name = "../../etc/x";
  spec.array_index = 7;
  const PathWords words{
      .id = core::TaskId{42}, .array = core::TaskId{40}, .user = "eve", .host = "gpu1"};
  EXPECT_EQ(ExpandPath("/o/%j-%a-%u%%%q%", spec, words), "/o/42-7-eve%%q%");
  EXPECT_EQ(ExpandPath("/o/%x", spec, words), "/o/.._.._etc_x")
      << "a name must not lead out of the folder";
  EXPECT_EQ(ExpandPath("%A_%a %3a %05j %J %N %n %t %s", spec, words),
            "40_7 007 00042 42 gpu1 0 0 batch");
  EXPECT_EQ(ExpandPath("%99a %3", spec, words), "0000000007 %3") << "at most ten digits";
  spec.array_index.reset();
  EXPECT_EQ(ExpandPath("%a", spec, words), "0");
  EXPECT_EQ(ExpandPath("%B", spec, words), "%B") << "no database is known";
}

TEST(ExpandPath, DistinguishesDatabases) {
  const TaskSpec spec = Good();
  const std::string word = BooksWord("0f1e2d3c4b5a69788796a5b4c3d2e1f0");
  EXPECT_EQ(word, "w9bwh7");
  EXPECT_NE(word, BooksWord("0f1e2d3d4b5a69788796a5b4c3d2e1f0"));
  EXPECT_EQ(ExpandPath("carma-%j-%B.out", spec, {.id = core::TaskId{7}, .books = word}),
            "carma-7-w9bwh7.out");
  EXPECT_EQ(BooksWord("none"), "");
}

TEST(ExpandPath, DetectsAnArrayThatWritesOneFile) {
  for (const char* one : {"/o/out", "/o/%x.out", "/o/%u-%N"})
    EXPECT_TRUE(IsOnePathForAll(one)) << one;
  for (const char* own : {"/o/%A_%a", "/o/%j", "/o/%04a", "/dev/null"})
    EXPECT_FALSE(IsOnePathForAll(own)) << own;
}

TEST(Spec, ATaskInATerminalMustNameItAndCannotBeAnArray) {
  EXPECT_TRUE(IsAttachName("0123456789abcdef0123456789abcdef"));
  EXPECT_FALSE(IsAttachName("0123456789abcdef0123456789abcde"));
  EXPECT_FALSE(IsAttachName("0123456789abcdef0123456789abcdeF"));
  EXPECT_FALSE(IsAttachName("../3456789abcdef0123456789abcdef"));
  TaskSpec spec;
  spec.name = "t";
  spec.command = {"true"};
  spec.workdir = "/w";
  spec.stdout_path = "/dev/null";
  spec.terminal = true;
  ASSERT_FALSE(Validate(spec));
  EXPECT_EQ(Validate(spec).error().message, "terminal: not supported without attach");
  spec.attach = "0123456789abcdef0123456789abcdef";
  EXPECT_TRUE(Validate(spec));
  spec.array_index = 3;
  ASSERT_FALSE(Validate(spec));
  EXPECT_EQ(Validate(spec).error().message, "attach: not supported for array tasks");
}

}  // namespace
}  // namespace carma::task
