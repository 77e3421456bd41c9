// Functions that endpoints share: reading parameters and making answers.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "core/values/ids.h"
#include "daemon/http/routes.h"
#include "report/html.h"

namespace carma::base {
class JsonReader;
}

namespace carma::daemon {

// The largest number of rows in one answer.
inline constexpr std::size_t kMaxPage = 10'000;

// Reads the numbers of a query and records the first error. Check error() once at the end.
class QueryReader {
 public:
  explicit QueryReader(const Call& call) : request_(call.request) {}
  // Returns `fallback` if the value is missing or wrong.
  std::int64_t Number(std::string_view key, std::int64_t fallback, std::int64_t low,
                      std::int64_t high);
  // The reader's time zone from ?utc_offset_min= (minutes ahead of UTC); by default the server's
  // offset at `at`.
  report::Clock Clock(base::Time at);
  const std::optional<base::Error>& error() const { return error_; }

 private:
  const api::Request& request_;
  std::optional<base::Error> error_;
};

// An estimate of the number of JSON values: counts separators and opening brackets outside of
// strings.
std::size_t AboutSoManyValues(std::string_view json);
// Parses the body. The number of values is limited, because bodies are parsed on the loop, and many
// small values take seconds and gigabytes.
Result<nlohmann::json> ReadBody(const Call& call, std::size_t most_values = 100'000);
// Reads the fields of the body, which must be an object or empty. Errors: kInvalid, also for
// unknown fields.
Result<Unit> ReadFields(const Call& call, const std::function<void(base::JsonReader&)>& read);
// Errors: kInvalid.
Result<core::TaskId> TaskIdOf(std::string_view text);
// Errors: kDenied with "only an administrator may …".
Result<Unit> OnlyAdministrators(const Caller& caller, std::string_view may);

struct DrainAsked {
  std::string why;
  std::optional<base::Time> empty_by;
};
// Reads the optional body of a drain: "reason" and the deadline "by_ms". Errors: kInvalid, also if
// the deadline has long passed, because a wrong date would end tasks at once.
Result<DrainAsked> ReadDrain(const Call& call, base::Time now);

// Logs one line about a request that was carried out, with the fields and the caller's "user" and
// "uid" (from the kernel or the token).
void LogAsked(std::string_view event, std::vector<base::Field> fields, const Caller& caller);
// Logs a change of the engine when its Done is called. If the change takes effect only later
// because the store cannot write it now, the reason is logged as "not_yet".
void LogAsked(std::string_view event, std::vector<base::Field> fields, const Caller& caller,
              const Result<Unit>& done);

api::Response JsonAnswer(const nlohmann::json& json, int status = 200);
// Answers with a page of figures, without scripts. An error becomes a page too, because a user
// reads it.
Answer ReportPage(Result<std::string> html);
// Answers with a text that is already JSON.
Answer TextAnswer(Result<std::string> text);

}  // namespace carma::daemon
