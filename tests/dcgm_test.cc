// Tests a daemon that gets its counters from DCGM, using a script in place of dcgmi.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::HasSubstr;

class Dcgm : public ::testing::Test {
 protected:
  Dcgm() : site({.settings = {{"monitor.source", "\"dcgm\""}}}) {}

  // Starts the daemon with a `dcgmi` that runs this script.
  void Start(const std::string& script) {
    WriteText(programs / "dcgmi", "#!/bin/sh\n" + script + "\n", 0755);
    site.Start(true, {.environment = {{"PATH", programs.path() + ":" + std::getenv("PATH")}}});
  }

  Folder programs;
  Site site;
};

TEST_F(Dcgm, TheDaemonShowsItsActivity) {
  Start(
      "echo '#Entity PCBID SMACT'; while :; do echo GPU 0 N/A 0.625; echo GPU 1 N/A 0.125; "
      "sleep 0.1; done");
  ASSERT_TRUE(Eventually([&] { return site.Gpus()[0].sm_active == 0.625; }));
  EXPECT_EQ(site.Gpus()[1].sm_active, 0.125);
  EXPECT_THAT(site.Carma({"doctor", "--config", site.config_file()},
                         {.environment = {{"PATH", programs.path() + ":/usr/bin:/bin"}}})
                  .out,
              HasSubstr("SM activity from DCGM"));
}

TEST_F(Dcgm, APercentageClosesItsGpu) {
  Start(
      "echo '#Entity PCBID SMACT'; while :; do echo GPU 0 N/A 0.5; echo GPU 1 N/A 57.0; "
      "sleep 0.1; done");
  // Waits for the reason, because the GPU is also down until its first sample.
  EXPECT_TRUE(Eventually(
      [&] { return site.Gpus()[1].trouble.find("SMACT is 57.0") != std::string::npos; }));
  EXPECT_EQ(site.Gpus()[1].state, "down");
  EXPECT_NE(site.Gpus()[0].state, "down");
}

TEST_F(Dcgm, GpusWorkWithoutDcgm) {
  Start("echo Error: no host engine; exit 1");
  EXPECT_FALSE(site.Gpus()[0].sm_active);
  EXPECT_EQ(site.Await(site.Submit({"--", "/bin/true"})).state, "succeeded");
}

}  // namespace
}  // namespace carma::system_test
