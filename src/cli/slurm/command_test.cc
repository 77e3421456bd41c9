// Tests `carma slurm check` with a stand-in for scontrol.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "api/status_view.h"
#include "base/file.h"
#include "cli/client/app_fixture.h"

namespace carma::cli {
namespace {

TEST_F(App, SlurmCheckReadsTheConfigurationOfTheCarmadThatAnswers) {
  const std::string folder = daemon_.dir() + "/slurm";
  std::filesystem::create_directories(folder + "/carma");
  std::ofstream(folder + "/scontrol") << "#!/bin/sh\necho 'AuthInfo = cred_expire=30'\n";
  std::filesystem::permissions(folder + "/scontrol", std::filesystem::perms::owner_all);
  std::ofstream(folder + "/carma/config.toml") << "[slurm]\nenabled = true\n";  // the caller's own
  const std::string path = base::GetEnv("PATH"), own = base::GetEnv("XDG_CONFIG_HOME");
  ::setenv("PATH", (folder + ":" + path).c_str(), 1);
  ::setenv("XDG_CONFIG_HOME", folder.c_str(), 1);
  const auto check = [this](std::uint32_t uid) {
    daemon_.On("GET /v1/status", [uid](const api::Request&) {
      return JsonAnswer(ToJson(api::StatusView{.uid = uid}));
    });
    return Run({"slurm", "check", "--node", "n1"}).out;
  };
  const std::string of_root = check(0), of_user = check(1234);
  ::setenv("PATH", path.c_str(), 1);
  if (own.empty())
    ::unsetenv("XDG_CONFIG_HOME");
  else
    ::setenv("XDG_CONFIG_HOME", own.c_str(), 1);
  EXPECT_NE(of_root.find("slurm.enabled is false"), std::string::npos) << of_root;
  EXPECT_NE(of_user.find("a job is restarted after 30 s"), std::string::npos) << of_user;
}

}  // namespace
}  // namespace carma::cli
