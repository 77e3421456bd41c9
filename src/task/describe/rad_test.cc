#include "task/describe/rad.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "task/describe/description.h"

namespace carma::task {
namespace {

constexpr const char* kNamed =
    "# the summary is in the same folder\n"
    "conda activate tf # its environment\n"
    "python resnet.py --b 128 # what to run\n"
    "model: resnet.txt # the layers\n"
    "batch_size: 128\n"
    "policy: collocation\n";

// Returns a file in the twelve-line form, ending with `columns`.
std::string Positional(const std::string& columns = "15120\n28923.25\n10666.007\n24000\n") {
  return "# resnet50 on ImageNet\nconda activate tf\npython main.py -a resnet50 'data set'\n"
         "resnet50.model\nimagenet\n128\nexclusive\n2\n" +
         columns;
}

TEST(ParseRad, ReadsTheNamedForm) {
  const auto file = ParseRad(kNamed, "x.rad");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->conda_env, "tf");
  EXPECT_EQ(file->command, (std::vector<std::string>{"python", "resnet.py", "--b", "128"}));
  EXPECT_EQ(file->model, "resnet.txt");
  EXPECT_EQ(file->batch_size, 128);
  EXPECT_EQ(file->exclusive, false);
  EXPECT_EQ(file->gpus, 1);
  EXPECT_FALSE(file->memory.oracle);
}

TEST(ParseRad, ReadsThePositionalForm) {
  const auto file = ParseRad(Positional(), "x.rad");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->conda_env, "tf");
  EXPECT_EQ(file->command,
            (std::vector<std::string>{"python", "main.py", "-a", "resnet50", "data set"}));
  EXPECT_EQ(file->model, "resnet50.model");
  EXPECT_EQ(file->batch_size, 128);
  EXPECT_FALSE(file->exclusive) << "the original never read the word";
  EXPECT_EQ(file->gpus, 2);
  EXPECT_EQ(file->memory.oracle, 15120);
  EXPECT_EQ(file->memory.horus, 28924) << "rounded up";
  EXPECT_EQ(file->memory.faketensor, 10667);
  EXPECT_EQ(file->memory.gpumemnet, 24000);
}

TEST(ParseRad, AcceptsHarmlessOddities) {
  EXPECT_TRUE(ParseRad(Positional() + "\n\n# end\n", "x.rad"));
  EXPECT_TRUE(ParseRad("\xEF\xBB\xBF" + Positional(), "x.rad"));
  std::string dos;
  for (char c : std::string(kNamed)) dos += c == '\n' ? "\r\n" : std::string(1, c);
  const auto file = ParseRad(dos, "x.rad");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->model, "resnet.txt");
  const auto blank = ParseRad(Positional("1000\n\n\n40000\n"), "x.rad");
  ASSERT_TRUE(blank) << blank.error().message;
  EXPECT_FALSE(blank->memory.horus);
  const auto more = ParseRad("true\ngpus: 2\nmemory: 12G\n", "x.rad");
  ASSERT_TRUE(more) << more.error().message;
  EXPECT_EQ(more->gpus, 2);
  EXPECT_EQ(more->memory.oracle, 12 * 1024);
}

