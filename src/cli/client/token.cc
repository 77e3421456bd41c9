// token: make, list and revoke the tokens with which a browser acts for a user.
#include <fmt/format.h>

#include <memory>

#include "api/token_view.h"
#include "api/url.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/calls.h"
#include "cli/client/verbs.h"
#include "cli/table.h"

namespace carma::cli {
namespace {

using base::Json;

struct CreateFlags {
  std::string name;
  std::string expires;
};

Result<std::vector<api::TokenView>> ReadTokens(const std::string& text) {
  const Result<Json> json = base::ParseJson(text);
  if (!json) return std::unexpected(json.error());
  base::JsonReader in(*json, "");
  const Json* items = in.Raw("tokens");
  if (items == nullptr || !items->is_array()) in.Complain("tokens", "a list");
  if (in.error()) return std::unexpected(*in.error());
  std::vector<api::TokenView> tokens;
  for (const Json& item : *items) {
    Result<api::TokenView> token = api::FromJson<api::TokenView>(item);
    if (!token) return std::unexpected(token.error());
    tokens.push_back(*std::move(token));
  }
  return tokens;
}

void RunCreate(Context& context, const CreateFlags& flags) {
  Json body = {{"name", flags.name}};
  if (!flags.expires.empty()) {
    const Result<base::Duration> life = base::ParseSpan(flags.expires);
    if (!life) return context.Fail(base::Wrap(life.error(), "--expires").error());
    if (*life < std::chrono::minutes(1) || *life > std::chrono::days(366))
      return context.Fail({base::ErrorCode::kInvalid, "--expires: expected 1m to 366d"});
    body["expires_s"] = life->count() / 1000;
  }
  const Result<std::string> answer =
      context.client().Call("POST", "/v1/tokens", base::DumpJson(body), kAnswerS);
  if (!answer) return context.Fail(answer.error());
  if (context.json) return Print(context, *answer + "\n");
  const Result<Json> json = base::ParseJson(*answer);
  const Result<api::TokenView> made =
      json ? api::FromJson<api::TokenView>(*json) : std::unexpected(json.error());
  if (!made) return context.Fail(made.error());
  Print(context, base::Printable(made->token, 200) + "\n");
  Warn(context, fmt::format("token {}, valid until {}: its holder may cancel, hold and read your "
                            "tasks; it is not shown again",
                            made->id, base::FormatTime(base::FromMs(made->expires_ms))));
}

void RunList(Context& context, bool all) {
  const Result<std::string> answer =
      context.client().Get(all ? "/v1/tokens?all=1" : "/v1/tokens", kAnswerS);
  if (!answer) return context.Fail(answer.error());
  if (context.json) return Print(context, *answer + "\n");
  const Result<std::vector<api::TokenView>> tokens = ReadTokens(*answer);
  if (!tokens) return context.Fail(tokens.error());
  Table table({{"TOKEN", true}, {"UID", true}, {"NAME", false, 8}, {"MADE"}, {"UNTIL"}});
  for (const api::TokenView& token : *tokens) {
    table.Add({{std::to_string(token.id)},
               {std::to_string(token.uid)},
               {base::Printable(token.name, 60)},
               {base::FormatTime(base::FromMs(token.created_ms))},
               {base::FormatTime(base::FromMs(token.expires_ms))}});
  }
  Print(context, table.Text(ScreenOf(context.out)));
}

void RunRevoke(Context& context, const std::vector<std::string>& tokens) {
  std::vector<std::string> revoked;
  for (const std::string& token : tokens) {
    const Result<std::string> answer =
        context.client().Call("POST", "/v1/tokens/" + api::Escape(token) + "/revoke", "", kAnswerS);
    if (!answer) {
      context.Fail(answer.error());
      continue;
    }
    revoked.push_back(JsonString(token));
    if (!context.json) Print(context, "Token " + base::Printable(token, 40) + " is revoked\n");
  }
  if (context.json) Print(context, JsonList(revoked) + "\n");
}

}  // namespace

void AddTokenCommand(Syntax app, Context& context) {
  const Syntax verb = app.AddVerb("token", "Manage tokens that let a browser act for you over TCP");
  verb.NeedsVerb();
  verb.Footer(
      "  carma token create laptop --expires 7d\n"
      "  carma token list\n"
      "  carma token revoke 3\n"
      "The web page asks for it (docs/use/page.md). Anyone who has it may cancel, hold, release\n"
      "and requeue your tasks, lower their priority and read their output, but not submit.\n"
      "Every verb also takes --json and --socket PATH.");
  auto flags = std::make_shared<CreateFlags>();
  const Syntax create = verb.AddVerb("create", "Create a token and print it once");
  create.AddOption("name", "", flags->name, "a name for it");
  create.AddOption("--expires", "SPAN", flags->expires,
                   "how long it is valid: 12h, 7d … (default: 30d)");
  create.OnRun([&context, flags] { RunCreate(context, *flags); });

  auto all = std::make_shared<bool>(false);
  const Syntax list = verb.AddVerb("list", "List your tokens, without their secrets");
  list.AddFlag("--all", *all, "tokens of all users (administrators)");
  list.OnRun([&context, all] { RunList(context, *all); });

  auto tokens = std::make_shared<std::vector<std::string>>();
  const Syntax revoke = verb.AddVerb("revoke", "Revoke tokens at once");
  revoke.AddOption("tokens", "", *tokens, "numbers, as shown by list").Required();
  revoke.OnRun([&context, tokens] { RunRevoke(context, *tokens); });
}

}  // namespace carma::cli
