// Carries a task's two streams to its files, and to the one who runs it in his terminal.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "task/attach/attachment.h"
#include "task/shim/output_file.h"
#include "task/shim/progress_file.h"
#include "task/shim/shim_protocol.h"

namespace carma::task {

// Every call but the constructor's needs the rights of the task's user. Memory is fixed: a flood
// of output costs a copy, and the task waits only while the disk is slow, never because it is full.
class OutputPump {
 public:
  // A first attempt empties its files, later ones append. Paths of the same file share one writer.
  // attachment: outlives this; null: nobody waits for the task.
  static base::Result<OutputPump> Open(const ShimOrder& order, Attachment* attachment = nullptr);

  // Ends for the task: index 0 is stdout, 1 is stderr. A terminal is both.
  int task_end(int stream) const;
  void CloseTaskEnds();
  // For poll(); -1 once the stream has ended, and while nobody takes what comes.
  int poll_fd(int stream) const;
  // Moves what is there, at most one buffer, so that two streams get their turns. False: nothing.
  bool Move(int stream);
  // Takes what is left when all writers of the task are gone, then closes the files. Bounded:
  // somebody outside of the task may hold its pipe open and go on writing.
  void Finish();
  // A line of ours among the task's errors.
  void Note(std::string_view line);

  // Shows it all output from now on; it outlives this.
  void Show(ProgressFile& progress) { progress_ = &progress; }
  // Null: nothing follows the output.
  ProgressFile* progress() const { return progress_; }

  std::string StderrTail() const { return tail_.Text(); }
  std::int64_t DroppedBytes() const;

 private:
  OutputPump(OutputFile out, std::optional<OutputFile> err, Attachment* attachment);
  // A pipe for each stream, or one terminal for both.
  base::Result<base::Unit> MakePipes();
  bool has_terminal() const { return attachment_ != nullptr && attachment_->has_terminal(); }

  OutputFile out_;
  std::optional<OutputFile> err_;  // empty: together with out_
  Attachment* attachment_;
  ProgressFile* progress_ = nullptr;
  Tail tail_{kStderrTailBytes};
  std::array<base::UniqueFd, 2> pipes_;
  std::array<base::UniqueFd, 2> task_ends_;
  std::string buffer_;
};

}  // namespace carma::task
