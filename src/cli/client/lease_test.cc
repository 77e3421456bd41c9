// Tests `carma lease` by running the whole command against a fake daemon.
#include <gtest/gtest.h>

#include "api/lease_view.h"
#include "api/views.h"
#include "base/json.h"
#include "cli/client/app_fixture.h"

namespace carma::cli {
namespace {

TEST_F(App, LeaseRefusesUnsupportedOptions) {
  for (const std::vector<std::string>& option :
       {std::vector<std::string>{"--container", "ubuntu:22.04"},
        {"--conda-env", "x"},
        {"-D", "/"},
        {"--export", "NONE"},
        {"-o", "x.txt"},
        {"--retries", "2"},
        {"--progress", "none"}}) {
    std::vector<std::string> words{"lease", "-G", "0"};
    words.insert(words.end(), option.begin(), option.end());
    words.insert(words.end(), {"--", "true"});
    const Ran ran = Run(words);
    EXPECT_EQ(ran.exit_code, 2) << option[0];
    EXPECT_NE(ran.err.find(": carmad does not start a lease's process"), std::string::npos)
        << ran.err;
  }
  const Ran missing = Run({"lease", "--", "/no/such/program"});
  EXPECT_EQ(missing.err.substr(0, 36), "carma: no lease: no program '/no/suc") << missing.err;
  const std::string help = Run({"lease", "--help"}).out;
  EXPECT_EQ(help.find("--container"), std::string::npos);
  EXPECT_NE(help.find("--gpu-mem"), std::string::npos);
}

TEST_F(App, ALeaseShowsTimesOfTheReadersClock) {
  daemon_.On("POST /v1/leases", [](const api::Request&) {
    return JsonAnswer(ToJson(api::LeaseView{.id = 7,
                                            .state = "ended",
                                            .reason = "BeginTime",
                                            .reason_text = "Not before 2026-03-01T13:05:59.120Z."}),
                      201);
  });
  const Ran ran = Run({"lease", "--", "true"});
  EXPECT_NE(ran.err.find("Not before 2026-03-01 "), std::string::npos) << ran.err;
}

TEST_F(App, ALeaseNeedsNoFolderForItsOutput) {
  daemon_.On("POST /v1/leases", [this](const api::Request& request) {
    body_ = base::ParseJson(request.body).value();
    return JsonAnswer({{"error", {{"message", "no"}}}}, 409);
  });
  EXPECT_EQ(Run({"lease", "--", "true"}).exit_code, 1);
  EXPECT_EQ(body_["spec"]["stdout_path"], "/dev/null");
}

}  // namespace
}  // namespace carma::cli
