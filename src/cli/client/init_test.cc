// Tests the questions that `carma init` asks and the file that it writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "cli/fake_daemon.h"
#include "config/settings.h"

namespace carma::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Init : public ::testing::Test {
 protected:
  Init() { std::filesystem::remove(path_); }

  Ran Run(std::vector<std::string> words, const std::string& typed = "") {
    const std::string input = ::testing::TempDir() + "/typed";
    std::ofstream(input) << typed;
    words.insert(words.begin(), {"init", "--file", path_});
    return RunWords("/nonexistent", words, input);
  }
  std::string Text() const { return base::ReadFile(path_, 1 << 20).value_or(""); }
  config::Settings Settings() const {
    const auto loaded = config::LoadText(path_, Text(), true);
    EXPECT_TRUE(loaded) << loaded.error().message;
    return loaded ? loaded->settings : config::Settings{};
  }

  const std::string path_ = ::testing::TempDir() + "/init/carma.toml";
};

TEST_F(Init, WritesGivenOptionsWithoutQuestions) {
  const Ran ran = Run({"--yes", "--order", "fair", "--http-port", "8080", "--sharing", "streams",
                       "--admins", "root", "--users", "root"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("Wrote " + path_));
  EXPECT_THAT(ran.out, HasSubstr("Next: carmad --background --config " + path_));
  EXPECT_THAT(ran.out, HasSubstr("The file also lists all other keys as comments."));
  EXPECT_THAT(ran.out, Not(HasSubstr("?")));
  const config::Settings settings = Settings();
  EXPECT_EQ(settings.http_port, 8080);
  EXPECT_EQ(settings.collocation, core::SharingMethod::kStreams);
  EXPECT_EQ(settings.admins, std::vector<std::string>{"root"});
  EXPECT_EQ(settings.allow_groups, std::vector<std::string>{"root"});
  EXPECT_THAT(Text(), HasSubstr("\norder = \"fair\"\n"));
  EXPECT_THAT(Text(), HasSubstr("\n#keep_finished_days = 90\n"));  // every other key is a comment
}

TEST_F(Init, AsksAgainAfterAnInvalidAnswer) {
  if (::geteuid() != 0) GTEST_SKIP() << "an ordinary user gets fewer questions";
  const Ran ran = Run({}, "\nno-such-user\nroot\nfair\n\neighty\n8081\n");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("no user 'no-such-user'"));
  EXPECT_THAT(ran.out, HasSubstr("expected port from 1 to 65535"));
  EXPECT_EQ(Settings().http_port, 8081);
  EXPECT_EQ(Settings().admins, std::vector<std::string>{"root"});
}

TEST_F(Init, KeepsValuesThatAreNotAnswered) {
  ASSERT_EQ(Run({"--yes", "--http-port", "8080"}).exit_code, 0);
  std::ofstream(path_, std::ios::app) << "# mine\n";
  const std::string before = Text();
  const Ran ran = Run({"--json"}, "");  // the input ends immediately
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("\"set\":{}"));
  EXPECT_EQ(Text(), before);
  EXPECT_THAT(Run({"--yes"}).out, HasSubstr("no value changed"));
  ASSERT_EQ(Run({"--yes", "--http-port", "none"}).exit_code, 0);
  EXPECT_EQ(Settings().http_port, std::nullopt);
  EXPECT_THAT(Text(), HasSubstr("# mine\n"));
}

// The mode must not change, because the file may contain secrets such as a webhook URL.
TEST_F(Init, KeepsTheModeTheLinkAndTheCommentsOfAFile) {
  const std::filesystem::path link(path_), real = link.parent_path() / "real.toml";
  std::filesystem::create_directories(link.parent_path());
  std::ofstream(real) << "[policy]\norder = \"fifo\"  # ours\n";
  std::filesystem::create_symlink("real.toml", link);
  ASSERT_EQ(::chmod(real.c_str(), 0640), 0);
  const gid_t group = ::geteuid() == 0 ? 7 : ::getegid();
  ASSERT_EQ(::chown(real.c_str(), ::geteuid(), group), 0);
  const Ran ran = Run({"--yes", "--order", "fair"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, Not(HasSubstr("all other keys")));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(Text(), "[policy]\norder = \"fair\"  # ours\n");
  struct stat info {};
  ASSERT_EQ(::stat(real.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640U);
  EXPECT_EQ(info.st_gid, group);

  std::filesystem::remove(real);
  const Ran dangling = Run({"--yes", "--order", "fair"});
  EXPECT_EQ(dangling.exit_code, 1);
  EXPECT_THAT(dangling.err, HasSubstr("the link is broken"));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
}

TEST_F(Init, RefusesAnOptionWithAnInvalidValue) {
  const Ran ran = Run({"--yes", "--order", "best"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.err, HasSubstr("--order: expected \"fifo\" or \"fair\""));
  EXPECT_FALSE(base::Exists(path_));
}

TEST_F(Init, RefusesToEditAnUnusualNotation) {
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
  for (const std::string text :
       {"policy = { order = \"fifo\" }\n", "\"policy\".order = \"fifo\"\n",
        "[policy]\n\"order\" = \"fifo\"\n", "\xEF\xBB\xBF[policy]\norder = \"fifo\"\n"}) {
    std::ofstream(path_) << text;
    const Ran ran = Run({"--yes", "--order", "fair"});
    EXPECT_EQ(ran.exit_code, 2) << text;
    EXPECT_THAT(ran.err, HasSubstr("set these by hand: policy.order = \"fair\"")) << text;
    EXPECT_EQ(Text(), text);
  }
}

TEST_F(Init, RefusesAFileWithAMistake) {
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
  std::ofstream(path_) << "[policy]\nmapper = \"best\"\n";
  const Ran ran = Run({"--yes", "--http-port", "8080"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.err, HasSubstr(":2: policy.mapper"));
  EXPECT_THAT(Text(), Not(HasSubstr("8080")));
}

}  // namespace
}  // namespace carma::cli
