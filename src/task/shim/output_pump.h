// Copies a task's two streams to its files, and to the terminal of `carma run`.
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

// Every call except the constructor needs the privileges of the task's user. Memory usage is
// constant. A slow disk makes the task wait, but a full one does not.
class OutputPump {
 public:
  // The first attempt truncates its files; later attempts append to them. Streams with equal paths
  // share one writer. attachment: must outlive this object; null if the task does not run under
  // `carma run`.
  static Result<OutputPump> Open(const ShimOrder& order, Attachment* attachment = nullptr);

  // The task's end of a stream: 0 is stdout, 1 is stderr. A terminal serves as both.
  int task_end(int stream) const;
  void CloseTaskEnds();
  // Descriptor for poll(); -1 once the stream has ended, or while its receiver is not ready.
  int poll_fd(int stream) const;
  // Moves at most one buffer of available data, so that both streams make progress. Returns false
  // if there is none.
  bool Move(int stream);
  // Reads what is left once all of the task's writers are gone, then closes the files. Reads a
  // limited amount, because a process outside the task may hold the pipe open and keep writing.
  void Finish();
  // Adds a line from the shim itself to the task's stderr.
  void Note(std::string_view line);

  // Passes all output from now on to `progress`, which must outlive this object.
  void Show(ProgressFile& progress) { progress_ = &progress; }
  // Null if progress is not tracked.
  ProgressFile* progress() const { return progress_; }

  std::string StderrTail() const { return tail_.Text(); }
  std::int64_t DroppedBytes() const;
  int WriteError() const;  // errno of the last dropped bytes; 0: none were dropped

 private:
  OutputPump(OutputFile out, std::optional<OutputFile> err, Attachment* attachment);
  // Creates a pipe for each stream, or uses the attachment's terminal for both.
  Result<Unit> MakePipes();
  bool has_terminal() const { return attachment_ != nullptr && attachment_->has_terminal(); }

  OutputFile out_;
  std::optional<OutputFile> err_;  // empty: stderr goes to out_
  Attachment* attachment_;
  ProgressFile* progress_ = nullptr;
  Tail tail_{kStderrTailBytes};
  std::array<base::UniqueFd, 2> pipes_;
  std::array<base::UniqueFd, 2> task_ends_;
  std::string buffer_;
};

}  // namespace carma::task
