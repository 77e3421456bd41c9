// Personal tokens. A token lets a browser or program act for a user over TCP, where the kernel does
// not identify callers. A file in the state folder stores hashes of the tokens.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/http.h"
#include "base/result.h"

namespace carma::daemon {

struct Token {
  std::int64_t id = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  // The user's name when the token was created. The UID may later belong to a different user.
  std::string user;
  std::string name;
  // SHA-256 of the token. It needs no salt and no slow hash, because tokens have 256 random bits.
  std::string hash;
  std::int64_t created_ms = 0;
  std::int64_t expires_ms = 0;

  static void VisitFields(auto& field, auto& token) {
    field("id", token.id, "", {.low = 1});
    field("uid", token.uid);
    field("gid", token.gid);
    field("user", token.user);
    field("name", token.name);
    field("hash", token.hash);
    field("created_ms", token.created_ms);
    field("expires_ms", token.expires_ms);
  }
};

class Tokens {
 public:
  static constexpr std::chrono::hours kUsualLife{30 * 24};
  static constexpr std::chrono::hours kLongestLife{366 * 24};
  static constexpr std::size_t kMostOfOneUser = 50;

  // now_ms: returns real time even on a simulated server, because browsers use real time.
  Tokens(std::string state_dir, std::function<std::int64_t()> now_ms);

  // Reads the file. Returns kCorrupt if it cannot be read or parsed. After an error, no tokens are
  // valid and none can be created.
  Result<Unit> Load();

  struct Made {
    Token token;
    std::string text;  // the token itself; returned only here
  };
  // Creates a token, which is durable when this function returns. Fails with kConflict if the user
  // has too many tokens, and with kIo if the token cannot be stored.
  Result<Made> Make(const api::Peer& peer, const std::string& user, const std::string& name,
                    std::chrono::milliseconds life);
  // by_uid: the user that must own the token, or empty for any owner. Returns kNotFound if there is
  // no such token, and kIo if the file cannot be written.
  Result<Unit> Revoke(std::int64_t id, std::optional<std::uint32_t> by_uid);
  // The valid tokens of the user `of_uid` (of all users if empty), sorted by number.
  std::vector<Token> List(std::optional<std::uint32_t> of_uid) const;
  // The owner of a token, without groups; empty if the token is unknown or has expired.
  std::optional<api::Peer> Find(std::string_view text) const;

 private:
  Result<Unit> Keep(std::vector<Token> tokens);

  std::string path_;
  std::function<std::int64_t()> now_ms_;
  std::vector<Token> tokens_;
  std::int64_t last_id_ = 0;
  std::string trouble_ = "the tokens have not been read";
};

}  // namespace carma::daemon
