// Notifications about a task: --notify TARGET[:EVENTS].
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "base/words.h"

namespace carma::task {

enum class NotifyEvent {
  kStart,        // the task's process has started
  kEnd,          // the task has ended, whatever the outcome
  kFail,         // the task neither succeeded nor was cancelled
  kOutOfMemory,  // an attempt ran out of GPU memory, whether or not it is retried
  kRequeue,      // the task was requeued for a reason other than GPU memory
};
inline constexpr std::array<std::pair<NotifyEvent, std::string_view>, 5> kNotifyEventWords{{
    {NotifyEvent::kStart, "start"},
    {NotifyEvent::kEnd, "end"},
    {NotifyEvent::kFail, "fail"},
    {NotifyEvent::kOutOfMemory, "oom"},
    {NotifyEvent::kRequeue, "requeue"},
}};

enum class NotifyKind { kMail, kWebhook, kProgram };
inline constexpr std::array<std::pair<NotifyKind, std::string_view>, 3> kNotifyKindWords{{
    {NotifyKind::kMail, "mail"},
    {NotifyKind::kWebhook, "webhook"},
    {NotifyKind::kProgram, "program"},
}};

// The message format of a webhook.
enum class WebhookForm { kJson, kSlack, kDiscord, kMatrix, kNtfy };
inline constexpr std::array<std::pair<WebhookForm, std::string_view>, 5> kWebhookFormWords{{
    {WebhookForm::kJson, "json"},
    {WebhookForm::kSlack, "slack"},
    {WebhookForm::kDiscord, "discord"},
    {WebhookForm::kMatrix, "matrix"},
    {WebhookForm::kNtfy, "ntfy"},
}};

inline constexpr std::size_t kMaxNotifyRules = 8;
inline constexpr std::size_t kMaxNotifyTargetBytes = 2048;

struct NotifyTarget {
  NotifyKind kind = NotifyKind::kMail;
  // For mail: "ada@lab.org", a local user name, or empty for the task's own user. For a webhook:
  // the URL. For a program: its absolute path.
  std::string address;
  WebhookForm form = WebhookForm::kJson;  // only for webhooks
  friend bool operator==(const NotifyTarget&, const NotifyTarget&) = default;
};
// Parses "me", "ada@lab.org", "mail:ada", "https://…" (in the format of a known host),
// "slack+https://…" or "/home/ada/notify". Returns kInvalid with a one-line message otherwise.
Result<NotifyTarget> ParseNotifyTarget(std::string_view text);
// The part of a target that other users may see. For a URL, that is the scheme, host and port; the
// rest is secret.
std::string ShownTarget(std::string_view text);

struct NotifyRule {
  std::string target;
  std::vector<std::string> events = {"end"};
  bool each_task = false;  // for arrays: one notice per task; otherwise one per event

  static void VisitFields(auto& field, auto& rule) {
    field("target", rule.target,
          "The target: me, an email address, [FORM+]http(s)://… with FORM json, slack, discord, "
          "matrix or ntfy, or the absolute path of a program.",
          {.max_bytes = kMaxNotifyTargetBytes,
           .fits = base::Parses<ParseNotifyTarget>,
           .required = true,
           .expected = "me, an email address, an http or https URL, or the path of a program"});
    field("events", rule.events,
          "Events that trigger a notification: start, end, fail, oom, requeue.",
          {.max_bytes = 16,
           .max_items = 5,
           .fits = IsEvent,
           .expected = "a list of one or more of start, end, fail, oom and requeue"});
    field("each_task", rule.each_task,
          "For an array: send one notification per task instead of one for the whole array.",
          {.unless_empty = true});
  }
  friend bool operator==(const NotifyRule&, const NotifyRule&) = default;

 private:
  static bool IsEvent(std::string_view text);
};
// Parses "TARGET" or "TARGET:end,fail". If the target is a path, it may be relative. Returns
// kInvalid for any other text.
Result<NotifyRule> ParseNotifyRule(std::string_view text);
// Returns true if the rule covers this event.
bool Wants(const NotifyRule& rule, NotifyEvent event);
// The rule without secrets, such as "me: end, fail".
std::string ShownRule(const NotifyRule& rule);

// The value of Slurm's --mail-type: events, and words that have no effect in CARMA.
struct MailTypes {
  std::vector<std::string> events;
  bool each_task = false;
  std::vector<std::string> passed_over;
};
// Returns kInvalid for a word that Slurm does not define.
Result<MailTypes> ParseMailTypes(std::string_view text);

}  // namespace carma::task

namespace carma {
template <>
inline constexpr base::Words<task::NotifyEvent> base::kWordsOf<task::NotifyEvent> =
    task::kNotifyEventWords;
template <>
inline constexpr base::Words<task::NotifyKind> base::kWordsOf<task::NotifyKind> =
    task::kNotifyKindWords;
template <>
inline constexpr base::Words<task::WebhookForm> base::kWordsOf<task::WebhookForm> =
    task::kWebhookFormWords;
}  // namespace carma
