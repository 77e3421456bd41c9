#include "task/notify/forms.h"

#include <fmt/format.h>

#include <ctime>

#include "base/base64.h"
#include "base/calendar.h"
#include "base/json.h"
#include "base/text.h"

namespace carma::task {
namespace {

using base::Json;

constexpr std::size_t kMaxLine = 900;  // bytes of a header, a title or a human-readable message

std::string OneLine(std::string_view text) {
  return base::Printable(text, kMaxLine);
}

// Escapes the text, because Slack reads <…> and &…; as markup.
std::string ForSlack(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// Matrix's client API expects a PUT to a URL that ends with a transaction ID of our choice. The
// server accepts each ID only once.
std::string MatrixUrl(const std::string& url, const std::string& key) {
  constexpr std::string_view kSend = "/send/m.room.message";
  const std::size_t query = std::min(url.find('?'), url.size());
  if (!std::string_view(url).substr(0, query).ends_with(kSend)) return "";
  return url.substr(0, query) + "/" + key + url.substr(query);
}

// Encodes a header according to RFC 2047, in words of at most 45 bytes that are split only between
// characters.
std::string HeaderText(std::string_view text) {
  const bool plain = text.find_first_not_of(
                         " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`"
                         "abcdefghijklmnopqrstuvwxyz{|}~") == std::string_view::npos;
  if (plain && text.size() <= 70 && !text.contains("=?")) return std::string(text);
  std::string encoded;
  while (!text.empty()) {
    std::size_t count = std::min<std::size_t>(45, text.size());
    while (count < text.size() && count > 1 && (text[count] & 0xC0) == 0x80) --count;
    encoded += (encoded.empty() ? "=?UTF-8?B?" : "\n =?UTF-8?B?") +
               base::EncodeBase64(text.substr(0, count)) + "?=";
    text.remove_prefix(count);
  }
  return encoded;
}

std::string MailDate(base::Time now) {
  const std::tm parts = base::PartsOf(now, /*utc=*/true);
  char text[64];
  // The text is in the C locale, because CARMA's programs never change the locale.
  std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S +0000", &parts);
  return text;
}

std::string TextIn(const Json& message, const char* name) {
  const auto found = message.find(name);
  if (found == message.end() || !found->is_string()) return "";
  return OneLine(found->get<std::string>());
}

std::string Words(const Json& message, const char* name) {
  const auto found = message.find(name);
  std::string text;
  if (found == message.end() || !found->is_array()) return text;
  for (const Json& word : *found)
    text += (text.empty() ? "" : " ") + (word.is_string() ? word.get<std::string>() : word.dump());
  return OneLine(text);
}

std::string Parameters(const Json& message) {
  const auto found = message.find("parameters");
  std::string text;
  if (found == message.end() || !found->is_object()) return text;
  for (const auto& [name, value] : found->items())
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name,
                        value.is_string() ? value.get<std::string>() : value.dump());
  return OneLine(text);
}

std::int64_t NumberIn(const Json& message, const char* name) {
  const auto found = message.find(name);
  return found != message.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

std::string MomentIn(const Json& message, const char* name) {
  const std::int64_t ms = NumberIn(message, name);
  return ms == 0 ? "" : base::FormatTime(base::FromMs(ms));
}

// Human-readable facts about the task. Unknown facts are omitted.
std::string Facts(const Json& message) {
  const std::int64_t peak_mib = NumberIn(message, "peak_mib");
  const std::int64_t attempt = NumberIn(message, "attempt");
  const std::pair<const char*, std::string> facts[] = {
      {"Command", Words(message, "command")},
      {"Parameters", Parameters(message)},
      {"Folder", TextIn(message, "workdir")},
      {"Submitted", MomentIn(message, "submitted_ms")},
      {"Started", MomentIn(message, "started_ms")},
      {"Ended", MomentIn(message, "ended_ms")},
      {"Starts", attempt > 1 ? std::to_string(attempt) : ""},
      {"Peak memory", peak_mib > 0 ? base::FormatMib(peak_mib) + " per GPU" : ""},
      {"Output", TextIn(message, "output")},
  };
  std::string text;
  for (const auto& [title, value] : facts) {
    if (!value.empty()) text += fmt::format("{:<13}{}\n", std::string(title) + ":", value);
  }
  return text;
}

Json Parsed(const std::string& message) {
  Result<Json> json = base::ParseJson(message);
  return json && json->is_object() ? *std::move(json) : Json::object();
}

constexpr std::size_t kMostOutputLines = 20;

std::string LastLines(std::string_view output) {
  std::vector<std::string_view> lines = base::Split(output, '\n');
  while (!lines.empty() && base::Trim(lines.back()).empty()) lines.pop_back();
  if (lines.size() > kMostOutputLines)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kMostOutputLines));
  std::string text;
  for (std::string_view line : lines) {
    if (const std::size_t at = line.rfind('\r'); at != line.npos && at + 1 < line.size())
      line.remove_prefix(at + 1);  // keeps the last state of a progress bar
    text += "  " + OneLine(line) + "\n";
  }
  return text.empty() ? text : "\nThe last lines of its output:\n" + text;
}

// Shortens the text so that mail clients show all of it and need not encode it.
std::string Subject(const std::string& text) {
  constexpr std::size_t kMost = 70;
  if (text.size() <= kMost) return text;
  std::size_t end = kMost - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

}  // namespace

WebhookRequest RequestOf(const NoticeOrder& order, const NotifyTarget& target) {
  WebhookRequest request{"POST", target.address, {"Content-Type: application/json"}, ""};
  const std::string text = OneLine(order.text);
  switch (target.form) {
    case WebhookForm::kJson:
      request.body = order.message;
      break;
    case WebhookForm::kSlack:
      request.body = base::DumpJson({{"text", ForSlack(text)}});
      break;
    case WebhookForm::kDiscord:
      request.body =
          base::DumpJson({{"content", text}, {"allowed_mentions", {{"parse", Json::array()}}}});
      break;
    case WebhookForm::kMatrix:
      request.body = base::DumpJson({{"msgtype", "m.text"}, {"body", text}, {"text", text}});
      if (const std::string url = MatrixUrl(target.address, order.key); !url.empty()) {
        request.method = "PUT";
        request.url = url;
      }
      break;
    case WebhookForm::kNtfy:
      request.headers = {"Content-Type: text/plain; charset=utf-8", "Title: CARMA",
                         fmt::format("Tags: {}", order.event)};
      request.body = text;
      break;
  }
  return request;
}

std::string MailOf(const NoticeOrder& order, const std::string& address, const std::string& host,
                   base::Time now, std::string_view output) {
  const std::string text = OneLine(order.text);
  return fmt::format(
      "To: {}\nSubject: {}\nDate: {}\nMessage-ID: <{}@{}>\nAuto-Submitted: auto-generated\n"
      "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n"
      "Content-Transfer-Encoding: 8bit\n\n{}\n\n{}{}",
      address, HeaderText(Subject(text)), MailDate(now), order.key, host, text,
      Facts(Parsed(order.message)), LastLines(output));
}

std::string OutputNamed(const NoticeOrder& order) {
  const Json message = Parsed(order.message);
  const auto path = message.find("output");
  return path != message.end() && path->is_string() ? path->get<std::string>() : "";
}

}  // namespace carma::task
