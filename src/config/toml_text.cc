#include "config/toml_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "config/keys.h"

#define TOML_EXCEPTIONS 0
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
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return base::Fail(base::ErrorCode::kInvalid,
                      fmt::format("{}:{}: {}", path, error.source().begin.line,
                                  base::Printable(error.description(), 300)));
  }
  std::vector<Entry> entries;
  Flatten(parsed.table(), "", entries);
  // toml++ keeps tables sorted by name; the first mistake of the file should be told first.
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.line < b.line; });
  return entries;
}

}  // namespace carma::config
