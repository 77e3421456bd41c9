// The JSON needed by the plug-in: writing texts, reading carmad's answers. Bounded in size.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace carma::slurm {

// The text as a JSON string, in ASCII.
std::string Quoted(std::string_view text);

// The texts and numbers of a document, by path: "error/message". Items of lists have their index as
// name: "leases/0/id".
class Document {
 public:
  // False: not JSON, or too large.
  bool Parse(std::string_view text);
  std::optional<std::string> Text(const std::string& place) const;
  std::optional<std::int64_t> Number(const std::string& place) const;  // a whole one, not negative
  // Texts directly in the object or list at that path, by name.
  std::vector<std::pair<std::string, std::string>> Texts(const std::string& place) const;

 private:
  const nlohmann::json* Find(const std::string& place) const;
  nlohmann::json root_;
};

}  // namespace carma::slurm
