#include "store/place.h"

#include <sys/stat.h>

#include <utility>

namespace carma::store {

FilePlace::FilePlace(std::string path) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) return;
  path_ = std::move(path);
  device_ = st.st_dev;
  inode_ = st.st_ino;
}

Result<Unit> FilePlace::Check() const {
  struct stat st {};
  if (path_.empty()) return Unit{};
  const bool there = ::stat(path_.c_str(), &st) == 0;
  if (there && st.st_dev == device_ && st.st_ino == inode_) return Unit{};
  return Fail(ErrorCode::kIo, "{} was {} while carmad ran: put the file back, or restart carmad",
              path_, there ? "replaced" : "removed");
}

}  // namespace carma::store
