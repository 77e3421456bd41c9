// The end of what a task wrote to its standard error, where that is a file.
#pragma once

#include <sys/types.h>

#include <string>

namespace carma::slurm {

// A file as the task has it open; plain data, shared between slurmstepd and the task's process.
struct ErrorFile {
  char path[4096] = "";  // empty: it is none
  dev_t device = 0;
  ino_t inode = 0;
};

// Of standard error of the process that calls.
void NoteErrorFile(ErrorFile& file);
// Its last bytes, read by a child with that user's rights: another file in its place is not read.
std::string TailOf(const ErrorFile& file, uid_t uid, gid_t gid);

}  // namespace carma::slurm
