#include "base/standard_streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/unique_fd.h"

namespace carma::base {
namespace {

TEST(Journal, IsRecognisedByDeviceAndInodeOfItsStream) {
  const UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  struct stat info {};
  ASSERT_EQ(::fstat(null.get(), &info), 0);
  const std::string stream = fmt::format("{}:{}", info.st_dev, info.st_ino);
  const UniqueFd other(::open("/", O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(IsJournal(null.get(), stream));
  EXPECT_FALSE(IsJournal(null.get(), ""));
  EXPECT_FALSE(IsJournal(null.get(), stream + "1"));
  EXPECT_FALSE(IsJournal(other.get(), stream)) << "redirected since then";
  EXPECT_FALSE(IsJournal(-1, stream));
}

}  // namespace
}  // namespace carma::base
