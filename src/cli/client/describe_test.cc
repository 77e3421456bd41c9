#include "cli/client/describe.h"

#include "cli/client/checks.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/text.h"

namespace carma::cli {
namespace {

class DescribeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "/carma-describe-XXXXXX";
    ASSERT_NE(::mkdtemp(dir_.data()), nullptr);
    caller_.cwd = dir_;
    caller_.home = dir_;
    caller_.environment = {{"PATH", "/bin"}};
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string File(const std::string& name, const std::string& text) {
    std::ofstream(dir_ + "/" + name) << text;
    return dir_ + "/" + name;
  }

  Result<task::TaskSpec> Spec(const SubmitFlags& flags, const std::vector<std::string>& words,
                              bool literal) {
    const auto described = Describe(flags, words, literal, caller_);
    if (!described) return std::unexpected(described.error());
    return task::SpecFromJsonText(described->spec);
  }

  std::string dir_;
  task::SubmitterContext caller_;
};

TEST_F(DescribeTest, WordsAreACommand) {
  const auto spec = Spec({}, {"python", "train.py", "--gpus", "9"}, false);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->command, (std::vector<std::string>{"python", "train.py", "--gpus", "9"}));
  EXPECT_FALSE(spec->script);
  EXPECT_EQ(spec->workdir, dir_);
  EXPECT_EQ(spec->environment.at("PATH"), "/bin");
}

TEST_F(DescribeTest, AFileWithAnInterpreterIsAScriptUnlessTakenLiterally) {
  const std::string path = File("job", "#!/bin/sh\n#CARMA --gpus 3\necho hi\n");
  const auto script = Spec({}, {path, "arg"}, false);
  ASSERT_TRUE(script) << script.error().message;
  EXPECT_TRUE(script->script && script->script->starts_with("#!/bin/sh"));
  EXPECT_EQ(script->script_args, std::vector<std::string>{"arg"});
  EXPECT_EQ(script->gpus, 3);
  const auto command = Spec({}, {path, "arg"}, true);
  ASSERT_TRUE(command);
  EXPECT_EQ(command->command, (std::vector<std::string>{path, "arg"}));
  EXPECT_FALSE(command->script);
}

TEST_F(DescribeTest, ABinaryIsACommandAndAScriptWithoutInterpreterIsExplained) {
  const std::string binary = File("tool", std::string("\x7f"
                                                      "ELF\0",
                                                      5));
  EXPECT_TRUE(Spec({}, {binary}, false));
  const std::string script = File("train.sh", "echo hi\n");
  const auto refused = Spec({}, {script}, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
  EXPECT_NE(refused.error().message.find("#!"), std::string::npos) << refused.error().message;
  const auto marked = Spec({}, {File("marked", "\xEF\xBB\xBF#!/bin/sh\n")}, false);
  ASSERT_FALSE(marked);
  EXPECT_NE(marked.error().message.find("byte order mark"), std::string::npos);
  const auto missing = Spec({}, {dir_ + "/none.sh"}, false);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kInvalid);
  EXPECT_TRUE(Spec({}, {dir_ + "/none.sh"}, true)) << "after --, it is an ordinary command";
}

TEST_F(DescribeTest, OptionsWinOverTheScriptAndTheLastOneWins) {
  const std::string path = File("job.sh", "#!/bin/sh\n#CARMA --gpus 3\n");
  const SubmitFlags flags{.settings = {{"gpus", "1"}, {"gpus", "2"}, {"exclusive", ""}}};
  const auto spec = Spec(flags, {path}, false);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->gpus, 2);
  EXPECT_TRUE(spec->exclusive);
}

TEST_F(DescribeTest, RadFilesAreReadAndMissingOnesNamed) {
  const std::string path = File("a.rad",
                                "# a\nconda activate tf\npython train.py\nmodel: m.txt\n"
                                "batch_size: 32\npolicy: collocation\n");
  const auto spec = Spec({}, {path}, false);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->conda_env, "tf");
  EXPECT_EQ(spec->batch_size, 32);
  const auto missing = Spec({}, {dir_ + "/none.rad"}, false);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kInvalid);
  EXPECT_FALSE(Spec({}, {path, "surplus"}, false));
}

TEST_F(DescribeTest, ArraysKeepOneSpecAndItsIndices) {
  const SubmitFlags flags{.settings = {{"array", "0-4:2"}}};
  const auto described = Describe(flags, {"true"}, false, caller_);
  ASSERT_TRUE(described) << described.error().message;
  EXPECT_EQ(described->indices, (std::vector<std::int64_t>{0, 2, 4}));
}

