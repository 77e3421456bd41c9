#include "task/describe/notify.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "base/try.h"

namespace carma::task {
namespace {

constexpr std::string_view kForms =
    "me, an email address, an http or https URL (or slack+https://… and the like), or the path of "
    "a program";

std::unexpected<base::Error> BadTarget(std::string_view text) {
  return Invalid("expected {}, not '{}'", kForms, base::Printable(text, 80));
}

// Allows printable ASCII except blanks and other characters that would make a mailer see several
// addresses.
bool IsAddress(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-/=?^_`{|}~.@";
  const auto good = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kMarks.contains(c);
  };
  return !text.empty() && text.size() <= 254 && text.front() != '-' && text.front() != '@' &&
         text.back() != '@' && std::ranges::count(text, '@') <= 1 &&
         std::ranges::all_of(text, good);
}

bool IsUrl(std::string_view text) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!text.starts_with(scheme)) continue;
    const std::string_view rest = text.substr(scheme.size());
    return !rest.empty() && rest.front() != '/' && rest.front() != '?' && rest.front() != '#' &&
           std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; }) &&
           text.find_first_of("\"\\<>{}^`|") == std::string_view::npos;
  }
  return false;
}

// The scheme, host and port of a URL, as in "https://host:1", without user name and password.
std::string OriginOf(std::string_view url) {
  const std::size_t host = url.find("://") + 3;
  const std::size_t end = std::min(url.find_first_of("/?#", host), url.size());
  std::string_view authority = url.substr(host, end - host);
  if (const std::size_t at = authority.rfind('@'); at != std::string_view::npos)
    authority.remove_prefix(at + 1);
  return std::string(url.substr(0, host)).append(authority);
}

// The default message format for a URL. Services are recognised by their host name or path.
WebhookForm UsualForm(std::string_view url) {
  const std::string origin = OriginOf(url);
  const std::string_view host = std::string_view(origin).substr(origin.find("://") + 3);
  if (host == "hooks.slack.com") return WebhookForm::kSlack;
  if (host == "discord.com" || host == "discordapp.com") return WebhookForm::kDiscord;
  if (host == "ntfy.sh") return WebhookForm::kNtfy;
  if (url.contains("/_matrix/")) return WebhookForm::kMatrix;
  return WebhookForm::kJson;
}

std::optional<NotifyTarget> WebhookOf(std::string_view text) {
  if (IsUrl(text)) return NotifyTarget{NotifyKind::kWebhook, std::string(text), UsualForm(text)};
  const std::size_t plus = text.find('+');
  if (plus == std::string_view::npos) return std::nullopt;
  const auto form = base::FromWord<WebhookForm>(text.substr(0, plus));
  const std::string_view url = text.substr(plus + 1);
  if (!form || !IsUrl(url)) return std::nullopt;
  return NotifyTarget{NotifyKind::kWebhook, std::string(url), *form};
}

bool IsPath(std::string_view text) {
  return text.contains('/') && base::IsOneLine(text);
}

// Parses the target as the user wrote it. A path may still be relative.
Result<NotifyTarget> ParseWritten(std::string_view text) {
  if (text.empty() || text.size() > kMaxNotifyTargetBytes) return BadTarget(text);
  if (text == "me") return NotifyTarget{};
  if (std::optional<NotifyTarget> webhook = WebhookOf(text)) return *std::move(webhook);
  if (text.contains("://")) return BadTarget(text);
  const bool named = text.starts_with("mail:");
  const std::string_view address = named ? text.substr(5) : text;
  if (IsAddress(address) && !address.contains('/') && (named || address.contains('@')))
    return NotifyTarget{NotifyKind::kMail, std::string(address)};
  if (IsPath(text)) return NotifyTarget{NotifyKind::kProgram, std::string(text)};
  return BadTarget(text);
}

void Add(std::vector<std::string>& events, NotifyEvent event) {
  const std::string word(base::WordOf(event));
  if (std::ranges::find(events, word) == events.end()) events.push_back(word);
}

// Parses a list of events. Empty if one of the words is not an event.
std::vector<std::string> EventsOf(std::string_view list) {
  std::vector<std::string> events;
  for (const std::string_view piece : base::Split(list, ',')) {
    const auto event = base::FromWord<NotifyEvent>(piece);
    if (!event) return {};
    Add(events, *event);
  }
  return events;
}

}  // namespace

