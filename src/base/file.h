// Reads and writes whole files with limited sizes, and changes them atomically.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace carma::base {

// Reads at most max_bytes. Errors: kInvalid if the file is larger, or is a directory or a special
// file.
Result<std::string> ReadFile(const std::string& path, std::size_t max_bytes);
// Reads a descriptor to its end, but at most max_bytes.
Result<std::string> ReadAll(int fd, std::size_t max_bytes);
Result<Unit> WriteAll(int fd, std::string_view data);
// Writes a temporary file in the same folder, then calls fsync, rename, and fsync on the folder.
// Readers see either the old or the new text, never a part. A symbolic link is followed, and a
// device or a pipe is written directly. Errors: the system's; kDenied if the path is already
// another user's link in a sticky folder that everybody may write to.
Result<Unit> WriteFileAtomic(const std::string& path, std::string_view data, unsigned mode = 0644);
// Writes an existing file in the same way. The file keeps its mode, owner and group. If the path is
// a symbolic link, it remains a link.
Result<Unit> RewriteFileAtomic(const std::string& path, std::string_view data);
// Like mkdir -p. Existing folders are left as they are.
Result<Unit> MakeDirs(const std::string& path, unsigned mode = 0755);
bool Exists(const std::string& path);
bool IsFolder(const std::string& path);
// Whether this process may execute the file.
bool IsProgram(const std::string& path);
// The folder of the running executable. Used to find programs and data that are installed with it.
std::string ExecutableDir();
std::string GetEnv(const char* name, std::string_view fallback = "");
// All environment variables of this process.
std::map<std::string, std::string> OwnEnvironment();
// Finds the program in the first absolute folder of `search` that contains it. `search` is a list
// like $PATH. Empty if no folder contains the program.
std::string FindOnPath(std::string_view search, std::string_view name);

}  // namespace carma::base
