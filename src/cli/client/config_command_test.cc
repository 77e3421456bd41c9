// Tests `carma config` by running the whole command against a fake daemon.
#include <gtest/gtest.h>

#include <fstream>

#include "cli/client/app_fixture.h"

namespace carma::cli {
namespace {

TEST_F(App, ConfigShowsTheKeysThatAreNamed) {
  const std::string path = daemon_.dir() + "/c.toml";
  std::ofstream(path) << "[policy]\nmapper = \"lug\"\n";
  EXPECT_EQ(Run({"config", "show", "--config", path, "policy.mapper"}).out,
            "[policy]\nmapper = \"lug\"\n");
  const Ran section = Run({"config", "show", "--config", path, "idle"});
  EXPECT_TRUE(section.out.starts_with("[idle]\n")) << section.out;
  EXPECT_EQ(section.out.find("mapper"), std::string::npos);
  const Ran none = Run({"config", "show", "--config", path, "policy.map"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_TRUE(none.err.starts_with("carma: 'policy.map': expected a configuration key"))
      << none.err;
}

TEST_F(App, ConfigSaysThatTheDaemonReadsAnotherFile) {
  std::string file;
  daemon_.On("GET /v1/status", [&](const api::Request&) {
    return JsonAnswer({{"config_file", file}});
  });
  EXPECT_EQ(Run({"config", "show", "idle.after"}).err, "");
  file = daemon_.dir() + "/c.toml";
  std::ofstream(file) << "[policy]\nmapper = \"lug\"\n";
  const Ran other = Run({"config", "show", "idle.after"});
  EXPECT_EQ(other.exit_code, 0);
  EXPECT_EQ(other.err, "carma: warning: carmad was started with --config " + file +
                           "; carma config show --config " + file + " shows that file's values\n");
  EXPECT_EQ(Run({"config", "show", "--config", file, "policy.mapper"}).err, "");
  EXPECT_EQ(Run({"config", "check"}).err, "carma: warning: carmad was started with --config " +
                                              file + "; carma config check --config " + file +
                                              " checks that file\n");
  EXPECT_EQ(Run({"config", "check", "--config", file}).err, "");
}

}  // namespace
}  // namespace carma::cli
