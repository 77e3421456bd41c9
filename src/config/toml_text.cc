#include "config/toml_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.h"
#include "config/keys.h"
#include "config/toml_letters.h"

// toml++ 3.3 asserts, and with NDEBUG assumes, that a table header begins with a proper key,
// although it has an error message for one that does not: let it get there.
#undef NDEBUG
#define TOML_ASSERT(condition) static_cast<void>(0)
#define TOML_EXCEPTIONS 1
#define TOML_ENABLE_FORMATTERS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

namespace carma::config {
namespace {

// Only lists of texts without a comma have a meaning.
void FillList(const toml::array& list, Entry& entry) {
  std::vector<std::string> items;
  for (const toml::node& item : list) {
    const toml::value<std::string>* text = item.as_string();
    if (text == nullptr || text->get().find(',') != std::string::npos) return;
    items.push_back(text->get());
  }
  entry.text = base::Join(items, ",");
  entry.form = kTextList;
}

Entry ToEntry(std::string name, const toml::node& node) {
  Entry entry{.name = std::move(name), .line = node.source().begin.line};
  if (const auto* text = node.as_string()) {
    entry.text = text->get();
    entry.form = kText;
  } else if (const auto* whole = node.as_integer()) {
    entry.text = std::to_string(whole->get());
    entry.form = kNumber;
  } else if (const auto* number = node.as_floating_point()) {
    entry.text = fmt::format("{}", number->get());
    entry.form = kNumber;
  } else if (const auto* flag = node.as_boolean()) {
    entry.text = flag->get() ? "true" : "false";
    entry.form = kBool;
  } else if (const auto* list = node.as_array()) {
    FillList(*list, entry);
  }
  return entry;
}

void Flatten(const toml::table& table, const std::string& prefix, std::vector<Entry>& entries) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    const toml::table* inner = node.as_table();
    if (inner != nullptr && !inner->empty()) {
      Flatten(*inner, name + ".", entries);
    } else if (inner == nullptr || !prefix.empty()) {
      entries.push_back(ToEntry(name, node));
    } else if (std::none_of(AllKeys().begin(), AllKeys().end(),
                            [&](const Key& known) { return known.name.starts_with(name + "."); })) {
      entries.push_back(ToEntry(name, node));  // an empty section that does not exist
    }
  }
}

}  // namespace

base::Result<std::vector<Entry>> ParseToml(const std::string& path, std::string_view text) {
  // A byte-order mark may open the file.
  const std::string_view body = text.starts_with("\xEF\xBB\xBF") ? text.substr(3) : text;
  if (const std::optional<unsigned> line = LineOfStrayLetter(body)) {
    return base::Fail(
        base::ErrorCode::kInvalid,
        fmt::format("{}:{}: expected ASCII outside quotes and comments", path, *line));
  }
  std::vector<Entry> entries;
  try {
    Flatten(toml::parse(body), "", entries);
  } catch (const toml::parse_error& error) {
    return base::Fail(base::ErrorCode::kInvalid,
                      fmt::format("{}:{}: {}", path, error.source().begin.line,
                                  base::Printable(error.description(), 300)));
  }
  // toml++ keeps tables sorted by name; the first mistake of the file should be told first.
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.line, std::string_view(a.name)) <
           std::pair(b.line, std::string_view(b.name));
  });
  return entries;
}

}  // namespace carma::config
