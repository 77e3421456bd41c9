// The last output of a task, if its standard error or output is a file.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace carma::slurm {

// A file opened by the task; plain data, shared between slurmstepd and the task's process.
struct OpenFile {
  char path[4096] = "";  // empty: no file
  dev_t device = 0;      // 0: not known
  ino_t inode = 0;
};

// Records the calling process's open file with that number.
void NoteOpenFile(int fd, OpenFile& file);
// Parses "INODE PATH"; empty for other texts.
OpenFile FileOf(const std::string& text);
// The file's last bytes, read by a child with the rights of that user and these groups; a file that
// has replaced it is not read. Gives up after three seconds, because the user may stop the child,
// and the file system may hang.
std::string TailOf(const OpenFile& file, uid_t uid, gid_t gid,
                   const std::vector<gid_t>& groups = {});
// Reads what a child writes there until its end. After the limit it is killed, and abandoned if the
// kernel does not release it.
std::string ReadOfChild(pid_t child, int from, int limit_ms);

}  // namespace carma::slurm
