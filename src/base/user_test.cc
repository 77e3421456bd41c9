#include "base/user.h"

#include <gtest/gtest.h>

namespace carma::base {
namespace {

constexpr std::uint32_t kNobodyHasIt = 3'999'999'999;

TEST(User, RootHasANameAHomeAndItsGroup) {
  const Result<std::optional<UserEntry>> root = FindUser(0);
  ASSERT_TRUE(root) << root.error().message;
  ASSERT_TRUE(*root);
  EXPECT_EQ((*root)->name, "root");
  EXPECT_EQ((*root)->gid, 0U);
  EXPECT_EQ((*root)->home, "/root");
  EXPECT_EQ(UserName(0), "root");
}

TEST(User, AnUnusedNumberIsItsOwnName) {
  const Result<std::optional<UserEntry>> nobody = FindUser(kNobodyHasIt);
  ASSERT_TRUE(nobody) << nobody.error().message;
  EXPECT_FALSE(*nobody);
  EXPECT_EQ(UserName(kNobodyHasIt), "3999999999");
  const Result<KnownUser> known = KnowUser(kNobodyHasIt);
  ASSERT_TRUE(known) << known.error().message;
  EXPECT_EQ(known->name, "3999999999");
  EXPECT_TRUE(known->groups.empty());
}

TEST(User, AGroupIsFoundByItsName) {
  EXPECT_EQ(FindGroup("root").value(), 0U);
  EXPECT_EQ(FindGroup("no such group").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace carma::base
