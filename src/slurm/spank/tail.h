// Reads the end of a task's output if its standard error or standard output is a file.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace carma::slurm {

// A file that the task has opened. A plain struct, because slurmstepd and the task's process share
// it in memory.
struct OpenFile {
  char path[4096] = "";  // empty: no file
  dev_t device = 0;      // 0: unknown
  ino_t inode = 0;
};

// Records which file is open as descriptor `fd` of the calling process.
void NoteOpenFile(int fd, OpenFile& file);
// Parses "INODE PATH". Returns an empty OpenFile if the text has a different form.
OpenFile FileOf(const std::string& text);
// Returns the tail of the file, or as much as could be read within three seconds. It is read by a
// child process that runs as this user, with these groups, and rejects the file if it has been
// replaced. The time limit is needed because the user might stop the child or the file system might
// hang.
std::string TailOf(const OpenFile& file, uid_t uid, gid_t gid,
                   const std::vector<gid_t>& groups = {});
// Reads the child's output from the descriptor `from` until the child closes it or the limit is
// reached. Then kills the child. Does not wait for a child that the kernel does not let exit.
std::string ReadOfChild(pid_t child, int from, int limit_ms);

}  // namespace carma::slurm
