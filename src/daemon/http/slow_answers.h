// Builds slow responses on threads, so that the loop never waits for them.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

#include "base/result.h"
#include "daemon/http/routes.h"
#include "daemon/loop/background_worker.h"

namespace carma::daemon {

struct SlowAnswersOptions {
  int most_reports = 8;  // limit on pending reports; only one is made at a time
  int most_files = 32;   // limit on pending files; only one is read at a time
  std::chrono::nanoseconds file_limit = std::chrono::seconds(10);
};

class SlowAnswers {
 public:
  // report_sent: called on the loop after each report, when its memory is free again.
  SlowAnswers(const std::shared_ptr<boost::asio::io_context>& loop,
              std::function<void()> report_sent, SlowAnswersOptions options = {});

  // Builds and sends a report as described at AnswerLater.
  Result<Unit> Report(std::function<Answer(const std::atomic<bool>& wanted)> make,
                      std::function<void(Answer)> send);
  // Reads a file in a user's folder. `then` gets kUnavailable if the disk does not respond or too
  // many files are being read.
  void ReadFile(std::function<Answer()> read, std::function<void(Answer)> then);
  // Parses a large body. Calls `read` on a thread, then `then` on the loop.
  void ReadBody(std::function<void()> read, std::function<void()> then);

 private:
  const SlowAnswersOptions options_;
  std::function<void()> report_sent_;
  BackgroundWorker bodies_, files_, reports_;
};

}  // namespace carma::daemon
