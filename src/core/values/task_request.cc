#include "core/values/task_request.h"

#include <algorithm>

namespace carma::core {
namespace {

// True if the text has 1 to 64 characters, each a letter, a digit or one of `others`.
bool IsMadeOf(std::string_view text, std::string_view others) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           others.find(c) != std::string_view::npos;
  });
}

}  // namespace

bool IsShareName(std::string_view name) {
  return IsMadeOf(name, "_-+.");
}

bool IsGpuName(std::string_view name) {
  const bool index =
      name.size() <= 4 && name.find_first_not_of("0123456789") == std::string_view::npos;
  const bool uuid = name.starts_with("GPU-") || name.starts_with("MIG-");
  return (index || uuid) && IsMadeOf(name, "-_./");
}

bool IsGpuTypeWord(std::string_view word) {
  return IsMadeOf(word, "-_. ") && word.front() != ' ' && word.back() != ' ';
}

}  // namespace carma::core
