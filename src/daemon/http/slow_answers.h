// Answers that are made or read on threads, for a loop that waits for none of them.
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
  int most_reports = 8;  // at once; they are made one after another
  int most_files = 32;   // of users, to be read one after another
  std::chrono::nanoseconds file_limit = std::chrono::seconds(10);
};

class SlowAnswers {
 public:
  // report_sent: called on the loop after each report; what it took is free again.
  SlowAnswers(const std::shared_ptr<boost::asio::io_context>& loop,
              std::function<void()> report_sent, SlowAnswersOptions options = {});

  // As AnswerLater.
  base::Result<base::Unit> Report(std::function<Answer(const std::atomic<bool>& wanted)> make,
                                  std::function<void(Answer)> send);
  // A file on the disk of a user's folder, which may not answer for ever: then `then` is called
  // with kUnavailable, as it is where too many are being read.
  void ReadFile(std::function<Answer()> read, std::function<void(Answer)> then);
  // Takes a large body apart.
  void ReadBody(std::function<void()> read, std::function<void()> then);

 private:
  const SlowAnswersOptions options_;
  std::function<void()> report_sent_;
  BackgroundWorker bodies_, files_, reports_;
};

}  // namespace carma::daemon
