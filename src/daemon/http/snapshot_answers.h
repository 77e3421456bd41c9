// Builds slow responses from the daemon's memory in a forked copy of the process. The copy has the
// state at the time of the fork and does not delay other calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/result.h"
#include "daemon/http/routes.h"

namespace carma::daemon {

// Builds the response in the copy, or in this process if there is little data. Must only read
// memory, because the copy has no other threads and no descriptors (no store, file or log).
using MakeAnswer = std::function<Answer()>;
// Called on the loop when it is the request's turn. Returns the function that builds the response.
// An error becomes the response.
using PrepareAnswer = std::function<Result<MakeAnswer>()>;
// Makes a PrepareAnswer that calls `read` on the loop. The response is then built by calling
// `write` with the data that was read.
template <class Read, class Write>
PrepareAnswer ReadThenWrite(Read read, Write write) {
  return [read = std::move(read), write = std::move(write)]() -> Result<MakeAnswer> {
    auto what = read();
    if (!what) return std::unexpected(what.error());
    return [write, what = *std::move(what)] { return write(what); };
  };
}
// Requests a response for a user. An empty `uid` means that the user is unknown.
using AnswerAside = std::function<void(std::optional<std::uint32_t> uid, PrepareAnswer prepare,
                                       std::function<void(Answer)> send)>;

// An AnswerAside that builds the response immediately, in this process.
void AnswerAtOnce(std::optional<std::uint32_t> uid, const PrepareAnswer& prepare,
                  const std::function<void(Answer)>& send);
// The user who made the call; users take turns. Empty if unknown.
inline std::optional<std::uint32_t> AskerOf(const Call& call) {
  return call.request.peer ? std::optional(call.request.peer->uid) : call.request.counted_as;
}

struct SnapshotAnswersOptions {
  std::size_t at_once = 2;   // number of simultaneous copies
  std::size_t waiting = 32;  // limit on one user's waiting requests
  std::chrono::nanoseconds limit = std::chrono::seconds(20);  // time limit for one copy
};

// Used only on the loop's thread. Handles each user's requests one after another; users take turns.
class SnapshotAnswers {
 public:
  // is_small: returns true if there is so little data that building the response is faster than
  // forking.
  SnapshotAnswers(boost::asio::io_context& loop, std::function<bool()> is_small,
                  SnapshotAnswersOptions options = {});
  // Abandons work in progress. Its requests get no response.
  ~SnapshotAnswers();
  SnapshotAnswers(const SnapshotAnswers&) = delete;
  SnapshotAnswers& operator=(const SnapshotAnswers&) = delete;

  // An AnswerAside. `send` gets kUnavailable if the user has too many waiting requests, if no
  // process can be created, or if the response takes too long.
  void Ask(std::optional<std::uint32_t> uid, PrepareAnswer prepare,
           std::function<void(Answer)> send);

 private:
  struct Question {
    PrepareAnswer prepare;
    std::function<void(Answer)> send;
  };
  struct User {
    std::deque<Question> waiting;
    bool busy = false;  // one of its requests is in progress
  };
  class Copy;

  void StartNext();
  void Start(std::optional<std::uint32_t> uid);
  void End(std::list<std::unique_ptr<Copy>>::iterator copy, Answer answer);

  boost::asio::io_context& loop_;
  std::function<bool()> is_small_;
  const SnapshotAnswersOptions options_;
  std::map<std::optional<std::uint32_t>, User> users_;
  std::deque<std::optional<std::uint32_t>> turns_;  // users with a request that may begin
  std::list<std::unique_ptr<Copy>> copies_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace carma::daemon
