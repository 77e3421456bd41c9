#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/suggest.h"
#include "base/text.h"

namespace carma::base {
namespace {

// Builds the value, and rejects excessive depth and duplicate keys, which the library's own parser
// accepts.
class BoundedSax {
 public:
  explicit BoundedSax(Json& target) : target_(target) {}

  bool null() { return Put(nullptr); }
  bool boolean(bool value) { return Put(value); }
  bool number_integer(std::int64_t value) { return Put(value); }
  bool number_unsigned(std::uint64_t value) { return Put(value); }
  bool number_float(double value, const std::string&) { return Put(value); }
  bool string(const std::string& value) { return Put(value); }
  bool binary(Json::binary_t&) { return false; }  // JSON text never contains binary values
  bool start_object(std::size_t) { return Enter(Json::object()); }
  bool end_object() { return Leave(); }
  bool start_array(std::size_t) { return Enter(Json::array()); }
  bool end_array() { return Leave(); }
  bool key(const std::string& name) {
    const auto [member, is_new] = open_.back()->get_ref<Json::object_t&>().try_emplace(name);
    if (!is_new) problem_ = "duplicate key '" + Printable(name, 60) + "'";
    member_ = &member->second;
    return is_new;
  }
  bool parse_error(std::size_t position, const std::string& last_token,
                   const nlohmann::detail::exception&) {
    problem_ = "not JSON at byte " + std::to_string(position) + " near '" +
               Printable(last_token, 40) + "'";
    return false;
  }
  const std::string& problem() const { return problem_; }

 private:
  Json& Place() {
    if (open_.empty()) return target_;
    return open_.back()->is_array() ? open_.back()->emplace_back() : *member_;
  }
  bool Put(Json value) {
    Place() = std::move(value);
    return true;
  }
  bool Enter(Json value) {
    Json& place = Place();
    place = std::move(value);
    open_.push_back(&place);
    if (open_.size() <= kMaxJsonDepth) return true;
    problem_ = "nested deeper than " + std::to_string(kMaxJsonDepth) + " levels";
    return false;
  }
  bool Leave() {
    open_.pop_back();
    return true;
  }

  Json& target_;
  std::vector<Json*> open_;  // arrays and objects, outermost first
  Json* member_ = nullptr;   // value of the last key
  std::string problem_;
};

}  // namespace

Result<Json> ParseJson(std::string_view text) {
  Json json;
  BoundedSax sax(json);
  if (!Json::sax_parse(text.begin(), text.end(), &sax))
    return Invalid(sax.problem().empty() ? "not JSON" : sax.problem());
  return json;
}

std::string DumpJson(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

JsonReader::JsonReader(const Json& json, std::string pointer)
    : json_(&json), pointer_(std::move(pointer)) {
  if (!json.is_object()) {
    error_ =
        Error{ErrorCode::kInvalid, (pointer_.empty() ? "/" : pointer_) + ": expected an object"};
  }
}

const Json* JsonReader::Raw(const char* key) {
  known_.emplace_back(key);
  if (error_) return nullptr;
  const auto found = json_->find(key);
  return found == json_->end() || found->is_null() ? nullptr : &*found;
}

bool JsonReader::Has(const char* key) {
  return Raw(key) != nullptr;
}

void JsonReader::Complain(const char* key, std::string_view expected) {
  if (!error_) {
    error_ =
        Error{ErrorCode::kInvalid, pointer_ + "/" + key + ": expected " + std::string(expected)};
  }
}

void JsonReader::Take(const Error& mistake) {
  if (!error_) error_ = mistake;
}

bool JsonReader::Get(const char* key, std::string& target, std::size_t max_bytes) {
  const Json* value = Raw(key);
  if (value == nullptr) return false;
  if (!value->is_string() || value->get_ref<const std::string&>().size() > max_bytes) {
    Complain(key, "text of at most " + std::to_string(max_bytes) + " bytes");
    return false;
  }
  target = value->get<std::string>();
  return true;
}

bool JsonReader::Get(const char* key, bool& target) {
  const Json* value = Raw(key);
  if (value == nullptr) return false;
  if (!value->is_boolean()) {
    Complain(key, "true or false");
    return false;
  }
  target = value->get<bool>();
  return true;
}

bool JsonReader::Get(const char* key, std::int64_t& target, std::int64_t low, std::int64_t high) {
  const Json* value = Raw(key);
  if (value == nullptr) return false;
  const bool fits = value->is_number_integer() &&
                    (!value->is_number_unsigned() ||
                     value->get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX));
  if (!fits || value->get<std::int64_t>() < low || value->get<std::int64_t>() > high) {
    Complain(key, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
    return false;
  }
  target = value->get<std::int64_t>();
  return true;
}

bool JsonReader::Get(const char* key, int& target, int low, int high) {
  std::int64_t wide = target;
  if (!Get(key, wide, low, high)) return false;
  target = static_cast<int>(wide);
  return true;
}

bool JsonReader::Get(const char* key, double& target, double low, double high) {
  const Json* value = Raw(key);
  if (value == nullptr) return false;
  if (!value->is_number() || !(value->get<double>() >= low) || !(value->get<double>() <= high)) {
    Complain(key, fmt::format("a number from {:.12g} to {:.12g}", low, high));
    return false;
  }
  target = value->get<double>();
  return true;
}

bool JsonReader::Get(const char* key, std::vector<std::string>& target, std::size_t max_items,
                     std::size_t max_bytes) {
  const Json* value = Raw(key);
  if (value == nullptr) return false;
  const bool good =
      value->is_array() && value->size() <= max_items &&
      std::ranges::all_of(*value, [&](const Json& item) {
        return item.is_string() && item.get_ref<const std::string&>().size() <= max_bytes;
      });
  if (!good) {
    Complain(key, "a list of at most " + std::to_string(max_items) + " strings");
    return false;
  }
  target = value->get<std::vector<std::string>>();
  return true;
}

void JsonReader::NoOthers() {
  if (error_) return;
  for (const auto& [key, value] : json_->items()) {
    if (std::ranges::find(known_, key) == known_.end()) {
      error_ = Error{ErrorCode::kInvalid, pointer_ + "/" + Printable(key, 60) + ": unknown field" +
                                              Suggestion(key, known_)};
      return;
    }
  }
}

}  // namespace carma::base
