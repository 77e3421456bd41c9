// The plug-in's JSON functions, for quoting strings and parsing carmad's responses up to a size
// limit.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace carma::slurm {

// Returns the text as a JSON string in ASCII.
std::string Quoted(std::string_view text);

// Finds the strings and numbers of a document by their paths, such as "error/message". List items
// are named by index: "leases/0/id".
class Document {
 public:
  // Returns false if the text is not JSON or is too large.
  bool Parse(std::string_view text);
  std::optional<std::string> Text(const std::string& place) const;
  std::optional<std::int64_t> Number(const std::string& place) const;  // whole, >= 0
  // Strings that are direct children of the object or list at this path, with their names or
  // indexes.
  std::vector<std::pair<std::string, std::string>> Texts(const std::string& place) const;

 private:
  const nlohmann::json* Find(const std::string& place) const;
  nlohmann::json root_;
};

}  // namespace carma::slurm
