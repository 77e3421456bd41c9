#include "task/shim/output_pump.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/spawn.h"

namespace carma::task {
namespace {

using base::Result;
using base::UniqueFd;

constexpr std::size_t kBufferBytes = 65'536;  // a pipe's usual capacity
constexpr int kMaxFinalMoves = 32;            // 1 MiB of each stream, the largest common capacity

}  // namespace

OutputPump::OutputPump(OutputFile out, std::optional<OutputFile> err)
    : out_(std::move(out)), err_(std::move(err)), buffer_(kBufferBytes, '\0') {}

Result<OutputPump> OutputPump::Open(const ShimOrder& order) {
  const OutputFile::Limits limits{order.max_output_bytes, order.output_rotations};
  const bool append = order.attempt > 1 || order.spec.append_output;
  Result<OutputFile> out = OutputFile::Open(order.spec.stdout_path, append, limits);
  if (!out) return std::unexpected(out.error());
  std::optional<OutputFile> err;
  if (order.spec.stderr_path != order.spec.stdout_path) {
    Result<OutputFile> other = OutputFile::Open(order.spec.stderr_path, append, limits);
    if (!other) return std::unexpected(other.error());
    if (!other->SameFile(*out)) err = std::move(*other);
  }
  OutputPump pump(std::move(*out), std::move(err));
  for (std::size_t stream = 0; stream < 2; ++stream) {
    Result<base::Pipe> pipe = base::MakePipe(false);
    if (!pipe) return std::unexpected(pipe.error());
    pump.pipes_[stream] = std::move(pipe->read);
    pump.task_ends_[stream] = std::move(pipe->write);
  }
  return pump;
}

void OutputPump::CloseTaskEnds() {
  for (UniqueFd& end : task_ends_) end.reset();
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
  if (stream == 1) tail_.Append(data);
  (stream == 1 && err_ ? *err_ : out_).Write(data);
  return true;
}

void OutputPump::Finish() {
  for (int stream = 0; stream < 2; ++stream) {
    for (int i = 0; i < kMaxFinalMoves && Move(stream);) ++i;
    pipes_[static_cast<std::size_t>(stream)].reset();
  }
  out_.Close();
  if (err_) err_->Close();
}

std::int64_t OutputPump::DroppedBytes() const {
  return out_.dropped_bytes() + (err_ ? err_->dropped_bytes() : 0);
}

}  // namespace carma::task
