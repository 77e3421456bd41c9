#include "estimate/loaded_code.h"

#include <gtest/gtest.h>

namespace carma::estimate {
namespace {

TEST(LoadedCode, TheVersionDeterminesTheLoading) {
  for (const char* lazy : {"2.0.0", "2.11.0+cu130", "2.11.0+cpu", "1.13.1+cu117", "3.0"})
    EXPECT_EQ(LoadingOf(lazy), Loading::kLazy) << lazy;
  for (const char* eager :
       {"", "1.13.1+cu116", "1.13.1", "1.12.1+cu117", "1.9.0", "1", "two", "-2"})
    EXPECT_EQ(LoadingOf(eager), Loading::kEager) << eager;
}

TEST(LoadedCode, IsRecognisedByItsMemory) {
  for (const Loading loading : {Loading::kEager, Loading::kLazy}) {
    for (const Libraries libraries :
         {Libraries::kPlain, Libraries::kSequences, Libraries::kConvolutions}) {
      const LoadedCode code{loading, libraries};
      EXPECT_EQ(CodeOf(ShippedMib(code)), code) << ShippedMib(code);
    }
  }
}

TEST(LoadedCode, AddsLibrariesDependingOnTheLoading) {
  EXPECT_EQ(OnBaseMib(1400, Libraries::kConvolutions), 1400 + 257);
  EXPECT_EQ(OnBaseMib(700, Libraries::kConvolutions), 700 + 20);
  EXPECT_EQ(OnBaseMib(700, Libraries::kPlain), 700);
}

}  // namespace
}  // namespace carma::estimate
