// Describes this build, for example "commit 0123456789ab, Release build by g++ 12.2.0".
// cmake/commit.cmake generates the text.
#pragma once

extern const char* const kBuildText;
