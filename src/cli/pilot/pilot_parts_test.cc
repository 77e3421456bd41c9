// Tests the parts of a pilot: its database, its folder, its daemon's settings, and the end of its
// job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "cli/pilot/allocation.h"
#include "cli/pilot/books.h"
#include "cli/pilot/carmad.h"

namespace carma::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class PilotParts : public ::testing::Test {
 protected:
  PilotParts() {
    std::string folder = ::testing::TempDir() + "/carma-parts-XXXXXX";
    folder_ = ::mkdtemp(folder.data());
  }
  ~PilotParts() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(PilotParts, ADatabaseHasOnePilotAtATime) {
  const std::string books = folder_ + "/a/default";
  {
    const auto first = PilotBooks::Take(books, "the pilot of job 11");
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_FALSE(first->Begun());
    EXPECT_TRUE(first->NoteBegun());
    const auto second = PilotBooks::Take(books, "the pilot of job 12");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::kConflict);
    EXPECT_THAT(second.error().message, HasSubstr("in use by the pilot of job 11"));
  }
  const auto next = PilotBooks::Take(books, "the pilot of job 13");
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->Begun());
}

TEST_F(PilotParts, APlaceIsPrivateAndShortEnoughForSockets) {
  const std::string deep = folder_ + "/" + std::string(90, 'x');
  std::filesystem::create_directory(deep);
  const config::Environment environment = {{"XDG_RUNTIME_DIR", deep}, {"TMPDIR", folder_}};
  const auto place = MakePlace(environment, "4711", "sweep");
  ASSERT_TRUE(place) << place.error().message;
  EXPECT_EQ(place->socket, folder_ + "/carma-4711/sweep.sock");
  struct stat info {};
  ASSERT_EQ(::stat(place->folder.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
  ::chmod(place->folder.c_str(), 0777);
  EXPECT_FALSE(MakePlace(environment, "4711", "sweep")) << "other users may write there";
}

TEST_F(PilotParts, TheDaemonGetsTheAllocationsShareAndConfiguredValues) {
  const Allocation allocation{.job = "12",
                              .gpus = std::vector<std::string>{"2", "GPU-3f"},
                              .cpus = 8,
                              .memory_mib = 64'000};
  const PilotPlace place{.folder = "/tmp/c", .socket = "/tmp/c/a.sock", .mps_dir = "/tmp/c/mps-a"};
  const auto loaded = config::LoadText(
      "f.toml", "host.cpus = 64\ndaemon.http_port = 8080\nrecovery.max_node_failures = 2\n", false);
  ASSERT_TRUE(loaded);
  EXPECT_THAT(DaemonVariables(allocation, place, *loaded, base::Duration(60'000), 4),
              UnorderedElementsAre(
                  Pair("CARMA_DAEMON_GPUS", "2,GPU-3f"), Pair("CARMA_HOST_CPUS", "4"),
                  Pair("CARMA_HOST_MEMORY", "64000M"), Pair("CARMA_DAEMON_HTTP_PORT", "false"),
                  Pair("CARMA_SLOTS_NOTICE", "60000ms"), Pair("CARMA_RESERVE_LEAD", "60000ms"),
                  Pair("CARMA_COLLOCATION_MPS_DIR", "/tmp/c/mps-a")));
  const auto said = config::Load({.environment = {{"CARMA_DAEMON_HTTP_PORT", "8080"}}});
  ASSERT_TRUE(said);
  EXPECT_FALSE(DaemonVariables(allocation, place, *said, base::Duration(60'000), 4)
                   .contains("CARMA_DAEMON_HTTP_PORT"));
}

TEST(JobEnd, IsReadFromTheOutputOfSqueue) {
  ::setenv("TZ", "UTC", 1);
  EXPECT_EQ(ParseJobEnd("2026-11-23T03:09:28\n"), base::FromMs(1'795'403'368'000));
  for (const char* none : {"", "NONE", "N/A", "Unknown", "now"})
    EXPECT_EQ(ParseJobEnd(none), std::nullopt) << none;
}

}  // namespace
}  // namespace carma::cli
