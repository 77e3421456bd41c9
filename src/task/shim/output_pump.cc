#include "task/shim/output_pump.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/spawn.h"
#include "base/try.h"

namespace carma::task {
namespace {

using base::UniqueFd;

constexpr std::size_t kBufferBytes = 65'536;  // a pipe's usual capacity
// How long to wait for the user's terminal to accept the last output. The task's GPUs are freed
// only after that.
constexpr std::chrono::milliseconds kFinishPatience{10'000};
constexpr int kMaxFinalMoves = 32;  // at least 1 MiB per stream, a pipe's usual maximum

}  // namespace

OutputPump::OutputPump(OutputFile out, std::optional<OutputFile> err, Attachment* attachment)
    : out_(std::move(out)),
      err_(std::move(err)),
      attachment_(attachment),
      buffer_(attachment == nullptr ? kBufferBytes : kMaxAttachBytes, '\0') {}

Result<OutputPump> OutputPump::Open(const ShimOrder& order, Attachment* attachment) {
  const OutputFile::Limits limits{order.max_output_bytes, order.output_rotations};
  const bool append = order.attempt > 1 || order.spec.append_output;
  OutputFile out = CARMA_TRY(OutputFile::Open(order.spec.stdout_path, append, limits));
  std::optional<OutputFile> err;
  if (order.spec.stderr_path != order.spec.stdout_path) {
    OutputFile other = CARMA_TRY(OutputFile::Open(order.spec.stderr_path, append, limits));
    if (!other.SameFile(out)) err = std::move(other);
  }
  OutputPump pump(std::move(out), std::move(err), attachment);
  CARMA_TRY(pump.MakePipes());
  return pump;
}

Result<Unit> OutputPump::MakePipes() {
  if (has_terminal()) {
    pipes_[0] = attachment_->TerminalOutput();
    if (!pipes_[0]) return FailErrno(errno, "terminal");
    return Unit{};
  }
  for (std::size_t stream = 0; stream < 2; ++stream) {
    base::Pipe pipe = CARMA_TRY(base::MakePipe(false));
    pipes_[stream] = std::move(pipe.read);
    task_ends_[stream] = std::move(pipe.write);
  }
  return Unit{};
}

int OutputPump::task_end(int stream) const {
  return has_terminal() ? attachment_->task_end()
                        : task_ends_[static_cast<std::size_t>(stream)].get();
}

int OutputPump::poll_fd(int stream) const {
  const bool taken = attachment_ == nullptr || attachment_->Ready();
  return taken ? pipes_[static_cast<std::size_t>(stream)].get() : -1;
}

void OutputPump::CloseTaskEnds() {
  for (UniqueFd& end : task_ends_) end.reset();
  if (attachment_ != nullptr) attachment_->CloseTaskEnd();
}

bool OutputPump::Move(int stream) {
  UniqueFd& pipe = pipes_[static_cast<std::size_t>(stream)];
  if (!pipe) return false;
  const ssize_t n = ::read(pipe.get(), buffer_.data(), buffer_.size());
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return false;
  if (n <= 0) {
    pipe.reset();
    return false;
  }
  const std::string_view data(buffer_.data(), static_cast<std::size_t>(n));
  if (stream == 1 || has_terminal()) tail_.Append(data);
  (stream == 1 && err_ ? *err_ : out_).Write(data);
  if (progress_ != nullptr) progress_->Take(stream, data);
  if (attachment_ != nullptr)
    attachment_->Tell(
        {.kind = stream == 1 ? AttachMessage::Kind::kErrors : AttachMessage::Kind::kOutput,
         .data = std::string(data)});
  return true;
}

void OutputPump::Note(std::string_view line) {
  const std::string text = "carma: " + std::string(line) + "\n";
  tail_.Append(text);
  (err_ ? *err_ : out_).Write(text);
}

void OutputPump::Finish() {
  for (int stream = 0; stream < 2; ++stream) {
    for (int i = 0; i < kMaxFinalMoves && Move(stream);) ++i;
    pipes_[static_cast<std::size_t>(stream)].reset();
  }
  out_.Close();
  if (err_) err_->Close();
  if (attachment_ != nullptr) attachment_->Finish(kFinishPatience);
}

std::int64_t OutputPump::DroppedBytes() const {
  return out_.dropped_bytes() + (err_ ? err_->dropped_bytes() : 0);
}

int OutputPump::WriteError() const {
  return out_.last_error() != 0 || !err_ ? out_.last_error() : err_->last_error();
}

}  // namespace carma::task
