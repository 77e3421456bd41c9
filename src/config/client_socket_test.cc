#include "config/client_socket.h"

#include <gtest/gtest.h>

#include <fstream>

namespace carma::config {
namespace {

std::string FileWith(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

TEST(ConfiguredSocket, IsThatOfTheLastSource) {
  Sources sources;
  EXPECT_EQ(ConfiguredSocket(sources), "");
  sources.files = {{"/nonexistent/carma.toml", true},
                   {FileWith("a.toml", "[daemon]\nhttp_port = 8080\n"), true}};
  EXPECT_EQ(ConfiguredSocket(sources), "");
  sources.files.emplace_back(FileWith("b.toml", "[daemon]\nsocket = \"/srv/b.sock\"\n"), true);
  EXPECT_EQ(ConfiguredSocket(sources), "/srv/b.sock");
  sources.files.emplace_back(FileWith("c.toml", "daemon.socket = '/srv/c.sock'\n"), true);
  EXPECT_EQ(ConfiguredSocket(sources), "/srv/c.sock");
  sources.environment["CARMA_DAEMON_SOCKET"] = "/srv/d.sock";
  EXPECT_EQ(ConfiguredSocket(sources), "/srv/d.sock");
}

TEST(ConfiguredSocket, IsFoundAlthoughOtherKeysAreWrong) {
  Sources sources;
  sources.files = {
      {FileWith("e.toml", "[policy]\nno_such_key = 1\n[daemon]\nsocket = \"/srv/e.sock\"\n"), true},
      {FileWith("f.toml", "[daemon\n"), true}};
  sources.environment["CARMA_DAEMON_SOCKET"] = "relative.sock";
  EXPECT_EQ(ConfiguredSocket(sources), "/srv/e.sock");
}

}  // namespace
}  // namespace carma::config