bool NotifyRule::IsEvent(std::string_view text) {
  return base::FromWord<NotifyEvent>(text).has_value();
}

Result<NotifyTarget> ParseNotifyTarget(std::string_view text) {
  Result<NotifyTarget> target = ParseWritten(text);
  if (target && target->kind == NotifyKind::kProgram && !text.starts_with('/'))
    return BadTarget(text);
  return target;
}

std::string ShownTarget(std::string_view text) {
  const Result<NotifyTarget> target = ParseWritten(text);
  if (!target || target->kind != NotifyKind::kWebhook) return base::Printable(text, 200);
  const std::string origin = OriginOf(target->address);
  return target->address.size() == origin.size() ? origin : origin + "/…";
}

Result<NotifyRule> ParseNotifyRule(std::string_view text) {
  NotifyRule rule{.target = std::string(text)};
  const std::size_t colon = text.rfind(':');
  const std::string_view last = colon == text.npos ? "" : text.substr(colon + 1);
  // A URL's port, or other text after its last colon, must not be mistaken for events.
  if (std::vector<std::string> events = EventsOf(last); !events.empty()) {
    rule.target = text.substr(0, colon);
    rule.events = std::move(events);
    CARMA_TRY(ParseWritten(rule.target));
    return rule;
  }
  const Result<NotifyTarget> target = ParseWritten(text);
  // The colon may be part of a program's path, but a word after the last colon of a URL is probably
  // a misspelt event.
  if (target && target->kind != NotifyKind::kWebhook) return rule;
  const bool words = !last.empty() && std::ranges::all_of(last, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == ',';
  });
  if (words && ParseWritten(text.substr(0, colon)))
    return Invalid("unknown event in '{}'; use one or more of start, end, fail, oom and requeue",
                   base::Printable(last, 80));
  if (!target) return std::unexpected(target.error());
  return rule;
}

bool Wants(const NotifyRule& rule, NotifyEvent event) {
  return std::ranges::find(rule.events, base::WordOf(event)) != rule.events.end();
}

std::string ShownRule(const NotifyRule& rule) {
  return fmt::format("{}: {}{}", ShownTarget(rule.target), base::Join(rule.events, ", "),
                     rule.each_task ? " of each task" : "");
}

Result<MailTypes> ParseMailTypes(std::string_view text) {
  MailTypes types;
  for (const std::string_view piece : base::Split(text, ',')) {
    const std::string word = base::ToLower(piece);
    if (word == "none") {
      types = {};
    } else if (word == "begin") {
      Add(types.events, NotifyEvent::kStart);
    } else if (word == "end") {
      Add(types.events, NotifyEvent::kEnd);
    } else if (word == "fail" || word == "invalid_depend") {
      Add(types.events, NotifyEvent::kFail);
    } else if (word == "requeue") {
      Add(types.events, NotifyEvent::kRequeue);
    } else if (word == "all") {
      for (const NotifyEvent event :
           {NotifyEvent::kStart, NotifyEvent::kEnd, NotifyEvent::kFail, NotifyEvent::kRequeue})
        Add(types.events, event);
    } else if (word == "array_tasks") {
      types.each_task = true;
    } else if (word == "stage_out" || word.starts_with("time_limit")) {
      types.passed_over.emplace_back(piece);
    } else {
      return Invalid("expected NONE, BEGIN, END, FAIL, REQUEUE, ALL or ARRAY_TASKS, not '{}'",
                     base::Printable(piece, 40));
    }
  }
  return types;
}

}  // namespace carma::task
