#include "store/lock.h"

#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace carma::store {
namespace {

TEST(FilePlace, NoticesARemovedOrReplacedFile) {
  std::string folder = ::testing::TempDir() + "/carma-place-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/file";
  EXPECT_TRUE(FilePlace(path, "").Check()) << "there was no file";
  std::ofstream(path) << "a";
  const FilePlace place(path, "put it back");
  EXPECT_TRUE(place.Check());
  std::ofstream(path) << "rewritten and longer";
  EXPECT_TRUE(place.Check());
  ASSERT_EQ(::rename(path.c_str(), (folder + "/away").c_str()), 0);
  EXPECT_EQ(place.Check().error().message,
            path + " was removed while carmad was running: put it back");
  std::ofstream(path) << "another";
  EXPECT_NE(place.Check().error().message.find("file was replaced while"), std::string::npos);
  ASSERT_EQ(::rename((folder + "/away").c_str(), path.c_str()), 0);
  EXPECT_TRUE(place.Check()) << "it was put back";
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace carma::store
