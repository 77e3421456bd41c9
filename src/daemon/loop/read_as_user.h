// Reads files with a user's privileges instead of the daemon's.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "task/process/user.h"

namespace carma::daemon {

// Gives the calling thread a user's file access permissions and drops its capabilities. Other
// threads are not affected. Does nothing if the daemon is not root or if the user is root.
class ThreadRights {
 public:
  explicit ThreadRights(const task::UserInfo& user);
  // Aborts if the daemon's own privileges cannot be restored.
  ~ThreadRights();
  ThreadRights(const ThreadRights&) = delete;
  ThreadRights& operator=(const ThreadRights&) = delete;
  bool worn() const { return worn_; }  // false if the system refused; then nothing may be read

 private:
  bool needed_ = false;
  bool worn_ = true;
  bool known_ = false;
  std::vector<gid_t> own_groups_;
  std::array<std::uint32_t, 2> own_effective_{};  // capabilities
};

// Reads a whole regular file of at most max_bytes. Refuses files in /proc and does not follow /proc
// links. May block on the file system, but not on a pipe or terminal. Fails with kNotFound, kDenied
// or kIo, or with kInvalid ("path: expected …") if the file is not a regular file or is too large.
//
// Without openat2() (before Linux 5.6), /proc links are resolved by reading their text. If a folder
// is replaced by a link before the file is then opened, the path may lead through /proc/self.
Result<std::string> ReadAs(const task::UserInfo& user, const std::string& path,
                           std::size_t max_bytes);

// The last part of a file that may still be growing.
struct FileEnd {
  std::string text;
  std::int64_t from = 0;  // where the text begins in the file
  std::int64_t size = 0;  // size of the whole file
};
// Reads the last max_bytes of a file. Blocks and fails like ReadAs(), but accepts files of any
// size.
Result<FileEnd> ReadEndAs(const task::UserInfo& user, const std::string& path,
                          std::size_t max_bytes);

}  // namespace carma::daemon
