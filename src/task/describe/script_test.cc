#include "task/describe/script.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/text.h"

namespace carma::task {
namespace {

std::string Show(const Directives& directives) {
  std::string text;
  for (const Directive& d : directives.settings)
    text += std::to_string(d.line) + ":" + d.option + "=" + d.value + " ";
  return text;
}

TEST(ReadDirectives, ReadsTheLeadingCommentBlock) {
  struct Case {
    const char* name;
    const char* text;
    const char* settings;
  };
  const std::vector<Case> cases{
      {"none", "#!/bin/sh\ntrue\n", ""},
      {"both kinds", "#!/bin/sh\n#CARMA --gpus=2\n#SBATCH --time=10\n", "2:gpus=2 3:time=10 "},
      {"several in one line", "#!/bin/sh\n#CARMA -G 2 -J \"a b\" --hold\n",
       "2:gpus=2 2:job-name=a b 2:hold= "},
      {"attached letters", "#!/bin/sh\n#SBATCH -G2 -t=5\n", "2:gpus=2 2:time=5 "},
      {"quotes and a comment", "#!/bin/sh\n#CARMA --comment 'it # is' # so\n",
       "2:comment=it # is "},
      {"a value that starts with a dash", "#!/bin/sh\n#CARMA --priority -5\n", "2:priority=-5 "},
      {"blank lines and plain comments in between",
       "#!/bin/sh\n\n# hello\n   \n#CARMA --gpus 2\n## CARMA --gpus 3\n##SBATCH -t 1\n",
       "5:gpus=2 "},
      {"DOS line endings", "#!/bin/sh\r\n#CARMA --gpus=2\r\n#SBATCH -t 5\r\ntrue\r\n",
       "2:gpus=2 3:time=5 "},
      {"indented directives", "#!/bin/sh\n  #CARMA --gpus=2\n", "2:gpus=2 "},
      {"no newline at the end", "#!/bin/sh\n#CARMA --gpus=2", "2:gpus=2 "},
      {"a longer word is a comment", "#!/bin/sh\n#CARMAX --nonsense\n#SBATCHES\n", ""},
      {"nothing after the word", "#!/bin/sh\n#CARMA\n#SBATCH \n", ""},
      {"a very long command line later", "#!/bin/sh\n#CARMA --gpus=2\n", "2:gpus=2 "},
  };
  for (const Case& c : cases) {
    const auto directives = ReadDirectives(c.text, "x.sh");
    ASSERT_TRUE(directives) << c.name << ": " << directives.error().message;
    EXPECT_EQ(Show(*directives), c.settings) << c.name;
    EXPECT_TRUE(directives->warnings.empty()) << c.name;
  }
}

TEST(ReadDirectives, WarnsAboutDirectivesThatItDoesNotRead) {
  constexpr const char* kMisspelt =
      "x.sh:2: line ignored; expected #CARMA followed by a space and the option";
  const std::vector<std::pair<const char*, std::string>> cases{
      {"set -e\n\n#CARMA --gpus=2\n#CARMA --hold\n",
       "x.sh:4: #CARMA after the first command is ignored"},
      {"set -e\n#SBATCH -t 5\n", "x.sh:3: #SBATCH after the first command is ignored"},
      {"set -e\ncat >job.sh <<EOF\n#SBATCH -t 5\nEOF\n", ""},
      {"true\n#CARMAX -G 2\n##CARMA -G 2\n# CARMA -G 2\n", ""},
      {"#carma -G 2\n", kMisspelt},
      {"#CARMA: -G 2\n", kMisspelt},
      {"#CARMA-G 2\n", kMisspelt},
      {"# GFLOW --gpus 1\n# GFLOW --time 2:00\n",
       "x.sh:2: line ignored; only #CARMA and #SBATCH lines are read"},
      {"#PBS -q gpu\n", "x.sh:2: line ignored; only #CARMA and #SBATCH lines are read"},
      {"# GFLOW was here - before\n#$HOME -\n", ""},
      {"#carma shares the GPUs\n#CARMA: see below\n", ""},
  };
  for (const auto& [body, warning] : cases) {
    const auto directives = ReadDirectives(std::string("#!/bin/sh\n") + body, "x.sh");
    ASSERT_TRUE(directives) << body << directives.error().message;
    EXPECT_EQ(Show(*directives), "") << body;
    EXPECT_FALSE(directives->sbatch) << body;
    EXPECT_EQ(base::Join(directives->warnings, "; "), warning) << body;
  }
}

TEST(ReadDirectives, WarnsAboutIgnoredSbatchOptions) {
  const auto directives = ReadDirectives(
      "#!/bin/sh\n"
      "#SBATCH --partition=gpu -N 1 --ntasks 4 --cpus-per-task=8 -A acct --mem=8G\n"
      "#SBATCH --exclusive=user\n"
      "#SBATCH --made-up 3 -t 5\n"
      "#SBATCH --memory=3G\n"
      "#SBATCH stray\n",
      "x.sh");
  ASSERT_TRUE(directives) << directives.error().message;
  EXPECT_EQ(Show(*directives), "3:exclusive= 4:time=5 ");
  EXPECT_EQ(directives->warnings,
            (std::vector<std::string>{
                "x.sh:3: #SBATCH --exclusive: 'user' is ignored",
                "x.sh:3: #SBATCH --exclusive: the task has its GPUs to itself, "
                "but other tasks may run on the server",
                "x.sh:4: #SBATCH --made-up: unknown option, ignored",
                "x.sh:5: #SBATCH --memory: unknown option, ignored",
                "x.sh:6: #SBATCH: 'stray' is not an option, ignored",
                "x.sh: these #SBATCH options have no effect in CARMA: --partition, --account"}));
}

TEST(ReadDirectives, RefusesWithThePlace) {
  const std::vector<std::pair<std::string, const char*>> cases{
      {"", "x.sh:1: expected an interpreter line"},
      {"true\n", "x.sh:1: expected an interpreter line"},
      {"\xEF\xBB\xBF#!/bin/sh\n", "x.sh:1: begins with a byte order mark (BOM)"},
      {"#!/bin/sh\n#CARMA --gpux=2\n", "x.sh:2: unknown option --gpux"},
      {"#!/bin/sh\n\n#CARMA gpus=2\n", "x.sh:3: 'gpus=2' is not an option"},
      {"#!/bin/sh\n#CARMA --gpus\n", "x.sh:2: --gpus: expected a value"},
      {"#!/bin/sh\n#CARMA --hold=1\n", "x.sh:2: --hold: takes no value"},
      {"#!/bin/sh\n#CARMA --wrap x\n", "x.sh:2: --wrap: not allowed in a script"},
      {"#!/bin/sh\n#CARMA -J 'a\n", "x.sh:2: missing closing quote '"},
      {"#!/bin/sh\n#CARMA -J " + std::string(9000, 'x') + "\n", "x.sh:2: the directive is longer"},
      {std::string("#!/bin/sh\ntrue\0\n", 16), "x.sh:2: contains a NUL byte"},
      {"#!/bin/sh\n\n# caf\xe9\n", "x.sh:3: not UTF-8"},
      {"#!" + std::string(5 << 20, 'x'), "x.sh: larger than 4194304 bytes"},
  };
  for (const auto& [text, error] : cases) {
    const auto directives = ReadDirectives(text, "x.sh");
    ASSERT_FALSE(directives) << error;
    EXPECT_TRUE(directives.error().message.starts_with(error)) << directives.error().message;
  }
}

SubmitterContext Context() {
  return {.cwd = "/w", .home = "/h", .user = "eve", .environment = {}, .now = {}};
}

TEST(ApplyScript, TheCommandLineOverridesTheScript) {
  Description description;
  ASSERT_TRUE(ApplyScript("#!/bin/sh\n#CARMA --gpus=2 --time=5\ntrue\n", "dir/train.sh", {"a", "b"},
                          description));
  ASSERT_TRUE(description.Set("gpus", "1"));
  const auto tasks = description.Finish(Context());
  ASSERT_TRUE(tasks) << tasks.error().message;
  EXPECT_EQ(tasks->at(0).script_path, "/w/dir/train.sh");
  const TaskSpec& spec = tasks->at(0);
  EXPECT_EQ(spec.gpus, 1);
  EXPECT_EQ(spec.time_limit, std::chrono::minutes(5));
  EXPECT_EQ(spec.name, "train.sh");
  EXPECT_EQ(spec.script_args, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(spec.command.empty());
}

TEST(ApplyScript, DependenciesOfCarmaLinesCountTogetherAndOfSbatchLinesTheLastOne) {
  const auto awaits = [](const std::string& head, const std::string& warning) {
    Description description;
    EXPECT_TRUE(ApplyScript("#!/bin/sh\n" + head + "#CARMA -G 1\ntrue\n", "x.sh", {}, description));
    EXPECT_EQ(base::Join(description.warnings(), "; "), warning) << head;
    const auto specs = description.Finish(Context());
    std::string text;
    for (const core::Dependency& each : specs->at(0).dependencies)
      text += std::to_string(core::Number(each.task)) + " ";
    return text;
  };
  EXPECT_EQ(awaits("#CARMA -d afterok:1\n#CARMA -J x\n#CARMA --dependency afterany:2:3\n", ""),
            "1 2 3 ");
  EXPECT_EQ(awaits("#SBATCH -d afterok:1\n#SBATCH -d afterok:2\n",
                   "x.sh:3: --dependency replaces the earlier --dependency afterok:1"),
            "2 ");
  EXPECT_EQ(awaits("#SBATCH -d afterok:1\n#CARMA -d afterok:2\n#CARMA -d afterok:3\n",
                   "x.sh:3: --dependency replaces the earlier --dependency afterok:1"),
            "2 3 ");
}

TEST(ApplyScript, ConvertsDosLineEnds) {
  Description description;
  ASSERT_TRUE(ApplyScript("#!/bin/sh\r\necho a\r\n", "-", {}, description));
  const auto tasks = description.Finish(Context());
  ASSERT_TRUE(tasks);
  EXPECT_EQ(tasks->at(0).script, "#!/bin/sh\necho a\n");
  EXPECT_EQ(tasks->at(0).name, "stdin");
  EXPECT_EQ(description.warnings().size(), 1u);
}

TEST(ApplyScript, KeepsCarriageReturnsOfAUnixScript) {
  Description description;
  ASSERT_TRUE(ApplyScript("#!/bin/sh\nprintf 'a\r\n'\n", "x", {}, description));
  EXPECT_EQ(description.Finish(Context())->at(0).script, "#!/bin/sh\nprintf 'a\r\n'\n");
  EXPECT_TRUE(description.warnings().empty());
}

TEST(ApplyScript, NamesTheLineOfABadValue) {
  Description description;
  const auto applied =
      ApplyScript("#!/bin/sh\n#CARMA --hold\n#CARMA --gpus=none\n", "x.sh", {}, description);
  ASSERT_FALSE(applied);
  EXPECT_TRUE(applied.error().message.starts_with("x.sh:3: --gpus: expected"))
      << applied.error().message;
}

}  // namespace
}  // namespace carma::task
