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
      loop_(loop),
      report_sent_(std::move(report_sent)),
      bodies_(loop, BackgroundWorker::AtEnd::kWait),
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

void SlowAnswers::ReadFile(std::uint32_t uid, std::function<Answer()> read,
                           std::function<void(Answer)> then) {
  int pending = 0;
  for (const auto& [_, user] : files_) pending += user.worker.waiting();
  UserFiles& user = files_.try_emplace(uid, loop_).first->second;
  if (pending >= options_.most_files || user.worker.waiting() >= options_.most_files_of_user) {
    Tidy(uid);
    return then(Unavailable("too many files are being read; try again"));
  }
  ++user.unanswered;
  const auto answer = [this, uid, &user, then = std::move(then)](Answer answered) {
    --user.unanswered;
    Tidy(uid);
    then(std::move(answered));
  };
  // The thread has already been abandoned if an earlier read on it also timed out.
  const auto late = [&user, answer, before = user.worker.abandoned()] {
    if (user.worker.abandoned() == before) user.worker.Abandon();
    answer(Unavailable("the disk holding the task's output is not responding"));
  };
  const auto in_time = user.worker.Within(options_.file_limit, late);
  user.worker.Ask(std::move(read), [this, uid, in_time, answer](Answer answered) {
    if (in_time()) return answer(std::move(answered));
    Tidy(uid);
  });
}

void SlowAnswers::Tidy(std::uint32_t uid) {
  const auto user = files_.find(uid);
  if (user->second.unanswered == 0 && user->second.worker.waiting() == 0) files_.erase(user);
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