TEST_F(DescribeTest, MistakesNameTheirOption) {
  const SubmitFlags flags{.settings = {{"gpus", "many"}}};
  const auto spec = Spec(flags, {"true"}, false);
  ASSERT_FALSE(spec);
  EXPECT_TRUE(spec.error().message.starts_with("--gpus: ")) << spec.error().message;
  EXPECT_FALSE(Spec({}, {}, false)) << "nothing to run";
}

TEST_F(DescribeTest, TrainingSettingsArePartOfTheTask) {
  File("config.json", "{}");
  File("ds.json", R"({"zero_optimization":{"stage":2}})");
  const std::string path = File(
      "job.sh", "#!/bin/sh\n#CARMA --hf-config config.json --seq-len 512 --method lora\ntrue\n");
  const SubmitFlags flags{.settings = {{"seq-len", "1024"}, {"amp", ""}, {"deepspeed", "ds.json"}}};
  const std::string here = std::filesystem::current_path();
  std::filesystem::current_path(dir_);
  const auto spec = Spec(flags, {path}, false);
  std::filesystem::current_path(here);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->model_summary, dir_ + "/config.json");
  const std::vector<task::TrainingWord> expected = {
      {"deepspeed-engine", "on", dir_ + "/ds.json: DeepSpeed"},
      {"dp", "zero2", dir_ + "/ds.json: zero_optimization.stage"},
      {"method", "lora", path + ":2"},
      {"seq-len", "1024", ""},
      {"amp", "on", ""}};
  EXPECT_EQ(spec->training, expected)
      << "files come before options, and a later file replaces an earlier one";
}

TEST_F(DescribeTest, RefusesAnUnknownWordWithItsPlace) {
  const std::string path = File("job.sh", "#!/bin/sh\n#CARMA --method dora\ntrue\n");
  const auto script = Spec({}, {path}, false);
  ASSERT_FALSE(script);
  EXPECT_EQ(script.error().message, path + ":2: method: 'dora': expected full, lora or qlora");
  const SubmitFlags flags{.settings = {{"seq-len", "many"}}};
  const auto option = Spec(flags, {"true"}, true);
  ASSERT_FALSE(option);
  EXPECT_TRUE(option.error().message.starts_with("--seq-len: 'many': expected a number"))
      << option.error().message;
}

TEST_F(DescribeTest, RefusesUnknownOptimizersAndPrecisions) {
  for (const auto& setting : {std::pair("optimizer", "foo"), std::pair("precision", "int3")}) {
    const auto spec = Spec({.settings = {setting}}, {"true"}, true);
    ASSERT_FALSE(spec) << setting.first;
    EXPECT_NE(spec.error().message.find(std::string("'") + setting.second + "': expected"),
              std::string::npos);
  }
  for (const auto& setting : {std::pair("optimizer", "AdamW_torch_fused"),
                              std::pair("optimizer", "SGD"), std::pair("precision", "BF16")})
    EXPECT_TRUE(Spec({.settings = {setting}}, {"true"}, true)) << setting.second;
}

TEST_F(DescribeTest, ReadsTrainingSettingsFromTheScript) {
  std::filesystem::create_directory(dir_ + "/small");
  File("small/config.json",
       R"({"model_type":"llama","num_hidden_layers":2,"hidden_size":64,"num_attention_heads":2,)"
       R"("intermediate_size":128,"vocab_size":100})");
  const std::string path =
      File("job.sh", "#!/bin/sh\npython t.py --model small --lr 1 --max_length 512\n");
  const auto of = [&](std::string_view name, const task::TaskSpec& spec) {
    task::TrainingWord last;
    for (const task::TrainingWord& word : spec.training) {
      if (word.name == name) last = word;
    }
    return last;
  };
  const auto spec = Spec({}, {path}, false);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->model_summary, dir_ + "/small/config.json");
  EXPECT_EQ(of("seq-len", *spec), (task::TrainingWord{"seq-len", "512", "job.sh:2: --max_length"}));
  const SubmitFlags said{.settings = {{"seq-len", "64"}, {"model-summary", "/m.txt"}}};
  const auto overridden = Spec(said, {path}, false);
  ASSERT_TRUE(overridden);
  EXPECT_EQ(of("seq-len", *overridden), (task::TrainingWord{"seq-len", "64", ""}));
  EXPECT_EQ(overridden->model_summary, "/m.txt");
  const std::string several =
      File("several.sh", "#!/bin/sh\ntorchrun --nproc_per_node 4 t.py --model small --lr 1\n");
  const auto described = Describe({}, {several}, false, caller_);
  ASSERT_TRUE(described);
  EXPECT_EQ(described->notes,
            std::vector<std::string>{"several.sh:2: --nproc_per_node: the training uses 4 GPUs, "
                                     "but the task requests 1 (--gpus)"});
  for (const auto& setting : {std::pair("no-reading", ""), std::pair("memory", "8G")}) {
    const auto bare = Spec({.settings = {setting}}, {path}, false);
    ASSERT_TRUE(bare);
    EXPECT_TRUE(bare->training.empty() && !bare->model_summary) << setting.first;
  }
}

