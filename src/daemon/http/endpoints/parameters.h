// Functions that endpoints share to read parameters and build responses.
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

// Limit on the number of rows in a response.
inline constexpr std::size_t kMaxPage = 10'000;

// Reads numbers from a query and records the first error. error() must be called after the last
// number.
class QueryReader {
 public:
  explicit QueryReader(const Call& call) : request_(call.request) {}
  // Returns `fallback` if the parameter is missing or invalid.
  std::int64_t Number(std::string_view key, std::int64_t fallback, std::int64_t low,
                      std::int64_t high);
  // The reader's time zone from ?utc_offset_min= (minutes ahead of UTC). The default is the
  // server's offset at the time `at`.
  report::Clock Clock(base::Time at);
  const std::optional<base::Error>& error() const { return error_; }

 private:
  const api::Request& request_;
  std::optional<base::Error> error_;
};

// Estimates the number of JSON values by counting separators and opening brackets outside of
// strings.
std::size_t AboutSoManyValues(std::string_view json);
// Parses the body. The number of values is limited, because parsing blocks the loop, and many small
// values would take seconds and gigabytes.
Result<nlohmann::json> ReadBody(const Call& call, std::size_t most_values = 100'000);
// Reads the fields of the body, which must be empty or an object. Returns kInvalid for invalid or
// unknown fields.
Result<Unit> ReadFields(const Call& call, const std::function<void(base::JsonReader&)>& read);
// Returns kInvalid if the text is not a task id.
Result<core::TaskId> TaskIdOf(std::string_view text);
// Returns kDenied with "only an administrator may …" if the caller is not one.
Result<Unit> OnlyAdministrators(const Caller& caller, std::string_view may);

struct DrainAsked {
  std::string why;
  std::optional<base::Time> empty_by;
};
// Reads the optional body of a drain request: "reason" and the deadline "by_ms". Returns kInvalid
// for invalid fields and for a deadline far in the past, which would end tasks immediately.
Result<DrainAsked> ReadDrain(const Call& call, base::Time now);

// Logs one line about a request that was carried out, with these fields and the caller's "user" and
// "uid" (from the kernel or the token).
void LogAsked(std::string_view event, std::vector<base::Field> fields, const Caller& caller);
// Logs a change made by the engine. done: the result passed to Engine::Done. If the store cannot
// write the change yet, the line contains the reason as "not_yet".
void LogAsked(std::string_view event, std::vector<base::Field> fields, const Caller& caller,
              const Result<Unit>& done);

api::Response JsonAnswer(const nlohmann::json& json, int status = 200);
// Returns an HTML page. Errors are also returned as HTML, because people read them.
Answer ReportPage(Result<std::string> html);
// Returns a response from text that is already JSON.
Answer TextAnswer(Result<std::string> text);

}  // namespace carma::daemon
