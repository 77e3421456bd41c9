// Reads and writes whole files of limited size, and replaces them atomically.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace carma::base {

// Reads at most max_bytes. Returns kInvalid if the file is larger, or is a directory or a special
// file.
Result<std::string> ReadFile(const std::string& path, std::size_t max_bytes);
// Reads one value from a kernel file such as /proc/PID/status, which has a name and a value on each
// line. Returns the text after the name, without surrounding whitespace, or "" if there is no such
// file or line.
std::string NamedLine(const std::string& file, std::string_view name);
// Reads a descriptor to its end. Returns kInvalid if there are more than max_bytes bytes, or the
// error from read().
Result<std::string> ReadAll(int fd, std::size_t max_bytes);
Result<Unit> WriteAll(int fd, std::string_view data);
// Writes a temporary file in the same folder, then calls fsync, rename, and fsync on the folder.
// Readers see either the old or the new text, never a mixture. A symbolic link is followed, and a
// device or a pipe is written directly. Returns a system error, or kDenied if the path is a link
// that another user created in a sticky, world-writable folder.
Result<Unit> WriteFileAtomic(const std::string& path, std::string_view data, unsigned mode = 0644);
// Like WriteFileAtomic(), but for an existing file. The file keeps its mode, owner and group. A
// symbolic link remains a link.
Result<Unit> RewriteFileAtomic(const std::string& path, std::string_view data);
// Like mkdir -p. Existing folders are left as they are.
Result<Unit> MakeDirs(const std::string& path, unsigned mode = 0755);
bool Exists(const std::string& path);
// Like Exists(), but returns an error if the answer cannot be determined, for example because of a
// bad disk.
Result<bool> CheckExists(const std::string& path);
bool IsFolder(const std::string& path);
// True if this process may execute the file.
bool IsProgram(const std::string& path);
// True if the program that this link names has been deleted or replaced since it started.
bool IsReplaced(const std::string& exe_link = "/proc/self/exe");
// The folder of the running executable, for finding programs and data installed with it.
std::string ExecutableDir();
std::string GetEnv(const char* name, std::string_view fallback = "");
// All environment variables of this process.
std::map<std::string, std::string> OwnEnvironment();
// Finds the program in the first absolute folder of `search` that contains it. `search` is a list
// like $PATH. Returns "" if no folder contains the program.
std::string FindOnPath(std::string_view search, std::string_view name);

}  // namespace carma::base
