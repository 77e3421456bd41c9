// The end of what a task wrote to its standard error or output, where that is a file.
#pragma once

#include <sys/types.h>

#include <string>

namespace carma::slurm {

// A file as the task has it open; plain data, shared between slurmstepd and the task's process.
struct OpenFile {
  char path[4096] = "";  // empty: it is none
  dev_t device = 0;      // 0: not known
  ino_t inode = 0;
};

// What the process that calls has open by that number.
void NoteOpenFile(int fd, OpenFile& file);
// "INODE PATH"; empty where the text is none of that.
OpenFile FileOf(const std::string& text);
// Its last bytes, read by a child with that user's rights: another file in its place is not read.
// The user may stop that child, and his file system may hang, so what is not read in three seconds
// is given up.
std::string TailOf(const OpenFile& file, uid_t uid, gid_t gid);
// What a child writes there until its end. After the limit it is killed; it is not waited for if
// the kernel does not let go of it.
std::string ReadOfChild(pid_t child, int from, int limit_ms);

}  // namespace carma::slurm
