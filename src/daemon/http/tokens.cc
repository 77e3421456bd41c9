#include "daemon/http/tokens.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/fields_json.h"
#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/try.h"

namespace carma::daemon {
namespace {

using base::Json;

constexpr std::size_t kMaxFileBytes = 16 << 20;
// The prefix by which people and secret scanners recognise tokens.
constexpr std::string_view kPrefix = "carma_";

std::string HashOf(std::string_view text) {
  base::Sha256 hash;
  hash.Add(text);
  return hash.FinishHex();
}

Result<std::string> NewText() {
  std::array<std::uint64_t, 4> chance{};
  if (::getrandom(chance.data(), sizeof chance, 0) != static_cast<ssize_t>(sizeof chance))
    return FailErrno(errno, "getrandom");
  std::string text(kPrefix);
  for (const std::uint64_t each : chance) text += fmt::format("{:016x}", each);
  return text;
}

Json FileOf(const std::vector<Token>& tokens, std::int64_t last_id) {
  Json list = Json::array();
  for (const Token& token : tokens)
    list.push_back(base::FieldsToJson(token, base::Absent::kLeftOut));
  return {{"last_id", last_id}, {"tokens", std::move(list)}};
}

}  // namespace

Tokens::Tokens(std::string state_dir, std::function<std::int64_t()> now_ms)
    : path_(std::move(state_dir) + "/tokens.json"), now_ms_(std::move(now_ms)) {}

Result<Unit> Tokens::Load() {
  const Result<std::string> text = base::ReadFile(path_, kMaxFileBytes);
  if (!text && text.error().code == ErrorCode::kNotFound) {
    trouble_.clear();
    return Unit{};
  }
  const auto corrupt = [this](const base::Error& why) {
    trouble_ = why.message;
    return Fail(ErrorCode::kCorrupt, "{}: {}", path_, why.message);
  };
  if (!text) return corrupt(text.error());
  const Result<Json> json = base::ParseJson(*text);
  if (!json) return corrupt(json.error());
  base::JsonReader in(*json, "");
  std::int64_t last_id = 0;
  in.Get("last_id", last_id, 0, INT64_MAX);
  const Json* list = in.Raw("tokens");
  if (list == nullptr || !list->is_array()) in.Complain("tokens", "a list");
  if (in.error()) return corrupt(*in.error());
  std::vector<Token> tokens;
  for (const Json& each : *list) {
    Result<Token> token = base::FieldsFromJson<Token>(each, "/tokens", base::Unknown::kPassedOver);
    if (!token) return corrupt(token.error());
    tokens.push_back(*std::move(token));
  }
  tokens_ = std::move(tokens);
  last_id_ = last_id;
  trouble_.clear();
  return Unit{};
}

Result<Unit> Tokens::Keep(std::vector<Token> tokens) {
  // Removes expired tokens on each change.
  std::erase_if(tokens, [now = now_ms_()](const Token& token) { return token.expires_ms <= now; });
  const std::string text = base::DumpJson(FileOf(tokens, last_id_)) + "\n";
  CARMA_TRY(base::WriteFileAtomic(path_, text, 0600));
  tokens_ = std::move(tokens);
  return Unit{};
}

Result<Tokens::Made> Tokens::Make(const api::Peer& peer, const std::string& user,
                                  const std::string& name, std::chrono::milliseconds life) {
  if (!trouble_.empty()) return Unavailable("{}: {}", path_, trouble_);
  if (List(peer.uid).size() >= kMostOfOneUser)
    return Conflict("a user may have at most {} tokens; revoke one first", kMostOfOneUser);
  std::string text = CARMA_TRY(NewText());
  Made made;
  made.text = std::move(text);
  made.token = {.id = ++last_id_,
                .uid = peer.uid,
                .gid = peer.gid,
                .user = user,
                .name = name,
                .hash = HashOf(made.text),
                .created_ms = now_ms_(),
                .expires_ms = now_ms_() + life.count()};
  std::vector<Token> tokens = tokens_;
  tokens.push_back(made.token);
  CARMA_TRY(Keep(std::move(tokens)));
  return made;
}

Result<Unit> Tokens::Revoke(std::int64_t id, std::optional<std::uint32_t> by_uid) {
  std::vector<Token> tokens = tokens_;
  const std::size_t gone = std::erase_if(tokens, [&](const Token& token) {
    return token.id == id && (!by_uid || token.uid == *by_uid);
  });
  if (gone == 0) return NotFound("you have no token {}", id);
  return Keep(std::move(tokens));
}

std::vector<Token> Tokens::List(std::optional<std::uint32_t> of_uid) const {
  std::vector<Token> list;
  std::copy_if(tokens_.begin(), tokens_.end(), std::back_inserter(list),
               [&, now = now_ms_()](const Token& token) {
                 return token.expires_ms > now && (!of_uid || token.uid == *of_uid);
               });
  return list;
}

std::optional<api::Peer> Tokens::Find(std::string_view text) const {
  if (!text.starts_with(kPrefix)) return std::nullopt;
  const std::string hash = HashOf(text);
  const auto found =
      std::ranges::find_if(tokens_, [&](const Token& token) { return token.hash == hash; });
  if (found == tokens_.end() || found->expires_ms <= now_ms_()) return std::nullopt;
  return api::Peer{.uid = found->uid, .gid = found->gid, .token_of = found->user};
}

}  // namespace carma::daemon
