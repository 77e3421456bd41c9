// Tokens in the API.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/views.h"

namespace carma::api {

struct TokenView {
  std::int64_t id = 0;
  std::uint32_t uid = 0;
  std::string name;
  std::int64_t created_ms = 0;
  std::int64_t expires_ms = 0;
  std::string token;

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& view) {
    field("id", view.id, "Its number, by which it is revoked.", {.low = 0});
    field("uid", view.uid, "Whose it is.");
    field("name", view.name, "What its user calls it.");
    field("created_ms", view.created_ms, "When it was made, real time, ms since the epoch.");
    field("expires_ms", view.expires_ms, "When it ends.");
    field("token", view.token,
          "The token itself: told once, to whoever makes it. The daemon keeps only its hash.",
          {.unless_empty = true});
  }
};

// The caller as identified by the daemon.
struct WhoView {
  std::string user;
  std::optional<std::int64_t> uid;
  bool admin = false;
  std::string by;

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& view) {
    field("user", view.user, "User name; empty: nobody that it knows, who may only look.");
    field("uid", view.uid, "User id, of a user who is known.");
    field("admin", view.admin, "May act on everybody's tasks.");
    field("by", view.by, "How it knows.", {.words = ",socket,token"});
  }
};

}  // namespace carma::api
