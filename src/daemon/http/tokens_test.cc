#include "daemon/http/tokens.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/file.h"
#include "base/test_fields.h"

namespace carma::daemon {
namespace {

using std::chrono::hours;

const api::Peer kAda{.uid = 1000, .gid = 100, .pid = 1, .groups = {100, 7}};
const api::Peer kEve{.uid = 1001, .gid = 100};

class TokensTest : public ::testing::Test {
 protected:
  TokensTest() {
    std::string folder = ::testing::TempDir() + "/carma-tokens-XXXXXX";
    folder_ = ::mkdtemp(folder.data());
  }
  ~TokensTest() override { std::filesystem::remove_all(folder_); }

  Tokens Open() {
    Tokens tokens(folder_, [this] { return now_ms_; });
    EXPECT_TRUE(tokens.Load());
    return tokens;
  }

  std::string folder_;
  std::int64_t now_ms_ = 1'000'000;
};

TEST_F(TokensTest, AreValidAfterARestart) {
  Tokens tokens = Open();
  const auto made = tokens.Make(kAda, "ada", "laptop", hours(1));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->text.size(), 6U + 64U);
  const Tokens restarted = Open();
  for (const Tokens* each : {&std::as_const(tokens), &restarted}) {
    const std::optional<api::Peer> who = each->Find(made->text);
    ASSERT_TRUE(who);
    EXPECT_EQ(who->uid, kAda.uid);
    EXPECT_EQ(who->token_of, "ada");
  }
  EXPECT_FALSE(tokens.Find("carma_" + std::string(64, '0')));
  EXPECT_FALSE(tokens.Find(""));
}

TEST_F(TokensTest, AreStoredAsHashesInAFileThatOnlyTheDaemonReads) {
  Tokens tokens = Open();
  const auto made = tokens.Make(kAda, "ada", "laptop", hours(1));
  ASSERT_TRUE(made);
  const std::string path = folder_ + "/tokens.json";
  const std::string kept = base::ReadFile(path, 1 << 20).value();
  EXPECT_EQ(kept.find(made->text.substr(6)), std::string::npos);
  EXPECT_NE(kept.find(made->token.hash), std::string::npos);
  struct stat st {};
  ASSERT_EQ(::stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600U);
}

TEST_F(TokensTest, Expire) {
  Tokens tokens = Open();
  const auto made = tokens.Make(kAda, "ada", "", hours(1));
  now_ms_ += 3'599'999;
  EXPECT_TRUE(tokens.Find(made->text));
  now_ms_ += 1;
  EXPECT_FALSE(tokens.Find(made->text));
  EXPECT_TRUE(tokens.List(std::nullopt).empty());
}

TEST_F(TokensTest, AreRevokedByTheirUserOrAnAdministrator) {
  Tokens tokens = Open();
  const auto first = tokens.Make(kAda, "ada", "first", hours(1));
  const auto second = tokens.Make(kAda, "ada", "second", hours(1));
  EXPECT_EQ(tokens.Revoke(first->token.id, kEve.uid).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(tokens.Find(first->text));
  EXPECT_TRUE(tokens.Revoke(first->token.id, kAda.uid));
  EXPECT_FALSE(tokens.Find(first->text));
  EXPECT_TRUE(tokens.Revoke(second->token.id, std::nullopt));
  EXPECT_FALSE(Open().Find(second->text));
  EXPECT_GT(tokens.Make(kAda, "ada", "third", hours(1))->token.id, second->token.id)
      << "numbers are never reused";
}

TEST_F(TokensTest, AreLimitedPerUser) {
  Tokens tokens = Open();
  for (std::size_t i = 0; i < Tokens::kMostOfOneUser; ++i)
    ASSERT_TRUE(tokens.Make(kAda, "ada", "", hours(1)));
  EXPECT_EQ(tokens.Make(kAda, "ada", "", hours(1)).error().code, ErrorCode::kConflict);
  EXPECT_TRUE(tokens.Make(kEve, "eve", "", hours(1)));
  EXPECT_EQ(tokens.List(kEve.uid).size(), 1U);
}

TEST_F(TokensTest, KeepsAnUnreadableFileAndAcceptsNoTokens) {
  ASSERT_TRUE(base::WriteFileAtomic(folder_ + "/tokens.json", "{\"tokens\":[{\"id\":\"x\"}]}"));
  Tokens tokens(folder_, [] { return 0; });
  EXPECT_EQ(tokens.Load().error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(tokens.Make(kAda, "ada", "", hours(1)).error().code, ErrorCode::kUnavailable);
  EXPECT_NE(base::ReadFile(folder_ + "/tokens.json", 1000)->find("\"x\""), std::string::npos);
}

TEST_F(TokensTest, VisitFieldsListsEveryMember) {
  EXPECT_TRUE(base::NamesEveryMember<Token>());
}

}  // namespace
}  // namespace carma::daemon
