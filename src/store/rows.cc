#include "store/rows.h"

#include <cmath>
#include <iterator>
#include <utility>

#include "base/json.h"

namespace carma::store {

using base::Json;

namespace {

// The words for dependencies in the database. They differ from the words that users see, but older
// daemons accept no others.
constexpr std::pair<core::DependencyKind, std::string_view> kDependencyWords[] = {
    {core::DependencyKind::kAfterOk, "after_ok"},
    {core::DependencyKind::kAfterAny, "after_any"},
    {core::DependencyKind::kAfterNotOk, "after_not_ok"}};

std::string_view StoredWord(core::DependencyKind kind) {
  return std::ranges::find(kDependencyWords, kind, [](const auto& each) { return each.first; })
      ->second;
}

// Parses a stored array whose elements are arrays of `width` values. Returns nothing for any other
// text.
std::optional<Json> ParseRows(const std::string& text, std::size_t width) {
  Result<Json> json = base::ParseJson(text);
  if (!json || !json->is_array()) return std::nullopt;
  for (const Json& row : *json) {
    if (!row.is_array() || row.size() != width) return std::nullopt;
  }
  return std::move(*json);
}

std::optional<core::Dependency> DependencyFrom(const Json& row) {
  if (!row[0].is_number_unsigned() || !row[1].is_string()) return std::nullopt;
  const auto kind = std::ranges::find(kDependencyWords, row[1].get<std::string>(),
                                      [](const auto& each) { return each.second; });
  if (kind == std::end(kDependencyWords)) return std::nullopt;
  core::Dependency dependency{core::TaskId{row[0].get<std::uint64_t>()}, kind->first, std::nullopt};
  if (row[2].is_null()) return dependency;
  if (!row[2].is_string()) return std::nullopt;
  dependency.known_final = base::FromWord<core::TaskState>(row[2].get<std::string>());
  return dependency.known_final ? std::optional(dependency) : std::nullopt;
}

}  // namespace

// ---- Binder ----

void Binder::operator()(const char*, const char*, const char*,
                        const std::optional<core::Estimate>& value) {
  if (!value) {
    for (int i = 0; i < 3; ++i) BindNull();
    return;
  }
  Bind(value->peak_mib);
  Bind(value->method);
  Bind(value->predicted_mib);
}
void Binder::Bind(double value) {
  if (std::isnan(value)) {
    BindNull();
  } else {
    statement_->bind(next_++, value);
  }
}
// Lists are stored as JSON, because they are always read completely. An empty list, which is the
// common case, is stored as NULL.
void Binder::Bind(const std::vector<core::Dependency>& value) {
  if (value.empty()) return BindNull();
  Json rows = Json::array();
  for (const core::Dependency& dependency : value) {
    Json known = nullptr;
    if (dependency.known_final) known = core::TaskStateName(*dependency.known_final);
    rows.push_back(Json::array(
        {core::Number(dependency.task), StoredWord(dependency.kind), std::move(known)}));
  }
  Bind(base::DumpJson(rows));
}
void Binder::Bind(const std::vector<core::Placement>& value) {
  if (value.empty()) return BindNull();
  Json rows = Json::array();
  for (const core::Placement& placement : value)
    rows.push_back(Json::array({core::Number(placement.gpu), placement.claim_mib}));
  Bind(base::DumpJson(rows));
}
void Binder::Bind(const std::vector<std::string>& value) {
  if (value.empty()) return BindNull();
  Bind(base::DumpJson(Json(value)));
}

// ---- Reader ----

void Reader::operator()(const char* mib, const char* method, const char* predicted,
                        std::optional<core::Estimate>& value) {
  std::optional<std::int64_t> peak_mib, predicted_mib;
  std::optional<std::string> name;
  (*this)(mib, peak_mib);
  (*this)(method, name);
  (*this)(predicted, predicted_mib);
  if (peak_mib.has_value() != name.has_value()) Complain("both parts of the estimate or neither");
  value.reset();
  if (peak_mib && name) value = core::Estimate{*peak_mib, *std::move(name), predicted_mib};
}
void Reader::Read(double& value) {
  const SQLite::Column column = statement_->getColumn(next_++);
  value = column.isNull() ? std::numeric_limits<double>::quiet_NaN() : column.getDouble();
}
void Reader::Read(std::vector<core::Dependency>& value) {
  value.clear();
  if (AtNull()) return static_cast<void>(++next_);
  const std::optional<Json> rows = ParseRows(Text(), 3);
  if (!rows) return Complain("a list of dependencies");
  for (const Json& row : *rows) {
    const std::optional<core::Dependency> dependency = DependencyFrom(row);
    if (!dependency) return Complain("a list of dependencies");
    value.push_back(*dependency);
  }
}
void Reader::Read(std::vector<core::Placement>& value) {
  value.clear();
  if (AtNull()) return static_cast<void>(++next_);
  const std::optional<Json> rows = ParseRows(Text(), 2);
  if (!rows) return Complain("a list of placements");
  for (const Json& row : *rows) {
    if (!row[0].is_number_unsigned() || !row[1].is_number_integer())
      return Complain("a list of placements");
    value.push_back({core::GpuIndex{row[0].get<std::uint32_t>()}, row[1].get<std::int64_t>()});
  }
}
void Reader::Read(std::vector<std::string>& value) {
  value.clear();
  if (AtNull()) return static_cast<void>(++next_);
  const Result<Json> words = base::ParseJson(Text());
  if (!words || !words->is_array()) return Complain("a list of strings");
  for (const Json& word : *words) {
    if (!word.is_string()) return Complain("a list of strings");
    value.push_back(word.get<std::string>());
  }
}

std::int64_t Reader::IntegerIn(std::int64_t low, std::int64_t high) {
  const std::int64_t value = statement_->getColumn(next_++).getInt64();
  if (value < low || value > high) {
    Complain("a number from " + std::to_string(low) + " to " + std::to_string(high));
    return low;
  }
  return value;
}

void Reader::Complain(std::string_view expected) {
  if (!problem_) problem_ = "column " + std::string(name_) + ": expected " + std::string(expected);
}

}  // namespace carma::store