TEST_F(DescribeTest, NamesObstaclesBeforeSubmission) {
  File("train.py", "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\n");
  const auto spec = [&](std::vector<std::string> command) {
    task::TaskSpec made;
    made.workdir = dir_;
    made.environment = {{"PATH", "/usr/bin:/bin"}};
    made.command = std::move(command);
    return made;
  };
  EXPECT_TRUE(CheckItCanStart(spec({"sh", "-c", "x"})));
  EXPECT_TRUE(CheckItCanStart(spec({"sh", "-ec", "x"})));
  EXPECT_TRUE(CheckItCanStart(spec({"true"})));
  const auto refused = [&](task::TaskSpec made) {
    const auto can = CheckItCanStart(made);
    return can ? std::string() : can.error().message;
  };
  EXPECT_EQ(refused(spec({"sh", "trian.py"})), "no file 'trian.py' for sh, did you mean train.py?");
  EXPECT_EQ(refused(spec({"dirnmae"})), "no program 'dirnmae', did you mean dirname?");
  task::TaskSpec hidden = spec({"true"});
  hidden.stdout_path = dir_ + "/train.py/%j.out";  // a file where a folder is expected
  EXPECT_EQ(refused(hidden),
            hidden.stdout_path + ": not writable; choose another file with --output");
  hidden.stdout_path = dir_ + "/made/later/%j.out";
  EXPECT_TRUE(CheckItCanStart(hidden)) << "missing folders will be created";

  hidden.stdout_path = dir_ + "/made/";
  EXPECT_EQ(refused(hidden), hidden.stdout_path + ": expected a file, not a folder (--output)");
  hidden.stdout_path = dir_;
  EXPECT_EQ(refused(hidden), dir_ + ": expected a file, not a folder (--output)");

  const auto program = [&](const std::string& name, const std::string& text) {
    std::filesystem::permissions(File(name, text), std::filesystem::perms::owner_all);
    return refused(spec({"./" + name}));
  };
  EXPECT_EQ(program("good", "#! /bin/sh -e\n"), "");
  EXPECT_EQ(program("binary", std::string("MZ\0", 3)), "");
  EXPECT_EQ(program("long", "#!/" + std::string(300, 'x')), "") << "only the start is read";
  EXPECT_EQ(program("moved", "#!/no/such/python\n"), "./moved: no interpreter /no/such/python");
  EXPECT_EQ(program("oom.py", "import torch\n"),
            "./oom.py has no interpreter line such as #!/bin/bash; did you mean: python3 "
            "./oom.py?");
  EXPECT_TRUE(CheckItCanStart(spec({"./oom.py"}), true)) << "a shell runs it";
  task::TaskSpec script = spec({});
  script.name = "train.sh";
  script.script = "#!/bin/sh\ntrue\n";
  EXPECT_EQ(refused(script), "");
  script.script = "#!/no/such/interp -u\ntrue\n";
  EXPECT_EQ(refused(script), "train.sh: no interpreter /no/such/interp");

  EXPECT_EQ(ScriptOf({"python3.11", "-u", "-W", "ignore", "t.py", "x"}), "t.py");
  for (const std::vector<std::string>& none :
       std::vector<std::vector<std::string>>{{"python3", "-m", "pkg"},
                                             {"python", "-c", "1"},
                                             {"python3", "-"},
                                             {"bash", "-lc", "x"},
                                             {"torchrun", "t.py"}})
    EXPECT_EQ(ScriptOf(none), std::nullopt) << none[0] << none[1];

  const auto warnings = StartWarnings(spec({"python3", "train.py"}));
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(warnings[0].starts_with("train.py:2: sets CUDA_VISIBLE_DEVICES")) << warnings[0];
  File("good.py", "print(os.environ['CUDA_VISIBLE_DEVICES'] == '0')  # CUDA_VISIBLE_DEVICES=1\n");
  EXPECT_TRUE(StartWarnings(spec({"python3", "good.py"})).empty());
  for (const auto& [words, warns] : std::vector<std::pair<std::vector<std::string>, bool>>{
           {{"docker", "run", "-d", "image"}, true},
           {{"docker", "run", "--gpus", "all", "--rm", "-itd", "image"}, true},
           {{"docker", "run", "--name=x", "--detach", "image"}, true},
           {{"docker", "container", "run", "--rm", "-d", "image"}, true},
           {{"podman", "run", "-d", "image"}, true},
           {{"podman", "container", "run", "-it", "image"}, false},
           {{"docker", "run", "--rm", "-v", "/a:/b", "-it", "image", "tool", "-d"}, false},
           {{"docker", "container", "ls", "-d"}, false},
           {{"docker", "ps", "-d"}, false}})
    EXPECT_EQ(StartWarnings(spec(words)).size(), warns ? 1U : 0U) << base::Join(words, " ");
  task::TaskSpec no_gpu = spec({"true"});
  no_gpu.gpus = 0;
  EXPECT_TRUE(StartWarnings(no_gpu).empty());
  no_gpu.memory_mib = 1024;
  EXPECT_EQ(StartWarnings(no_gpu),
            std::vector<std::string>{"--gpu-mem has no effect with --gpus 0"});
  no_gpu.exclusive = true;
  EXPECT_EQ(StartWarnings(no_gpu),
            std::vector<std::string>{"--gpu-mem, --exclusive have no effect with --gpus 0"});
  task::TaskSpec misspelt = spec({"true"});
  misspelt.model_summary = dir_ + "/modle.txt";
  misspelt.notify = {{.target = dir_ + "/good.py"}, {.target = "/bin/true"}, {.target = "me"}};
  EXPECT_EQ(StartWarnings(misspelt),
            (std::vector<std::string>{"cannot read the task's model summary " + dir_ +
                                          "/modle.txt: No such file or directory; correct "
                                          "--model-summary or give --memory",
                                      "--notify: no program " + dir_ + "/good.py"}));
}

