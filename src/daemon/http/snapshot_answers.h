// Answers that take long to make from what the daemon has in memory: each is made by a copy of this
// process (fork), which sees everything as it stood at that moment and holds up nobody.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>

#include "base/result.h"
#include "daemon/http/routes.h"

namespace boost::asio {
class io_context;
}

namespace carma::daemon {

// Runs in the copy, or in this process where little is to be gone through: reads memory alone. The
// copy has no other thread and no descriptor: no store, file or log.
using MakeAnswer = std::function<Answer()>;
// On the loop when its turn has come; says what is to be made. Errors: the answer.
using PrepareAnswer = std::function<base::Result<MakeAnswer>()>;
// Asks for an answer on behalf of a user; empty: of nobody who is known by name.
using AnswerAside = std::function<void(std::optional<std::uint32_t> uid, PrepareAnswer prepare,
                                       std::function<void(Answer)> send)>;

// An AnswerAside without any copy.
void AnswerAtOnce(std::optional<std::uint32_t> uid, const PrepareAnswer& prepare,
                  const std::function<void(Answer)>& send);
// On behalf of which user a call asks.
inline std::optional<std::uint32_t> AskerOf(const Call& call) {
  return call.request.peer ? std::optional(call.request.peer->uid) : std::nullopt;
}

struct SnapshotAnswersOptions {
  std::size_t at_once = 2;                                    // copies
  std::size_t waiting = 32;                                   // questions of one user
  std::chrono::nanoseconds limit = std::chrono::seconds(20);  // of one copy
};

// Lives on the loop. The questions of one user are answered one after another, those of different
// users by turns.
class SnapshotAnswers {
 public:
  // is_small: there is so little to go through that a copy would cost more.
  SnapshotAnswers(boost::asio::io_context& loop, std::function<bool()> is_small,
                  SnapshotAnswersOptions options = {});
  // What is being made is given up: nobody is answered.
  ~SnapshotAnswers();
  SnapshotAnswers(const SnapshotAnswers&) = delete;
  SnapshotAnswers& operator=(const SnapshotAnswers&) = delete;

  // As AnswerAside. `send` gets kUnavailable where too many questions of this user wait, where the
  // machine gives no process, or where the answer took too long.
  void Ask(std::optional<std::uint32_t> uid, PrepareAnswer prepare,
           std::function<void(Answer)> send);

 private:
  struct Question {
    PrepareAnswer prepare;
    std::function<void(Answer)> send;
  };
  struct User {
    std::deque<Question> waiting;
    bool busy = false;  // one of its questions is being answered
  };
  class Copy;

  void StartNext();
  void Start(std::optional<std::uint32_t> uid);
  void End(std::list<std::unique_ptr<Copy>>::iterator copy, Answer answer);

  boost::asio::io_context& loop_;
  std::function<bool()> is_small_;
  const SnapshotAnswersOptions options_;
  std::map<std::optional<std::uint32_t>, User> users_;
  std::deque<std::optional<std::uint32_t>> turns_;  // of users with a question that may begin
  std::list<std::unique_ptr<Copy>> copies_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace carma::daemon
