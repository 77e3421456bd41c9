#include "daemon/http/slow_answers.h"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

namespace carma::daemon {

namespace {
constexpr int kReportNice = 10;
}  // namespace

SlowAnswers::SlowAnswers(const std::shared_ptr<boost::asio::io_context>& loop,
                         std::function<void()> report_sent, SlowAnswersOptions options)
    : options_(options),
      report_sent_(std::move(report_sent)),
      bodies_(loop, BackgroundWorker::AtEnd::kWait),
      files_(loop, BackgroundWorker::AtEnd::kLeave),
      reports_(loop, BackgroundWorker::AtEnd::kWait) {}

Result<Unit> SlowAnswers::Report(std::function<Answer(const std::atomic<bool>& wanted)> make,
                                 std::function<void(Answer)> send) {
  if (reports_.waiting() >= options_.most_reports)
    return Unavailable("{} reports are already being built; try again", reports_.waiting());
  reports_.Ask(
      [make = std::move(make), wanted = reports_.wanted()] {
        // Lowers the priority of this thread only, so that the loop's thread gets the CPU first.
        ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kReportNice);
        return make(*wanted);
      },
      [this, send = std::move(send)](Answer answer) {
        send(std::move(answer));
        report_sent_();
      });
  return Unit{};
}

void SlowAnswers::ReadFile(std::function<Answer()> read, std::function<void(Answer)> then) {
  if (files_.waiting() >= options_.most_files)
    return then(Unavailable("too many files are being read; try again"));
  // The thread has already been abandoned if an earlier read on it also timed out.
  const auto late = [this, then, before = files_.abandoned()] {
    if (files_.abandoned() == before) files_.Abandon();
    then(Unavailable("the disk holding the task's output is not responding"));
  };
  const auto in_time = files_.Within(options_.file_limit, late);
  files_.Ask(std::move(read), [in_time, then](Answer answer) {
    if (in_time()) then(std::move(answer));
  });
}

void SlowAnswers::ReadBody(std::function<void()> read, std::function<void()> then) {
  bodies_.Ask(
      [read = std::move(read)] {
        read();
        return true;
      },
      [then = std::move(then)](bool) { then(); });
}

}  // namespace carma::daemon
