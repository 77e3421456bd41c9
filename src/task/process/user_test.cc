#include "task/process/user.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/unique_fd.h"

namespace carma::task {
namespace {

constexpr uid_t kNobody = 65'534;

UserInfo Nobody() {
  return {.uid = kNobody, .gid = kNobody, .groups = {kNobody}};
}

TEST(User, FindsOurOwnUser) {
  const Result<UserInfo> user = LookUpUser(::getuid(), ::getgid());
  ASSERT_TRUE(user) << user.error().message;
  EXPECT_EQ(user->uid, ::getuid());
  EXPECT_FALSE(user->groups.empty());
}

TEST(User, AnUnknownNumberHasOnlyItsOneGroup) {
  const Result<UserInfo> user = LookUpUser(3'999'999'999U, 3'999'999'998U);
  ASSERT_TRUE(user) << user.error().message;
  EXPECT_EQ(user->name, "");
  EXPECT_EQ(user->groups, std::vector<gid_t>{3'999'999'998U});
}

TEST(User, DoesNotUseAGroupWithoutTheUser) {
  const passwd* entry = ::getpwnam("nobody");
  if (entry == nullptr) GTEST_SKIP() << "needs a user nobody";
  const uid_t uid = entry->pw_uid;
  const gid_t first = entry->pw_gid;
  const Result<UserInfo> user = LookUpUser(uid, 3'999'999'998U);
  ASSERT_TRUE(user) << user.error().message;
  EXPECT_EQ(user->gid, first);
  EXPECT_THAT(user->groups, testing::Contains(first));
  EXPECT_THAT(user->groups, testing::Not(testing::Contains(3'999'999'998U)));
  for (const gid_t group : user->groups) EXPECT_EQ(LookUpUser(uid, group)->gid, group);
}

TEST(User, DetectsThatANumberBelongsToAnotherPerson) {
  EXPECT_EQ(WhyNotTheSubmitter(7, "ada", "ada"), "");
  EXPECT_EQ(WhyNotTheSubmitter(7, "", "bob"), "") << "no name was recorded";
  EXPECT_EQ(WhyNotTheSubmitter(7, "7", "bob"), "") << "the user had no name then";
  EXPECT_EQ(WhyNotTheSubmitter(7, "ada", "bob"),
            "user id 7 belonged to ada at submission and now belongs to bob");
  EXPECT_EQ(WhyNotTheSubmitter(7, "ada", ""), "user ada no longer exists");
  EXPECT_EQ(WhyNotTheSubmitter(7, "ada", "7"), "user ada no longer exists");
}

TEST(User, WornRightsCreateFilesOfTheUserAndCannotReadRootsFiles) {
  if (!CanSwitchUser()) GTEST_SKIP() << "needs root";
  std::string dir = "/tmp/carma-user-XXXXXX";
  ASSERT_NE(::mkdtemp(dir.data()), nullptr);
  ASSERT_EQ(::chmod(dir.c_str(), 0777), 0);
  const std::string secret = dir + "/secret", mine = dir + "/mine";
  base::UniqueFd(::open(secret.c_str(), O_CREAT | O_WRONLY, 0600));
  const UserInfo nobody = Nobody();
  {
    WornRights rights(nobody, 022);
    ASSERT_TRUE(rights.Wear());
    EXPECT_FALSE(base::UniqueFd(::open(secret.c_str(), O_RDONLY)));
    EXPECT_TRUE(base::UniqueFd(::open(mine.c_str(), O_CREAT | O_WRONLY, 0600)));
  }
  EXPECT_EQ(::geteuid(), 0U);
  EXPECT_TRUE(base::UniqueFd(::open(secret.c_str(), O_RDONLY)));
  struct stat st {};
  ASSERT_EQ(::stat(mine.c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, kNobody);
  EXPECT_EQ(st.st_gid, kNobody);
}

TEST(User, WornRightsHaveTheirOwnUmask) {
  const mode_t before = ::umask(022);
  const Result<UserInfo> self = LookUpUser(::getuid(), ::getgid());
  ASSERT_TRUE(self);
  {
    WornRights rights(*self, 077);
    ASSERT_TRUE(rights.Wear());
    EXPECT_EQ(::umask(077), 077U);
    rights.DropPrivileges();
    EXPECT_EQ(::umask(022), 022U);
    ASSERT_TRUE(rights.Wear());
  }
  EXPECT_EQ(::umask(before), 022U);
}

TEST(User, BecomingAUserIsIrreversible) {
  if (!CanSwitchUser()) GTEST_SKIP() << "needs root";
  const pid_t child = ::fork();
  if (child == 0) {
    const bool became = BecomeUser(Nobody()).has_value();
    const bool stuck = ::setuid(0) != 0 && ::setgid(0) != 0 && ::seteuid(0) != 0;
    ::_exit(became && stuck && ::getgroups(0, nullptr) == 1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace carma::task
