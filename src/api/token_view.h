// The API's views of access tokens and of the caller.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/views.h"

namespace carma::api {

struct TokenView {
  std::int64_t id = 0;
  std::uint32_t uid = 0;
  std::string user;
  std::string name;
  std::int64_t created_ms = 0;
  std::int64_t expires_ms = 0;
  std::string token;

  static void VisitFields(auto& field, auto& view) {
    field("id", view.id, "Token number, used to revoke the token.", {.low = 0});
    field("uid", view.uid, "UID of the token's user.");
    field("user", view.user, "Name of the token's user when the token was created.");
    field("name", view.name, "Name of the token, chosen by its user.");
    field("created_ms", view.created_ms,
          "When the token was created (real time, ms since the epoch).");
    field("expires_ms", view.expires_ms, "When the token expires.");
    field("token", view.token,
          "The token itself, shown only when it is created. The daemon stores only a hash of it.",
          {.unless_empty = true});
  }
};

// The caller as identified by the daemon.
struct WhoView {
  std::string user;
  std::optional<std::int64_t> uid;
  bool admin = false;
  std::string by;

  static void VisitFields(auto& field, auto& view) {
    field("user", view.user, "User name; empty if the user is unknown and has read-only access.");
    field("uid", view.uid, "UID, if the user is known.");
    field("admin", view.admin, "Whether the user may change the tasks of all users.");
    field("by", view.by, "How the user was identified.", {.words = ",socket,token"});
  }
};

}  // namespace carma::api
