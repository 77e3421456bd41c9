#include "task/shim/shim_protocol.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/file.h"
#include "base/test_fields.h"

namespace carma::task {
namespace {

ShimOrder FullOrder() {
  ShimOrder order;
  order.id = core::TaskId(42);
  order.attempt = 3;
  order.spec.name = "träining";
  order.uid = 1000;
  order.gid = 1001;
  order.spec.command = {"python3", "train.py", "--lr=\"1e-3\"", ""};
  order.spec.script_args = {"a b"};
  order.spec.workdir = "/home/ada";
  order.spec.environment = {{"A", "1"}, {"MULTI", "two\nlines"}};
  order.extra_environment = {{"CUDA_MPS_PIPE_DIRECTORY", "/run/mps"}};
  order.spec.conda_env = "torch";
  order.gpu_uuids = {"GPU-1", "GPU-2"};
  order.spec.array_index = 7;
  order.spec.stdout_path = "/home/ada/o";
  order.spec.stderr_path = "/home/ada/e";
  order.max_output_bytes = 1 << 20;
  order.output_rotations = 2;
  order.kill_grace = base::Duration(50);
  order.checkpoint_signal = "USR2";
  order.checkpoint_notice = base::Duration(600'000);
  order.saves = true;
  order.limiter = {"/usr/bin/carma-reader", "memory-limits", "libnvidia-ml.so.1"};
  order.memory_limits = {"GPU-1", "100", "200"};
  order.cgroup_base = "/sys/fs/cgroup/x";
  order.cgroup_root = "/sys/fs/cgroup";
  return order;
}

std::string ProtocolDir() {
  std::string path = ::testing::TempDir() + "carma-protocol-XXXXXX";
  return ::mkdtemp(path.data());
}

TEST(ShimProtocol, OrderParsesBackUnchanged) {
  const Result<std::string> text = ToText(FullOrder());
  ASSERT_TRUE(text) << text.error().message;
  const Result<ShimOrder> back = ParseShimOrder(*text);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, FullOrder());
}

TEST(ShimProtocol, OwnerStartedAndReportParseBackUnchanged) {
  const ShimOwner owner{{7, 99}, "boot", true};
  EXPECT_EQ(ParseShimOwner(ToText(owner)).value(), owner);
  const ShimStarted started{{8, 100}, "/carma-1", "Not Found (NVML 6)"};
  EXPECT_EQ(ParseShimStarted(ToText(started)).value(), started);
  const ShimReport failed{
      .launched = false, .text = "no such command", .retryable = true, .no_user = true};
  EXPECT_EQ(ParseShimReport(ToText(failed)).value(), failed);
  ShimReport report{.exit_code = 3,
                    .host_oom = true,
                    .started_ms = 5,
                    .dropped_output_bytes = 9,
                    .output_error = 28};
  for (int i = 0; i < static_cast<int>(kStderrTailBytes); ++i) {
    // Every byte value, including NUL and invalid UTF-8.
    report.stderr_tail += static_cast<char>(i * 7);
  }
  const std::string text = ToText(report);
  EXPECT_LT(text.size(), kReportReserveBytes) << "the reserve must hold the largest report";
  EXPECT_EQ(ParseShimReport(text).value(), report);
}

TEST(ShimProtocol, FilesNameEveryMember) {
  // The member `process` is written as two fields. An empty ShimReport describes a successful
  // start, so its three members for a failed start are missing, as is the tail, which is written
  // separately.
  EXPECT_EQ(base::NamesOf<ShimOwner>().size(), base::MemberCount<ShimOwner>() + 1);
  EXPECT_EQ(base::NamesOf<ShimStarted>().size(), base::MemberCount<ShimStarted>() + 1);
  EXPECT_EQ(base::NamesOf<ShimReport>().size(), base::MemberCount<ShimReport>() - 4);
}

TEST(ShimProtocol, LongestFailureTextFitsAndParses) {
  const ShimReport failed{.launched = false, .text = std::string(16'384, '\x01')};
  const std::string text = ToText(failed);
  EXPECT_LT(text.size(), kReportReserveBytes);
  EXPECT_EQ(ParseShimReport(text).value(), failed);
}

TEST(ShimProtocol, RefusesTextThatJsonCannotRepresent) {
  ShimOrder order = FullOrder();
  order.spec.environment["LATIN1"] = "\xe9";
  EXPECT_FALSE(ToText(order));
}

TEST(ShimProtocol, BrokenOrdersAreRefused) {
  struct Case {
    const char* name;
    const char* from;
    const char* to;
  };
  const Case cases[] = {
      {"a user is missing", "\"uid\":1000", "\"uid\":null"},
      {"a negative group", "\"gid\":1001", "\"gid\":-1"},
      {"task zero", "\"id\":42", "\"id\":0"},
      {"a relative working directory", "\"/home/ada\"", "\"home/ada\""},
      {"a relative output path", "\"/home/ada/o\"", "\"o\""},
      {"a NUL in an argument", "a b", "a\\u0000b"},
      {"a variable's name with =", "\"A\":", "\"A=B\":"},
      {"a grace of a year", "\"kill_grace_ms\":50", "\"kill_grace_ms\":31536000000"},
      {"an unknown field", "\"attempt\":3", "\"attempt\":3,\"color\":1"},
      {"a field twice", "\"attempt\":3", "\"attempt\":3,\"attempt\":3"},
  };
  const std::string good = *ToText(FullOrder());
  for (const Case& c : cases) {
    std::string text = good;
    const std::size_t at = text.find(c.from);
    ASSERT_NE(at, std::string::npos) << c.name;
    text.replace(at, std::string(c.from).size(), c.to);
    EXPECT_FALSE(ParseShimOrder(text)) << c.name;
  }
}

TEST(ShimProtocol, ATornTextNeverCrashesTheParser) {
  const std::string texts[] = {*ToText(FullOrder()), ToText(ShimOwner{{7, 99}, "boot", false}),
                               ToText(ShimStarted{{8, 100}, ""}),
                               ToText(ShimReport{.exit_code = 1, .stderr_tail = "tail"})};
  for (const std::string& text : texts) {
    for (std::size_t cut = 0; cut + 1 < text.size(); ++cut) {
      const std::string torn = text.substr(0, cut);
      EXPECT_FALSE(ParseShimOrder(torn));
      EXPECT_FALSE(ParseShimOwner(torn));
      EXPECT_FALSE(ParseShimStarted(torn));
      EXPECT_FALSE(ParseShimReport(torn));
    }
  }
}

TEST(ShimProtocol, OnlyTheFirstClaimWins) {
  const std::string dir = ProtocolDir();
  EXPECT_EQ(ClaimAttempt(dir, /*abandon=*/false).value(), true);
  EXPECT_EQ(ClaimAttempt(dir, /*abandon=*/true).value(), false);
  const Result<ShimOwner> owner =
      ParseShimOwner(base::ReadFile(dir + "/" + kOwnerFile, kMaxOwnerBytes).value());
  ASSERT_TRUE(owner);
  EXPECT_FALSE(owner->abandoned);
  EXPECT_TRUE(OwnerLives(*owner)) << "we are the owner";
  EXPECT_TRUE(SyncClaim(dir));
}

TEST(ShimProtocol, AnOwnerFromAnotherBootOrStartCountsAsDead) {
  const ShimOwner self{base::SelfProcess(), base::BootId(), false};
  EXPECT_TRUE(OwnerLives(self));
  ShimOwner other_boot = self, other_start = self, abandoned = self;
  other_boot.boot_id = "0000";
  other_start.process.start_ticks += 1;
  abandoned.abandoned = true;
  EXPECT_FALSE(OwnerLives(other_boot));
  EXPECT_FALSE(OwnerLives(other_start)) << "the pid was given to another process";
  EXPECT_FALSE(OwnerLives(abandoned));
}

TEST(ReservedFile, AppearsOnlyWhenComplete) {
  const std::string dir = ProtocolDir();
  ReservedFile file;
  ASSERT_TRUE(file.Reserve(dir, kExitFile, kReportReserveBytes));
  EXPECT_FALSE(base::Exists(dir + "/" + kExitFile));
  ASSERT_TRUE(file.Commit("hello\n", /*durable=*/true));
  EXPECT_EQ(base::ReadFile(dir + "/" + kExitFile, 100).value(), "hello\n");
  EXPECT_FALSE(file.Commit("again", false)) << "the reserve is used up";
}

}  // namespace
}  // namespace carma::task
