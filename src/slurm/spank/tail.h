// The end of a task's output, if its standard error or standard output is a file.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace carma::slurm {

// A file opened by the task. Plain data, because slurmstepd and the task's process share it.
struct OpenFile {
  char path[4096] = "";  // empty: no file
  dev_t device = 0;      // 0: not known
  ino_t inode = 0;
};

// Records the file that the calling process has open as `fd`.
void NoteOpenFile(int fd, OpenFile& file);
// Parses "INODE PATH". Returns an empty OpenFile for other texts.
OpenFile FileOf(const std::string& text);
// Returns the file's last bytes, read by a child with the rights of that user and these groups. A
// file that has replaced it is not read. Gives up after three seconds, because the user may stop
// the child and the file system may hang.
std::string TailOf(const OpenFile& file, uid_t uid, gid_t gid,
                   const std::vector<gid_t>& groups = {});
// Reads the child's output from the descriptor `from` until the child ends. After the limit the
// child is killed, and abandoned if the kernel does not release it.
std::string ReadOfChild(pid_t child, int from, int limit_ms);

}  // namespace carma::slurm
