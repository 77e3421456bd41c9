#include "task/notify/forms.h"

#include <fmt/format.h>

#include <ctime>

#include "base/json.h"
#include "base/text.h"

namespace carma::task {
namespace {

using base::Json;

constexpr std::size_t kMaxLine = 900;  // of a header, a title or a message to people

std::string OneLine(std::string_view text) {
  return base::Printable(text, kMaxLine);
}

// Slack takes <…> and &…; for markup.
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

// The client API of Matrix takes a PUT below a number of ours, and the same one only once.
std::string MatrixUrl(const std::string& url, const std::string& key) {
  constexpr std::string_view kSend = "/send/m.room.message";
  const std::size_t query = std::min(url.find('?'), url.size());
  if (!std::string_view(url).substr(0, query).ends_with(kSend)) return "";
  return url.substr(0, query) + "/" + key + url.substr(query);
}

std::string Base64(std::string_view bytes) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k)
      three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      text += i + k <= bytes.size() ? kLetters[three >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

// RFC 2047, in words of at most 45 bytes that cut no letter in two.
std::string HeaderText(std::string_view text) {
  const bool plain = text.find_first_not_of(
                         " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`"
                         "abcdefghijklmnopqrstuvwxyz{|}~") == std::string_view::npos;
  if (plain && text.size() <= 70 && text.find("=?") == std::string_view::npos)
    return std::string(text);
  std::string encoded;
  while (!text.empty()) {
    std::size_t count = std::min<std::size_t>(45, text.size());
    while (count < text.size() && count > 1 && (text[count] & 0xC0) == 0x80) --count;
    encoded +=
        (encoded.empty() ? "=?UTF-8?B?" : "\n =?UTF-8?B?") + Base64(text.substr(0, count)) + "?=";
    text.remove_prefix(count);
  }
  return encoded;
}

std::string MailDate(base::Time now) {
  const auto seconds = static_cast<std::time_t>(base::ToMs(now) / 1000);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[64];
  // In the C locale, which programs of ours never leave.
  std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S +0000", &parts);
  return text;
}

// The message as lines "name: value", what is empty left out, moments as clocks show them.
std::string Lines(const std::string& message) {
  const base::Result<Json> json = base::ParseJson(message);
  if (!json || !json->is_object()) return "";
  std::string lines;
  for (const auto& [name, value] : json->items()) {
    if (value.is_null() || value == "" || name == "text") continue;
    if (name.ends_with("_ms") && value.is_number_integer()) {
      const base::Time moment = base::FromMs(value.get<std::int64_t>());
      lines += fmt::format("{}: {}\n", name.substr(0, name.size() - 3), base::FormatTime(moment));
      continue;
    }
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    lines += fmt::format("{}: {}\n", name, OneLine(text));
  }
  return lines;
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
                   base::Time now) {
  const std::string text = OneLine(order.text);
  return fmt::format(
      "To: {}\nSubject: {}\nDate: {}\nMessage-ID: <{}@{}>\nAuto-Submitted: auto-generated\n"
      "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n"
      "Content-Transfer-Encoding: 8bit\n\n{}\n\n{}",
      address, HeaderText(text), MailDate(now), order.key, host, text, Lines(order.message));
}

}  // namespace carma::task
