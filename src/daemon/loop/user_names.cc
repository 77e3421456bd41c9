#include "daemon/loop/user_names.h"

#include <utility>

namespace carma::daemon {

UserNames::UserNames(std::shared_ptr<boost::asio::io_context> loop, UserNamesOptions options)
    : options_(std::move(options)), worker_(std::move(loop), BackgroundWorker::AtEnd::kLeave) {}

void UserNames::Ask(std::uint32_t uid, Call call) {
  User& user = users_[uid];
  // While the database hangs, only one caller in each period of `keep` has to wait.
  if (std::chrono::steady_clock::now() < user.good_until && (user.known || user.asked))
    return call(KnownNow(uid, user));
  user.waiting.push_back(std::move(call));
  if (user.waiting.size() == 1)
    user.in_time = worker_.Within(options_.limit, [this, uid, &user] { Answer(uid, user); });
  if (std::exchange(user.asked, true)) return;
  worker_.Ask([look_up = options_.look_up, uid] { return look_up(uid); },
              [this, uid, &user](Result<base::KnownUser> known) {
                user.asked = false;
                if (known) user.known = *std::move(known);
                user.in_time();
                Answer(uid, user);
              });
}

void UserNames::Answer(std::uint32_t uid, User& user) {
  user.good_until = std::chrono::steady_clock::now() + options_.keep;
  for (const Call& call : std::exchange(user.waiting, {})) call(KnownNow(uid, user));
}

Result<base::KnownUser> UserNames::KnownNow(std::uint32_t uid, const User& user) {
  if (user.known) return *user.known;
  return Unavailable("the user database has not yet responded to the lookup of UID {}; try again",
                     uid);
}

}  // namespace carma::daemon
