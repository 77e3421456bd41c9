#include "task/shim/progress_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/file.h"
#include "base/text.h"

namespace carma::task {
namespace {

constexpr char kProgressFile[] = "/progress";
// Large enough for any report. The file is written in place, so that a full disk or a quota cannot
// prevent later writes.
constexpr std::size_t kFileBytes = 1024;

std::int64_t NowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void ProgressFile::Open(const std::string& attempt_dir) {
  file_.reset(::open((attempt_dir + kProgressFile).c_str(),
                     O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file_ && !base::WriteAll(file_.get(), std::string(kFileBytes, ' '))) file_.reset();
}

void ProgressFile::Take(int stream, std::string_view data) {
  if (file_) tracker_.Take(stream, data);
}

std::optional<int> ProgressFile::DueInMs() const {
  const std::optional<std::int64_t> next = tracker_.NextLookMs();
  if (!next) return std::nullopt;
  // The clock may have been set back.
  return static_cast<int>(
      std::clamp<std::int64_t>(*next - NowMs(), 0, ProgressTracker::kLastGapMs));
}

void ProgressFile::LookIfDue() {
  if (DueInMs() != 0) return;
  const std::optional<ProgressReport> report = tracker_.Look(NowMs());
  if (!report) return;
  std::string text = ToText(*report);
  if (text.size() > kFileBytes) return;
  text.resize(kFileBytes, ' ');
  (void)!::pwrite(file_.get(), text.data(), text.size(), 0);
}

std::optional<ProgressReport> ReadProgressFile(const std::string& attempt_dir) {
  const Result<std::string> text = base::ReadFile(attempt_dir + kProgressFile, kFileBytes);
  if (!text || base::Trim(*text).empty()) return std::nullopt;
  const Result<ProgressReport> report = ParseProgressReport(*text);
  return report ? std::optional(*report) : std::nullopt;
}

}  // namespace carma::task
