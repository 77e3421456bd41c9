// Whole files in and out, bounded and atomic.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace carma::base {

// Reads at most max_bytes; a larger file, a directory or a special file is kInvalid.
Result<std::string> ReadFile(const std::string& path, std::size_t max_bytes);
// Reads a descriptor to its end, at most max_bytes.
Result<std::string> ReadAll(int fd, std::size_t max_bytes);
Result<Unit> WriteAll(int fd, std::string_view data);
// Temporary file in the same folder, fsync, rename, fsync of the folder: readers see the old or the
// new text, never a part. A symbolic link stays one; to a device or a pipe the text is written
// directly. Errors: the system's; kDenied for another user's link in a sticky folder that all may
// write to, if it is there before the call.
Result<Unit> WriteFileAtomic(const std::string& path, std::string_view data, unsigned mode = 0644);
// The same for a file that exists: it keeps its mode, owner and group, and a symbolic link to it
// stays one.
Result<Unit> RewriteFileAtomic(const std::string& path, std::string_view data);
// mkdir -p; existing folders are left as they are.
Result<Unit> MakeDirs(const std::string& path, unsigned mode = 0755);
bool Exists(const std::string& path);
bool IsFolder(const std::string& path);
// A file that this process may run.
bool IsProgram(const std::string& path);
// Folder of the running executable, for programs and data installed with it.
std::string ExecutableDir();
std::string GetEnv(const char* name, std::string_view fallback = "");
// The variables of this process.
std::map<std::string, std::string> OwnEnvironment();
// The program in the first absolute folder of `search`, as in $PATH; empty: in none of them.
std::string FindOnPath(std::string_view search, std::string_view name);

}  // namespace carma::base
