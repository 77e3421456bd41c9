// Tests that the database can be copied while the daemon is running, and that a server continues
// from the copy.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/json.h"
#include "base/text.h"
#include "cli/calls.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

class Backup : public ::testing::Test {
 protected:
  void SetUp() override { site.Start(); }
  // Follows the steps that docs/server/operations.md gives administrators.
  void Restore(const std::string& copy) {
    std::filesystem::rename(site.state_dir(), site.state_dir() + ".old");
    ASSERT_EQ(::mkdir(site.state_dir().c_str(), IsRoot() ? 0711 : 0700), 0);
    std::filesystem::copy_file(copy, site.state_dir() + "/carma.db");
    ::chmod((site.state_dir() + "/carma.db").c_str(), 0600);
  }

  Site site;
};

TEST_F(Backup, AServerContinuesFromACopyAndNoAttemptRunsTwice) {
  const std::string marks = site.out_dir() + "/marks";
  Gated gated(site, "gated");
  const std::uint64_t ended =
      site.Submit({"--", "/bin/sh", "-c", "echo ended >> " + marks + "; exit 7"});
  site.Await(ended);
  const std::uint64_t runs =
      gated.Submit(site, "echo attempt $CARMA_ATTEMPT >> " + marks + "; exit 0");
  ASSERT_EQ(gated.Hear(), "1");
  const api::TaskView first = site.AwaitState(runs, "running");
  const std::uint64_t waits = site.Submit({"--dependency", "afterok:" + std::to_string(runs), "--",
                                           "/bin/sh", "-c", "echo waited >> " + marks});
  const std::uint64_t held = site.Submit({"--hold", "--priority", "5", "--", "/bin/true"});
  ASSERT_TRUE(site.Carma({"drain", "1", "--reason", "fan"}).Ok());
  const std::string copy = site.folder() / "copy.db";
  const Ran made = site.Carma({"backup", copy});
  ASSERT_TRUE(made.Ok()) << made.Text();
  EXPECT_THAT(made.out, HasSubstr("Backed up " + site.state_dir() + " to " + copy));
  const std::uint64_t later = site.Submit({"--", "/bin/true"});
  site.Await(later);

  const Watched process(static_cast<pid_t>(first.pid.value_or(0)));
  site.Stop(SIGTERM);
  Restore(copy);
  site.Start();
  EXPECT_EQ(site.Task(ended).exit_code, 7);
  EXPECT_THAT(site.History(ended), Not(::testing::IsEmpty()));
  site.ExpectWaits(held, "Held");
  EXPECT_EQ(site.Task(held).priority, 5);
  EXPECT_EQ(site.Gpus()[1].state, "drain");
  EXPECT_FALSE(cli::GetTask(site.client(), later)) << "it was submitted after the copy";
  // carmad cannot tell how the old attempt went, so it kills the process and starts the task again.
  EXPECT_TRUE(process.Ends());
  ASSERT_EQ(gated.Hear(), "2");
  gated.Open();
  EXPECT_EQ(site.Await(runs).state, "succeeded");
  EXPECT_EQ(site.Await(waits).state, "succeeded");
  EXPECT_EQ(ReadText(marks), "ended\nattempt 2\nwaited\n");
  EXPECT_EQ(site.Submit({"--hold", "--", "/bin/true"}), later) << "numbers continue from the copy";
}

TEST_F(Backup, NeedsReadAccessAndReplacesFilesOnlyOnRequest) {
  const std::string copy = site.folder() / "copy.db";
  const Ran made = site.Carma({"backup", "--json", copy});
  const auto json = base::ParseJson(made.out);
  ASSERT_TRUE(json) << made.Text();
  EXPECT_EQ((*json)["file"], copy);
  EXPECT_EQ((*json)["state_dir"], site.state_dir());
  EXPECT_EQ((*json)["bytes"], std::filesystem::file_size(copy));
  const Ran again = site.Carma({"backup", copy});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("exists; --force replaces a file"));
  EXPECT_TRUE(site.Carma({"backup", "--force", copy}).Ok());
  EXPECT_EQ(site.Carma({"backup"}).code, 2);
  EXPECT_EQ(site.Carma({"backup", "-"}).code, 2) << "not a file named -";
  const std::string folder = site.folder() / "backups";
  std::filesystem::create_directory(folder);
  EXPECT_THAT(site.Carma({"backup", folder}).out, HasSubstr(folder + "/carma-2"));
  const Ran over = site.Carma({"backup", "--force", site.state_dir() + "/carma.db"});
  EXPECT_EQ(over.code, 2);
  EXPECT_THAT(over.err, HasSubstr("is in the state folder, where carmad keeps its own files"));
  if (IsRoot()) {
    const Ran stranger = site.Carma({"backup", site.out_dir() + "/mine.db"}, {.uid = OtherUser()});
    EXPECT_EQ(stranger.code, 1);
    EXPECT_THAT(stranger.err, HasSubstr("only be read by root and the user that carmad runs as"));
  }
  // The backup also works without a daemon.
  site.Stop(SIGKILL);
  EXPECT_TRUE(
      site.Carma({"backup", "--state-dir", site.state_dir(), site.folder() / "dead.db"}).Ok());
  site.Start();
  EXPECT_EQ(site.Await(site.Submit({"--", "/bin/true"})).state, "succeeded");
}

}  // namespace
}  // namespace carma::system_test