TEST(ParseRad, RefusesWithTheLine) {
  const std::string whole = Positional();
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  const std::vector<std::pair<std::string, const char*>> cases{
      {"", "x.rad:1: the file is empty"},
      {"\n\n", "x.rad:1: the file is empty"},
      {whole.substr(0, whole.find("exclusive")), "x.rad:6: too few lines: expected 12 (or"},
      {whole + "13\n", "x.rad:13: expected nothing more"},
      {replaced("\n2\n", "\ntwo\n"), "x.rad:8: expected a number of GPUs, not 'two'"},
      {replaced("\n2\n", "\n0\n"), "x.rad:8: expected a number of GPUs"},
      {replaced("15120", "-1"), "x.rad:9: expected GPU memory in MiB, not '-1'"},
      {replaced("28923.25", "nan"), "x.rad:10: expected GPU memory"},
      {replaced("24000", "1e30"), "x.rad:12: expected GPU memory"},
      {replaced("conda activate tf", "tf"), "x.rad:2: expected 'conda activate ENVIRONMENT'"},
      {replaced("python main.py", "cd x; python"), "x.rad:3: the command is run without a shell"},
      {replaced("python main.py", "python $HOME/x"), "x.rad:3: the command is run without a shell"},
      {replaced("python", "A=1 python"), "x.rad:3: the command is run without a shell"},
      {replaced("python main.py -a resnet50 'data set'", ""), "x.rad:3: expected a command"},
      {replaced("128", "many"), "x.rad:6: expected a batch size"},
      {"model: x\n", "x.rad:1: the file ends without a command"},
      {"true\nfalse\nmodel: x\n", "x.rad:2: found a second command"},
      {"true\nmodel: x\nmodel: y\n", "x.rad:3: 'model:' is specified twice"},
      {"true\nmodel: x\ncolour: blue\n", "x.rad:3: unknown key 'colour'"},
      {"true\nmodel:\n", "x.rad:2: expected a file name"},
      {"true\npolicy: exclusive/ collocation\n", "x.rad:2: expected exclusive or collocation"},
      {"true\nbatch_size: -4\n", "x.rad:2: expected a batch size"},
      {"true\nmemory: plenty\n", "x.rad:2: expected a memory size"},
      {std::string("true\nmodel: a\0b\n", 15), "x.rad:2: contains a NUL byte"},
      {"true\nmodel: caf\xe9\n", "x.rad:2: not UTF-8"},
      {std::string(2 << 20, 'x'), "x.rad: larger than"},
  };
  for (const auto& [text, error] : cases) {
    const auto file = ParseRad(text, "x.rad");
    ASSERT_FALSE(file) << error;
    EXPECT_TRUE(file.error().message.starts_with(error)) << error << " <> " << file.error().message;
  }
}

// Returns the task described by a .rad file with this text, after setting these options.
TaskSpec Apply(const std::string& text,
               const std::vector<std::pair<const char*, const char*>>& options) {
  Description description;
  EXPECT_TRUE(ApplyRad(text, "models/resnet.rad", description));
  for (const auto& [option, value] : options) EXPECT_TRUE(description.Set(option, value));
  const auto tasks =
      description.Finish({.cwd = "/w", .home = "/h", .user = "eve", .environment = {}, .now = {}});
  EXPECT_TRUE(tasks) << tasks.error().message;
  return tasks ? tasks->at(0) : TaskSpec{};
}

TEST(ApplyRad, ConvertsAFileToATask) {
  const TaskSpec spec = Apply(Positional(), {});
  EXPECT_EQ(spec.name, "resnet");
  EXPECT_EQ(spec.gpus, 2);
  EXPECT_EQ(spec.conda_env, "tf");
  EXPECT_EQ(spec.model_summary, "/w/models/resnet50.model") << "beside the file";
  EXPECT_EQ(spec.workdir, "/w");
  EXPECT_EQ(spec.batch_size, 128);
  EXPECT_EQ(spec.memory_mib, 15120) << "oracle by default";
  EXPECT_EQ(spec.memory_source, "rad");
  EXPECT_FALSE(spec.exclusive);
}

TEST(ApplyRad, PicksTheColumn) {
  EXPECT_EQ(Apply(Positional(), {{"rad-estimate", "horus"}}).memory_mib, 28924);
  EXPECT_EQ(Apply(Positional(), {{"rad-estimate", "faketensor"}}).memory_mib, 10667);
  EXPECT_EQ(Apply(Positional(), {{"rad-estimate", "gpumemnet"}}).memory_mib, 24000);
  EXPECT_EQ(Apply(Positional(), {{"rad-estimate", "none"}}).memory_mib, std::nullopt);
}

TEST(ApplyRad, TheCommandLineOverridesTheFile) {
  const TaskSpec spec =
      Apply(Positional(), {{"memory", "9G"}, {"rad-estimate", "horus"}, {"gpus", "1"}});
  EXPECT_EQ(spec.memory_mib, 9 * 1024);
  EXPECT_EQ(spec.memory_source, "given");
  EXPECT_EQ(spec.gpus, 1);
}

TEST(ApplyRad, GivesAWholeGpuIfNoEstimateIsPossible) {
  const std::string text = Positional("15120\n40000\n10\n40000\n");
  const TaskSpec horus = Apply(text, {{"rad-estimate", "horus"}});
  EXPECT_TRUE(horus.exclusive);
  EXPECT_FALSE(horus.memory_mib);
  EXPECT_FALSE(Apply(text, {}).exclusive) << "only the chosen column counts";
  EXPECT_FALSE(Apply(text, {{"rad-estimate", "horus"}, {"collocated", ""}}).exclusive);
  EXPECT_FALSE(Apply(text, {{"rad-estimate", "horus"}, {"memory", "3G"}}).exclusive);
}

}  // namespace
}  // namespace carma::task
