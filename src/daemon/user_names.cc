#include "daemon/user_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <utility>
#include <vector>

namespace carma::daemon {

using Clock = std::chrono::steady_clock;

struct UserNames::User {
  explicit User(boost::asio::io_context& loop) : limit(loop) {}
  std::optional<std::string> name;
  Clock::time_point good_until{};
  bool asked = false;  // and the worker has not answered
  std::vector<Call> waiting;
  boost::asio::steady_timer limit;
};

UserNames::UserNames(std::shared_ptr<boost::asio::io_context> loop, UserNamesOptions options)
    : loop_(std::move(loop)), alive_(std::make_shared<bool>(true)), options_(std::move(options)) {}

UserNames::~UserNames() {
  const bool hangs = std::any_of(users_.begin(), users_.end(),
                                 [](const auto& user) { return user.second->asked; });
  if (hangs) worker_.DeclareStuck();
}

void UserNames::Ask(std::uint32_t uid, Call call) {
  std::unique_ptr<User>& known = users_[uid];
  if (!known) known = std::make_unique<User>(*loop_);
  User& user = *known;
  if (user.name && Clock::now() < user.good_until) return call(*user.name);
  user.waiting.push_back(std::move(call));
  if (user.waiting.size() == 1) {
    user.limit.expires_after(options_.limit);
    user.limit.async_wait([this, uid, &user](const boost::system::error_code& error) {
      if (!error) Answer(uid, user);
    });
  }
  if (std::exchange(user.asked, true)) return;
  worker_.Do([look_up = options_.look_up, loop = loop_, alive = std::weak_ptr(alive_), uid, this] {
    boost::asio::post(*loop, [name = look_up(uid), alive, uid, this]() mutable {
      if (!alive.expired()) Take(uid, std::move(name));
    });
  });
}

void UserNames::Take(std::uint32_t uid, std::string name) {
  User& user = *users_.at(uid);
  user.asked = false;
  user.name = std::move(name);
  user.limit.cancel();
  Answer(uid, user);
}

void UserNames::Answer(std::uint32_t uid, User& user) const {
  base::Result<std::string> name =
      base::Fail(base::ErrorCode::kUnavailable,
                 fmt::format("the user database does not say who user {} is; try again", uid));
  if (user.name) name = *user.name;
  user.good_until = Clock::now() + options_.keep;
  for (const Call& call : std::exchange(user.waiting, {})) call(name);
}

}  // namespace carma::daemon
