// Reads untrusted JSON. Sizes are limited, and every error gives its position as a JSON pointer.
// Include only in .cc files; headers that mention JSON types include <nlohmann/json_fwd.hpp>.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace carma::base {

using Json = nlohmann::json;

inline constexpr int kMaxJsonDepth = 64;

// Returns kInvalid with the byte offset for malformed text, more than kMaxJsonDepth levels, invalid
// UTF-8, or duplicate keys.
Result<Json> ParseJson(std::string_view text);
// Writes one line without whitespace. Invalid UTF-8 is replaced, so it never causes an exception.
std::string DumpJson(const Json& json);

// Reads the fields of one object and records the first error, to be checked once at the end:
//   JsonReader in(json, "/tasks/3");
//   in.Get("gpus", spec.gpus, 1, 64);  in.Get("name", spec.name);  in.NoOthers();
//   if (in.error()) return std::unexpected(*in.error());
class JsonReader {
 public:
  // json must outlive the reader. If it is not an object, that is recorded as the first error.
  JsonReader(const Json& json, std::string pointer);

  // Returns false and leaves the target unchanged if the key is absent or null.
  bool Get(const char* key, std::string& target, std::size_t max_bytes = 4096);
  bool Get(const char* key, bool& target);
  bool Get(const char* key, std::int64_t& target, std::int64_t low, std::int64_t high);
  bool Get(const char* key, int& target, int low, int high);
  bool Get(const char* key, double& target, double low, double high);
  bool Get(const char* key, std::vector<std::string>& target, std::size_t max_items = 100'000,
           std::size_t max_bytes = 131'072);
  // Like Get() for a T, with the same limits.
  template <class T, class... Limits>
  bool Get(const char* key, std::optional<T>& target, Limits... limits) {
    T value{};
    if (!Get(key, value, limits...)) return false;
    target = std::move(value);
    return true;
  }
  // Returns the raw value, or null if the key is absent. NoOthers() treats the key as read.
  const Json* Raw(const char* key);
  bool Has(const char* key);
  // Records an error if the object has keys that were not read.
  void NoOthers();
  void Complain(const char* key, std::string_view expected);
  // Adopts an error found by the reader of a nested object.
  void Take(const Error& mistake);
  const std::optional<Error>& error() const { return error_; }
  const std::string& pointer() const { return pointer_; }

 private:
  const Json* json_;
  std::string pointer_;
  std::vector<std::string> known_;
  std::optional<Error> error_;
};

}  // namespace carma::base
