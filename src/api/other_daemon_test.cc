#include "api/other_daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <thread>

#include "api/http.h"
#include "api/status_view.h"
#include "api/views.h"
#include "base/json.h"

namespace carma::api {
namespace {

using ::testing::HasSubstr;

TEST(OtherDaemon, IsReportedWithTheOptionToStartAnyway) {
  std::string folder = ::testing::TempDir() + "/carma-other-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string socket = folder + "/carmad.sock";
  EXPECT_TRUE(CheckNoOtherDaemon(socket, "--beside")) << "installed, but never started";
  std::filesystem::create_directory(socket + ".ends");
  const auto stopped = CheckNoOtherDaemon(socket, "--beside");
  ASSERT_FALSE(stopped) << "the server's carmad is stopped";
  EXPECT_EQ(stopped.error().code, ErrorCode::kConflict);
  EXPECT_THAT(stopped.error().message, HasSubstr(socket + ".ends exists"));

  std::int64_t uid = ::getuid() + 1;
  boost::asio::io_context loop(1);
  const auto server =
      Server::ListenUnix(loop, socket, 0600, [&](const Request&, const Responder& reply) {
        StatusView status;
        status.uid = uid;
        status.pid = 77;
        reply({.body = base::DumpJson(ToJson(status))});
      });
  ASSERT_TRUE(server) << server.error().message;
  std::thread runs([&] { loop.run(); });
  const auto refused = CheckNoOtherDaemon(socket, "--beside");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_THAT(refused.error().message, HasSubstr("(process 77, " + socket + ")"));
  EXPECT_THAT(refused.error().message, HasSubstr("with --beside"));
  uid = ::getuid();
  EXPECT_TRUE(CheckNoOtherDaemon(socket, "--beside")) << "the user's own daemon";
  loop.stop();
  runs.join();
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace carma::api
