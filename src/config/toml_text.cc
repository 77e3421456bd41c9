#include "config/toml_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "config/keys.h"
#include "config/toml_letters.h"

// toml++ 3.3 asserts (with NDEBUG: assumes) that a table header begins with a valid key, even
// though it has an error message for headers that do not. That message is reached only without
// NDEBUG.
#undef NDEBUG
#define TOML_ASSERT(condition) static_cast<void>(0)
#define TOML_EXCEPTIONS 1
#define TOML_ENABLE_FORMATTERS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

namespace carma::config {
namespace {

// A value's text and form. Form 0: a type of value that no key accepts.
std::pair<std::string, unsigned> Scalar(const toml::node& node) {
  if (const auto* text = node.as_string()) return {text->get(), kText};
  if (const auto* whole = node.as_integer()) return {std::to_string(whole->get()), kNumber};
  if (const auto* number = node.as_floating_point()) {
    const std::string written = fmt::format("{}", number->get());
    // Keeps the ".0" of 1.0, which is not a whole number and must not be read as 1 MiB.
    return {written.find_first_not_of("-0123456789") == written.npos ? written + ".0" : written,
            kNumber};
  }
  if (const auto* flag = node.as_boolean()) return {flag->get() ? "true" : "false", kBool};
  return {};
}

// Only a list of numbers, or a list of strings without commas, can be written as one string. An
// empty list counts as both.
void FillList(const toml::array& list, Entry& entry) {
  unsigned forms = kTextList | kNumberList;
  for (const toml::node& item : list) {
    auto [text, form] = Scalar(item);
    if (form == 0) {
      entry.items.clear();
      return;
    }
    if (form != kText || text.find(',') != std::string::npos) forms &= ~kTextList;
    if (form != kNumber) forms &= ~kNumberList;
    entry.items.push_back(std::move(text));
  }
  if (forms == 0) return;
  entry.text = base::Join(entry.items, ",");
  entry.form = forms;
}

Entry ToEntry(std::vector<std::string> path, const toml::node& node) {
  Entry entry{.name = base::Join(path, "."), .line = node.source().begin.line};
  entry.path = std::move(path);
  if (const auto* list = node.as_array()) {
    FillList(*list, entry);
  } else {
    std::tie(entry.text, entry.form) = Scalar(node);
  }
  return entry;
}

bool IsSection(const std::string& name) {
  return std::ranges::any_of(AllKeys(),
                             [&](const Key& known) { return known.name.starts_with(name + "."); });
}

void Flatten(const toml::table& table, const std::vector<std::string>& above,
             std::vector<Entry>& entries) {
  for (const auto& [key, node] : table) {
    std::vector<std::string> path = above;
    path.emplace_back(key.str());
    const toml::table* inner = node.as_table();
    if (inner != nullptr && !inner->empty()) {
      Flatten(*inner, path, entries);
      continue;
    }
    // An empty section is an error only if its name is unknown.
    const bool empty_section = inner != nullptr && above.empty() && IsSection(path.front());
    if (!empty_section) entries.push_back(ToEntry(std::move(path), node));
  }
}

}  // namespace

Result<std::vector<Entry>> ParseToml(const std::string& path, std::string_view text) {
  // Skips a byte-order mark at the start of the file.
  const std::string_view body = text.starts_with("\xEF\xBB\xBF") ? text.substr(3) : text;
  if (const std::optional<unsigned> line = LineOfStrayLetter(body))
    return Invalid("{}:{}: non-ASCII character outside quotes and comments", path, *line);
  std::vector<Entry> entries;
  try {
    Flatten(toml::parse(body), {}, entries);
  } catch (const toml::parse_error& error) {
    return Invalid("{}:{}: {}", path, error.source().begin.line,
                   base::Printable(error.description(), 300));
  }
  // Restores file order, because toml++ sorts tables by name, but the first error in the file
  // should be reported first.
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    return std::pair(a.line, std::string_view(a.name)) <
           std::pair(b.line, std::string_view(b.name));
  });
  return entries;
}

}  // namespace carma::config
