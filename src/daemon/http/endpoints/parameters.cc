#include "daemon/http/endpoints/parameters.h"

#include <fmt/format.h>

#include "base/calendar.h"
#include "base/json.h"
#include "base/text.h"
#include "base/try.h"
#include "core/values/task_request.h"
#include "page/files.h"
#include "report/svg.h"

namespace carma::daemon {

using base::Json;

namespace {

// How far in the past a deadline may be. The caller's clock may differ, and a simulated server's
// clock runs fast. `carma drain` itself refuses any time in the past.
constexpr base::Duration kLateDeadline{std::chrono::hours(1)};

}  // namespace

std::int64_t QueryReader::Number(std::string_view key, std::int64_t fallback, std::int64_t low,
                                 std::int64_t high) {
  const std::optional<std::string> text = request_.Query(key);
  if (!text) return fallback;
  const std::optional<std::int64_t> number = base::ParseInt(*text);
  if (number && *number >= low && *number <= high) return *number;
  if (!error_) {
    error_ = {ErrorCode::kInvalid,
              fmt::format("?{}: expected a whole number from {} to {}", key, low, high)};
  }
  return fallback;
}

report::Clock QueryReader::Clock(base::Time at) {
  constexpr std::int64_t kDayMin = 1'440;
  const auto here =
      std::chrono::floor<std::chrono::minutes>(base::Calendar::OfServer().AheadOfUtc(at));
  return {std::chrono::minutes(Number("utc_offset_min", here.count(), -kDayMin, kDayMin))};
}

std::size_t AboutSoManyValues(std::string_view json) {
  std::size_t values = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_text) {
      if (c == '\\') ++i;
      if (c == '"') in_text = false;
    } else if (c == '"') {
      in_text = true;
    } else if (c == ',' || c == '[' || c == '{') {
      ++values;
    }
  }
  return values;
}

Result<Json> ReadBody(const Call& call, std::size_t most_values) {
  if (AboutSoManyValues(call.request.body) > most_values)
    return Invalid("body: too many values, expected at most about {}", most_values);
  Result<Json> json = base::ParseJson(call.request.body);
  if (!json) return base::Wrap(json.error(), "body");
  return json;
}

Result<Unit> ReadFields(const Call& call, const std::function<void(base::JsonReader&)>& read) {
  if (call.request.body.empty()) return Unit{};
  const Json json = CARMA_TRY(ReadBody(call));
  base::JsonReader in(json, "");
  read(in);
  in.NoOthers();
  if (in.error()) return std::unexpected(*in.error());
  return Unit{};
}

Result<core::TaskId> TaskIdOf(std::string_view text) {
  const std::optional<std::int64_t> number = base::ParseInt(text);
  if (number && *number >= 1) return static_cast<core::TaskId>(*number);
  return Invalid("'{}' is not a task id (expected a positive whole number)",
                 base::Printable(text, 40));
}

Result<Unit> OnlyAdministrators(const Caller& caller, std::string_view may) {
  if (caller.admin) return Unit{};
  return Denied("only an administrator may {}", may);
}

Result<DrainAsked> ReadDrain(const Call& call, base::Time now) {
  DrainAsked asked;
  std::optional<std::int64_t> by_ms;
  CARMA_TRY(ReadFields(call, [&](base::JsonReader& in) {
    in.Get("reason", asked.why, 500);
    in.Get("by_ms", by_ms, 0, core::kMaxBeginMs);
  }));
  if (!by_ms) return asked;
  asked.empty_by = base::FromMs(*by_ms);
  if (*asked.empty_by >= now - kLateDeadline) return asked;
  return Invalid("/by_ms: {} has passed", base::FormatTimeIso(*asked.empty_by));
}

void LogAsked(std::string_view event, std::vector<base::Field> fields, const Caller& caller) {
  fields.emplace_back("user", caller.user);
  fields.emplace_back("uid", caller.uid);
  if (caller.by_token) fields.emplace_back("by", "token");
  base::LogInfo(event, fields);
}

void LogAsked(std::string_view event, std::vector<base::Field> fields, const Caller& caller,
              const Result<Unit>& done) {
  if (!done && done.error().code != ErrorCode::kIo) return;
  if (!done) fields.emplace_back("not_yet", done.error().message);
  LogAsked(event, std::move(fields), caller);
}

api::Response JsonAnswer(const Json& json, int status) {
  return {.status = status, .body = base::DumpJson(json)};
}

Answer ReportPage(Result<std::string> html) {
  api::Response response;
  if (!html) {
    response.status = api::ErrorResponse(html.error()).status;
    html = report::HtmlPage("Nothing to show",
                            fmt::format("<p>{}</p>", report::Escape(html.error().message, 1'000)));
  }
  response.body = *std::move(html);
  response.content_type = "text/html; charset=utf-8";
  response.headers = {{"Content-Security-Policy", std::string(page::kReportPolicy)}};
  return response;
}

Answer TextAnswer(Result<std::string> text) {
  if (!text) return std::unexpected(text.error());
  return api::Response{.body = *std::move(text)};
}

}  // namespace carma::daemon
