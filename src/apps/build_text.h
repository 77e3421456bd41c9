// Describes this build: "commit 0123456789ab, Release build by g++ 12.2.0". The text is made by
// cmake/commit.cmake.
#pragma once

extern const char* const kBuildText;
