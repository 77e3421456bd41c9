// Builds slow responses on threads, so that the loop never waits for them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "base/result.h"
#include "daemon/http/routes.h"
#include "daemon/loop/background_worker.h"

namespace carma::daemon {

struct SlowAnswersOptions {
  int most_reports = 8;  // limit on pending reports; only one is made at a time
  int most_files = 32;   // limit on pending files; only one of each user is read at a time
  int most_files_of_user = 8;
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
  // Reads a file of this user, whose disk may hang without delaying the files of other users.
  // `then` gets kUnavailable if the disk does not respond or too many files are being read.
  void ReadFile(std::uint32_t uid, std::function<Answer()> read, std::function<void(Answer)> then);
  // Parses a large body. Calls `read` on a thread, then `then` on the loop.
  void ReadBody(std::function<void()> read, std::function<void()> then);

 private:
  struct UserFiles {
    explicit UserFiles(const std::shared_ptr<boost::asio::io_context>& loop)
        : worker(loop, BackgroundWorker::AtEnd::kLeave) {}
    BackgroundWorker worker;
    int unanswered = 0;
  };
  void Tidy(std::uint32_t uid);  // ends the user's thread if it is no longer needed

  const SlowAnswersOptions options_;
  const std::shared_ptr<boost::asio::io_context> loop_;
  std::function<void()> report_sent_;
  BackgroundWorker bodies_, reports_;
  std::map<std::uint32_t, UserFiles> files_;
};

}  // namespace carma::daemon
