// Reads and writes whole files, with bounded sizes and atomic changes.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace carma::base {

// Reads at most max_bytes. Errors: kInvalid for a larger file, a directory or a special file.
Result<std::string> ReadFile(const std::string& path, std::size_t max_bytes);
// Reads a descriptor to its end, at most max_bytes.
Result<std::string> ReadAll(int fd, std::size_t max_bytes);
Result<Unit> WriteAll(int fd, std::string_view data);
// Writes a temporary file in the same folder, then fsync, rename, and fsync of the folder: readers
// see the old or the new text, never a part. Follows a symbolic link, and writes directly to a
// device or a pipe. Errors: the system's; kDenied for a link of another user in a sticky folder
// that everybody may write to, if the link exists before the call.
Result<Unit> WriteFileAtomic(const std::string& path, std::string_view data, unsigned mode = 0644);
// Writes an existing file in the same way. The file keeps its mode, owner and group, and a symbolic
// link to it stays a link.
Result<Unit> RewriteFileAtomic(const std::string& path, std::string_view data);
// Like mkdir -p; existing folders are left as they are.
Result<Unit> MakeDirs(const std::string& path, unsigned mode = 0755);
bool Exists(const std::string& path);
bool IsFolder(const std::string& path);
// Whether this process may run the file.
bool IsProgram(const std::string& path);
// The folder of the running executable, for finding programs and data installed with it.
std::string ExecutableDir();
std::string GetEnv(const char* name, std::string_view fallback = "");
// All environment variables of this process.
std::map<std::string, std::string> OwnEnvironment();
// Finds the program in the first absolute folder of `search`, a list like $PATH; empty if it is in
// none of them.
std::string FindOnPath(std::string_view search, std::string_view name);

}  // namespace carma::base
