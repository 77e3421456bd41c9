// `carma token`: creates, lists and revokes the tokens that let a browser act for a user.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "base/text.h"
#include "base/try.h"
#include "cli/calls.h"
#include "cli/client/verbs.h"
#include "cli/table.h"

namespace carma::cli {
namespace {

constexpr std::size_t kMaxTokenName = 60;  // bytes

struct CreateFlags {
  std::string name;
  std::optional<base::Duration> life;
};

Result<Unit> RunCreate(Context& context, const CreateFlags& flags) {
  if (flags.name.size() > kMaxTokenName)
    return Invalid("token name: expected at most {} bytes", kMaxTokenName);
  if (flags.life && (*flags.life < std::chrono::minutes(1) || *flags.life > std::chrono::days(366)))
    return Invalid("--expires: expected 1m to 366d");
  const auto made = CARMA_TRY(MakeToken(context.client(), flags.name, flags.life));
  const api::TokenView& token = made.value;
  Print(context, (context.json ? made.text : base::Printable(token.token, 200)) + "\n");
  if (context.json) return Unit{};
  const std::string note = fmt::format(
      "token {}, valid until {}: anyone with it can cancel, hold and read your tasks; it is shown "
      "only once",
      token.id, base::FormatTime(base::FromMs(token.expires_ms)));
  std::fprintf(context.err, "carma: %s\n", note.c_str());
  return Unit{};
}

void RunList(Context& context, bool all) {
  const auto tokens = ListTokens(context.client(), all);
  if (!tokens) return context.Fail(tokens.error());
  if (context.json) return Print(context, tokens->text + "\n");
  Table table({{"TOKEN", true}, {"USER", false, 6}, {"NAME", false, 8}, {"MADE"}, {"UNTIL"}});
  for (const api::TokenView& token : tokens->value) {
    table.Add({{std::to_string(token.id)},
               {token.user.empty() ? std::to_string(token.uid) : base::Printable(token.user, 32)},
               {base::Printable(token.name, kMaxTokenName)},
               {base::FormatTime(base::FromMs(token.created_ms))},
               {base::FormatTime(base::FromMs(token.expires_ms))}});
  }
  Print(context, table.Text(ScreenOf(context.out)));
}

}  // namespace

void AddTokenCommand(Syntax app, Context& context) {
  const Syntax verb = app.AddVerb("token", "Manage tokens that let a browser act for you over TCP");
  verb.NeedsVerb();
  verb.Footer(
      "  carma token create laptop --expires 7d\n"
      "  carma token list\n"
      "  carma token revoke 3\n"
      "The web page asks for a token (docs/use/page.md). Anyone with it can cancel, hold, release\n"
      "and requeue your tasks, lower their priority and read their output, but cannot submit.\n"
      "Every verb also takes --json and --socket PATH.");
  auto flags = std::make_shared<CreateFlags>();
  const Syntax create = verb.AddVerb("create", "Create a token and print it once");
  create.AddOption("name", "", flags->name, "a name for the token");
  create.AddSpan("--expires", flags->life, "how long the token is valid: 12h, 7d … (default: 30d)");
  create.OnRun([&context, flags] { context.Report(RunCreate(context, *flags)); });

  auto all = std::make_shared<bool>(false);
  const Syntax list = verb.AddVerb("list", "List your tokens, without their secrets");
  list.AddFlag("--all", *all, "tokens of all users (administrators)");
  list.OnRun([&context, all] { RunList(context, *all); });

  auto tokens = std::make_shared<std::vector<std::string>>();
  const Syntax revoke = verb.AddVerb("revoke", "Revoke tokens immediately");
  revoke.AddOption("tokens", "", *tokens, "token numbers, as shown by list").Required();
  revoke.OnRun([&context, tokens] { EndEach(context, *tokens, "Token", "revoke"); });
}

}  // namespace carma::cli