TEST_F(DescribeTest, RefusesAShellWordAndNamesAnAlternative) {
  const auto refused = [&](const std::string& word, bool lease) {
    task::TaskSpec spec;
    spec.workdir = dir_;
    spec.environment = {{"PATH", dir_}};
    spec.command = {word, "x"};
    const auto can = CheckItCanStart(spec, lease);
    return can ? "" : can.error().message;
  };
  EXPECT_EQ(refused("cd", false), "no program 'cd', a shell command: use --wrap 'cd …'");
  EXPECT_EQ(refused("source", true), "no program 'source', a shell command: use sh -c '. …'");
  EXPECT_EQ(refused("A=1", false), "no program 'A=1': use env A=1 PROGRAM …, or --export ALL,A=1");
  EXPECT_EQ(refused("A=1", true), "no program 'A=1': use env A=1 PROGRAM …");
}

TEST_F(DescribeTest, RefusesAnImpossibleOutputFileBeforeSubmission) {
  task::TaskSpec spec;
  spec.workdir = dir_;
  spec.command = {"true"};
  spec.stdout_path = dir_ + "/" + std::string(300, 'x');
  const auto can = CheckItCanStart(spec);
  ASSERT_FALSE(can);
  EXPECT_TRUE(
      can.error().message.ends_with(": expected a name of at most 255 bytes, not 300 (--output)"))
      << can.error().message;
  spec.stdout_path = dir_ + "/pipe";
  ASSERT_EQ(::mkfifo(spec.stdout_path.c_str(), 0600), 0);
  EXPECT_TRUE(CheckItCanStart(spec)) << "a program may be reading it by then";
  ASSERT_EQ(StartWarnings(spec).size(), 1U);
  EXPECT_TRUE(StartWarnings(spec)[0].ends_with(
      "is a FIFO: the task fails unless a program is reading it when the task starts"));
}

TEST_F(DescribeTest, ANameInBracesIsAParameter) {
  task::TaskSpec spec;
  spec.parameters = {{"lr", "0.1"}};
  spec.command = {"echo", "0.1", "{}", "{ print }"};
  EXPECT_TRUE(CheckParameters(spec));
  spec.command.push_back("--lr={l}");
  EXPECT_EQ(CheckParameters(spec).error().message,
            "{l} is not a sweep parameter, did you mean lr?");
  spec.command.pop_back();
  spec.script = "#!/bin/sh\nfor i in {a,b}; do train {lr}; done\n";
  EXPECT_EQ(CheckParameters(spec).error().message,
            "--wrap does not replace {lr}; use $CARMA_PARAM_lr");
  spec.script_path = "/o/train.sh";
  EXPECT_TRUE(CheckParameters(spec)) << "a script's text may contain anything";
  spec.script = spec.script_path = std::nullopt;
  spec.stdout_path = "/o/{rl}.out";
  EXPECT_FALSE(CheckParameters(spec));
  spec.parameters.clear();
  EXPECT_TRUE(CheckParameters(spec)) << "no sweep";
}

TEST_F(DescribeTest, AMissingScriptSuggestsASimilarFile) {
  File("train.sh", "#!/bin/sh\n");
  const auto spec = Spec({}, {dir_ + "/trian.sh"}, false);
  ASSERT_FALSE(spec);
  EXPECT_TRUE(spec.error().message.ends_with(", did you mean train.sh?")) << spec.error().message;
}

}  // namespace
}  // namespace carma::cli
