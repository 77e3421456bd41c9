#include "daemon/http/snapshot_answers.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

#include "base/file.h"
#include "base/spawn.h"
#include "base/text.h"
#include "daemon/loop/alarm.h"

namespace carma::daemon {
namespace {

namespace asio = boost::asio;

// Niceness of the forked copies, so that the loop gets the CPU first.
constexpr int kNice = 10;
constexpr std::size_t kReadBytes = 64 << 10;

// Writes a line "STATUS TYPE LENGTH" and then the body. The reader uses the length to check that
// the body is complete.
std::string Written(const Answer& answer) {
  const api::Response response = answer ? *answer : api::ErrorResponse(answer.error());
  return fmt::format("{} {} {}\n{}", response.status, response.content_type, response.body.size(),
                     response.body);
}

Answer Read(std::string_view said) {
  const std::size_t line = said.find('\n');
  const std::string_view head = said.substr(0, line);
  const std::vector<std::string_view> words = base::Split(head, ' ');
  const auto status = words.size() == 3 ? base::ParseInt(words[0]) : std::nullopt;
  const auto bytes = words.size() == 3 ? base::ParseInt(words[2]) : std::nullopt;
  if (line == std::string::npos || !status || !bytes ||
      said.size() != line + 1 + static_cast<std::size_t>(*bytes))
    return Fail(
        ErrorCode::kIo,
        "the process that was preparing the response exited before finishing it; try again");
  return api::Response{.status = static_cast<int>(*status),
                       .body = std::string(said.substr(line + 1)),
                       .content_type = std::string(words[1])};
}

// Builds the response in the copy and never returns. Does not destroy any objects, because all of
// them belong to the daemon.
[[noreturn]] void RunCopy(const MakeAnswer& make, int to, pid_t daemon) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != daemon) ::_exit(1);
  // Closes sockets and locks, which could otherwise stay open after the daemon has exited.
  if (to > 3) ::close_range(3, static_cast<unsigned>(to) - 1, 0);
  ::close_range(static_cast<unsigned>(to) + 1, ~0U, 0);
  ::setpriority(PRIO_PROCESS, 0, kNice);
  const rlimit no_core{};
  ::setrlimit(RLIMIT_CORE, &no_core);
  const bool sent = base::WriteAll(to, Written(make())).has_value();
  ::close(to);  // so that the reader does not wait until the copy's memory is freed
  ::_exit(sent ? 0 : 1);
}

}  // namespace

void AnswerAtOnce(std::optional<std::uint32_t>, const PrepareAnswer& prepare,
                  const std::function<void(Answer)>& send) {
  const Result<MakeAnswer> make = prepare();
  send(make ? (*make)() : std::unexpected(make.error()));
}

class SnapshotAnswers::Copy {
 public:
  Copy(asio::io_context& loop, std::optional<std::uint32_t> of, std::function<void(Answer)> to)
      : uid(of), send(std::move(to)), limit(loop), from_(loop) {}
  ~Copy() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  Result<Unit> Begin(const MakeAnswer& make) {
    Result<base::Pipe> pipe = base::MakePipe(/*blocking_read=*/false);
    if (!pipe) return Unavailable(pipe.error().message);
    const pid_t daemon = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) RunCopy(make, pipe->write.get(), daemon);
    if (pid_ < 0)
      return Unavailable("cannot start a process to prepare the response: {}",
                         std::strerror(errno));
    from_.assign(pipe->read.release());
    return Unit{};
  }
  // done: called once when the output has ended.
  void Listen(std::function<void(std::string)> done) {
    from_.async_read_some(asio::buffer(buffer_),
                          [this, done = std::move(done)](const boost::system::error_code& error,
                                                         std::size_t bytes) mutable {
                            if (error == asio::error::operation_aborted) return;
                            if (error) return done(std::move(said_));
                            said_.append(buffer_.data(), bytes);
                            Listen(std::move(done));
                          });
  }

  const std::optional<std::uint32_t> uid;
  std::function<void(Answer)> send;
  Alarm limit;

 private:
  asio::posix::stream_descriptor from_;
  std::array<char, kReadBytes> buffer_{};
  std::string said_;
  pid_t pid_ = 0;
};

SnapshotAnswers::SnapshotAnswers(asio::io_context& loop, std::function<bool()> is_small,
                                 SnapshotAnswersOptions options)
    : loop_(loop), is_small_(std::move(is_small)), options_(options) {}

SnapshotAnswers::~SnapshotAnswers() = default;

void SnapshotAnswers::Ask(std::optional<std::uint32_t> uid, PrepareAnswer prepare,
                          std::function<void(Answer)> send) {
  if (is_small_()) return AnswerAtOnce(uid, prepare, send);
  User& user = users_[uid];
  if (user.waiting.size() >= options_.waiting) {
    return send(
        Unavailable("{} of your requests are already waiting; try again", user.waiting.size()));
  }
  user.waiting.push_back({std::move(prepare), std::move(send)});
  if (!user.busy && user.waiting.size() == 1) turns_.push_back(uid);
  StartNext();
}

// Starts at most one copy per iteration of the loop, so that other calls are served in between.
void SnapshotAnswers::StartNext() {
  if (turns_.empty() || copies_.size() >= options_.at_once) return;
  asio::post(loop_, [this, alive = std::weak_ptr(alive_)] {
    if (alive.expired() || turns_.empty() || copies_.size() >= options_.at_once) return;
    const std::optional<std::uint32_t> uid = turns_.front();
    turns_.pop_front();
    Start(uid);
    StartNext();
  });
}

void SnapshotAnswers::Start(std::optional<std::uint32_t> uid) {
  User& user = users_.at(uid);
  Question question = std::move(user.waiting.front());
  user.waiting.pop_front();
  user.busy = true;
  copies_.push_back(std::make_unique<Copy>(loop_, uid, std::move(question.send)));
  const auto copy = std::prev(copies_.end());
  const Result<MakeAnswer> make = question.prepare();
  if (!make) return End(copy, std::unexpected(make.error()));
  if (const auto begun = (*copy)->Begin(*make); !begun)
    return End(copy, std::unexpected(begun.error()));
  (*copy)->Listen([this, copy](const std::string& said) { End(copy, Read(said)); });
  (*copy)->limit.Set(options_.limit, [this, copy] {
    End(copy, Unavailable("the response took too long to prepare; request less data"));
  });
}

void SnapshotAnswers::End(std::list<std::unique_ptr<Copy>>::iterator copy, Answer answer) {
  const std::unique_ptr<Copy> ended = std::move(*copy);
  copies_.erase(copy);
  const auto user = users_.find(ended->uid);
  user->second.busy = false;
  if (user->second.waiting.empty()) {
    users_.erase(user);
  } else {
    turns_.push_back(ended->uid);
  }
  ended->send(std::move(answer));
  StartNext();
}

}  // namespace carma::daemon
