// What the endpoints share: reading what a call says, and wording its answer.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "core/values/task.h"
#include "daemon/http/routes.h"
#include "report/html.h"

namespace carma::daemon {

// Most rows of one answer.
inline constexpr std::size_t kMaxPage = 10'000;

// Reads the numbers of a query and notes the first mistake; check error() once at the end.
class QueryReader {
 public:
  explicit QueryReader(const Call& call) : request_(call.request) {}
  // The fallback where it is absent or wrong.
  std::int64_t Number(std::string_view key, std::int64_t fallback, std::int64_t low,
                      std::int64_t high);
  // The reader's clock: ?utc_offset_min=, by how many minutes it is ahead of UTC; else the
  // server's at that moment.
  report::Clock Clock(base::Time at);
  const std::optional<base::Error>& error() const { return error_; }

 private:
  const api::Request& request_;
  std::optional<base::Error> error_;
};

base::Result<nlohmann::json> ReadBody(const Call& call);
// Errors: kInvalid.
base::Result<core::TaskId> TaskIdOf(std::string_view text);
// Errors: kDenied, saying that only an administrator may.
base::Result<base::Unit> OnlyAdministrators(const Caller& caller, std::string_view may);

// One line of the log about what somebody asked for and what has been done: the fields, then who it
// was, as the kernel or his token told ("user" and "uid").
void LogAsked(std::string_view event, std::vector<base::Field> fields, const Caller& caller);

api::Response JsonAnswer(const nlohmann::json& json, int status = 200);
// A page of figures, which runs no script. An error is a page too: somebody looks at it.
Answer ReportPage(base::Result<std::string> html);
// Of a text that is JSON already.
Answer TextAnswer(base::Result<std::string> text);

}  // namespace carma::daemon
