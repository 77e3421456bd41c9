// A task's output file, whose size is bounded by rotation. Write errors never make the task fail or
// wait.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace carma::task {

// All calls must be made with the privileges of the file's user.
class OutputFile {
 public:
  struct Limits {
    std::int64_t max_bytes = 0;  // size of one file; 0: unlimited
    int rotations = 1;           // number of older files; <path>.1 is the newest
  };
  // Creates the file and any missing parent folders. append: keeps the output of earlier attempts;
  // otherwise the file is truncated. Devices such as /dev/null and pipes are allowed but not
  // rotated. Never waits for a reader. Returns a system error with the path on failure.
  static Result<OutputFile> Open(const std::string& path, bool append, Limits limits);

  // Drops and counts bytes that cannot be written (disk full, quota, file size limit). The next
  // call tries again.
  void Write(std::string_view data);
  // Writes a note about dropped bytes at the end of the file, if possible.
  void Close();
  std::int64_t dropped_bytes() const { return dropped_bytes_; }
  int last_error() const { return last_error_; }  // errno; 0: everything was written
  bool SameFile(const OutputFile& other) const;

 private:
  OutputFile(std::string path, Limits limits, base::UniqueFd fd, const struct stat& st);
  // How many bytes of `data` fit into the current file; whole lines if possible.
  std::size_t Room(std::string_view data) const;
  void WritePart(std::string_view data);
  void Rotate();
  bool WasMoved() const;  // true if the user has moved or deleted the file
  // Continues in the file that now has the path, or in a new one. Returns false on failure.
  bool Reopen(int flags);

  std::string path_;
  Limits limits_;
  base::UniqueFd fd_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::int64_t size_ = 0;
  std::int64_t dropped_bytes_ = 0;
  int last_error_ = 0;
};

// Keeps the last bytes of a stream in a fixed amount of memory.
class Tail {
 public:
  explicit Tail(std::size_t capacity) : capacity_(capacity) {}
  void Append(std::string_view data);
  std::string Text() const;

 private:
  std::size_t capacity_;
  std::string ring_;      // grows to capacity_, then used as a ring
  std::size_t next_ = 0;  // position of the oldest byte, once the ring is full
};

}  // namespace carma::task
