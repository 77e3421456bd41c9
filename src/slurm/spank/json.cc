// Calls only library functions that do not throw, because the plug-in is compiled without
// exceptions.
#include "slurm/spank/json.h"

namespace carma::slurm {

using nlohmann::json;

constexpr std::size_t kMaxBytes = 1 << 20;

std::string Quoted(std::string_view text) {
  return json(text).dump(-1, ' ', true, json::error_handler_t::replace);
}

bool Document::Parse(std::string_view text) {
  root_ = text.size() > kMaxBytes ? json() : json::parse(text, nullptr, false);
  return root_.is_structured();
}

const json* Document::Find(const std::string& place) const {
  const json::json_pointer at("/" + place);
  return root_.contains(at) ? &root_[at] : nullptr;
}

std::optional<std::string> Document::Text(const std::string& place) const {
  const json* value = Find(place);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return value->get_ref<const std::string&>();
}

std::optional<std::int64_t> Document::Number(const std::string& place) const {
  const json* value = Find(place);
  if (value == nullptr || !value->is_number_unsigned()) return std::nullopt;
  const auto number = value->get<std::uint64_t>();
  return number > INT64_MAX ? std::nullopt : std::optional(static_cast<std::int64_t>(number));
}

std::vector<std::pair<std::string, std::string>> Document::Texts(const std::string& place) const {
  std::vector<std::pair<std::string, std::string>> texts;
  const json* value = Find(place);
  if (value == nullptr || !value->is_structured()) return texts;
  for (const auto& [name, text] : value->items()) {
    if (text.is_string()) texts.emplace_back(name, text.get_ref<const std::string&>());
  }
  return texts;
}

}  // namespace carma::slurm
