#include "gpu/dmon_reader.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/pidfd.h"
#include "base/spawn.h"

namespace carma::gpu {
namespace {

// Keeps a child that writes endlessly from delaying the readings.
constexpr std::size_t kMaxBytesPerPoll = 1 << 20;
constexpr int kLastWaitMs = 1'000;

}  // namespace

DmonReader::~DmonReader() {
  if (child_ > 0) {
    ::kill(-child_, SIGKILL);
    ended_.push_back(child_);
  }
  for (const pid_t pid : ended_) {
    const base::UniqueFd handle = base::OpenPidfd(pid);
    pollfd waiting{handle.get(), POLLIN, 0};
    if (handle) ::poll(&waiting, 1, kLastWaitMs);
  }
  Reap();
}

void DmonReader::Reap() {
  std::erase_if(ended_, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
}

void DmonReader::Start(base::Time now) {
  Result<base::Pipe> pipe = base::MakePipe(false);
  if (!pipe) {
    trouble_ = options_.program + ": " + pipe.error().message;
    next_start_ = now + options_.longest_pause;
    return;
  }
  output_ = std::move(pipe->read);
  parser_ = DmonParser(fields_);
  gave_rows_ = false;
  last_row_ = now;
  // The child gets its own process group so that its children can be killed too. If this process
  // dies, SIGPIPE kills the child when it writes its next row.
  auto child = base::Spawn({options_.program, "dmon", "-e", DmonFieldList(fields_), "-d",
                            std::to_string(options_.period.count())},
                           {.files = {"/dev/null", pipe->write.get(), pipe->write.get()}});
  if (!child)
    return Stop(now, options_.program + " cannot be started: " + std::strerror(child.error()));
  child_ = child->pid;
}

void DmonReader::Stop(base::Time now, const std::string& why) {
  if (child_ > 0) {
    ::kill(-child_, SIGKILL);
    ended_.push_back(std::exchange(child_, 0));
  }
  output_.reset();
  trouble_ = why + (parser_.remark().empty() ? "" : ": " + parser_.remark());
  pause_ = gave_rows_ || pause_.count() == 0 ? options_.first_pause
                                             : std::min(2 * pause_, options_.longest_pause);
  next_start_ = now + pause_;
}

bool DmonReader::RequestFewer() {
  if (gave_rows_ || !parser_.remark().contains("not supported")) return false;
  // After the shortest list, the longest is tried again, because DCGM may have been updated.
  fields_ = fields_ == DmonFields::kAll      ? DmonFields::kCommon
            : fields_ == DmonFields::kCommon ? DmonFields::kFew
                                             : DmonFields::kAll;
  return fields_ != DmonFields::kAll;
}

void DmonReader::Keep(const std::vector<DmonRow>& rows, base::Time now) {
  for (const DmonRow& row : rows) {
    if (row.kind != DmonRow::Kind::kGpu) continue;
    gave_rows_ = true;
    last_row_ = now;
    trouble_.clear();
    if (row.pci.empty()) {
      by_number_[row.id] = {row, now};
    } else {
      by_pci_[row.pci] = {row, now};
    }
  }
}

bool DmonReader::ReadAll(base::Time now, bool keep) {
  std::array<char, 16'384> buffer;
  for (std::size_t total = 0; total < kMaxBytesPerPoll;) {
    const ssize_t got = ::read(output_.get(), buffer.data(), buffer.size());
    if (got == 0) return false;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    total += static_cast<std::size_t>(got);
    const std::vector<DmonRow> rows = parser_.Feed({buffer.data(), static_cast<std::size_t>(got)});
    if (keep) Keep(rows, now);
  }
  return true;
}

void DmonReader::Poll(base::Time now) {
  Reap();
  const bool looked_away = running() && now - last_poll_ > FreshFor();
  last_poll_ = now;
  if (!running()) {
    if (now >= next_start_) Start(now);
    if (!running()) return;
  }
  if (looked_away) last_row_ = now;  // restarts the silence timer
  if (!ReadAll(now, !looked_away)) {
    Stop(now, options_.program + " dmon has ended");
    // Starts at once, because the list of GPUs is waiting for the first row.
    if (RequestFewer()) Start(now);
    return;
  }
  if (now - last_row_ >= options_.silence) {
    Stop(now, options_.program + " dmon has been silent for " +
                  std::to_string(options_.silence.count() / 1'000) + " s");
  }
}

void DmonReader::Wait(std::chrono::milliseconds longest) const {
  pollfd waiting{output_.get(), POLLIN, 0};
  ::poll(&waiting, output_ ? 1 : 0, static_cast<int>(longest.count()));
}

const DmonRow* DmonReader::Find(const std::string& pci_key, std::size_t index,
                                base::Time now) const {
  const Kept* kept = nullptr;
  if (const auto found = by_pci_.find(pci_key); found != by_pci_.end()) {
    kept = &found->second;
  } else if (const auto numbered = by_number_.find(static_cast<int>(index));
             numbered != by_number_.end()) {
    kept = &numbered->second;
  }
  return kept && now - kept->taken <= FreshFor() ? &kept->row : nullptr;
}

}  // namespace carma::gpu
