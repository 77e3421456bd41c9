#include "slurm/spank/json.h"

#include <algorithm>

#include "slurm/spank/words.h"

namespace carma::slurm {
namespace {

constexpr std::size_t kMaxBytes = 1 << 20;
constexpr int kMaxDepth = 16;
constexpr std::size_t kMaxValues = 20'000;
constexpr std::size_t kMaxName = 128;

std::string Below(const std::string& place, const std::string& name) {
  return place.empty() ? name : place + "/" + name;
}

void AppendUtf8(std::string& text, unsigned code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | code >> 6);
    text += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    text += static_cast<char>(0xE0 | code >> 12);
    text += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    text += static_cast<char>(0x80 | (code & 0x3F));
  }
}

}  // namespace

std::string Quoted(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      quoted += "\\u00";
      quoted += kHex[byte >> 4];
      quoted += kHex[byte & 15];
    } else {
      quoted += byte < 0x80 ? c : '?';
    }
  }
  return quoted + "\"";
}

bool Document::Parse(std::string_view text) {
  values_.clear();
  if (text.size() > kMaxBytes) return false;
  rest_ = text;
  if (!ReadValue("", 0)) return false;
  SkipBlanks();
  return rest_.empty();
}

void Document::SkipBlanks() {
  rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n\r\t"), rest_.size()));
}

bool Document::Take(char c) {
  SkipBlanks();
  if (rest_.empty() || rest_[0] != c) return false;
  rest_.remove_prefix(1);
  return true;
}

bool Document::ReadValue(const std::string& place, int depth) {
  if (depth > kMaxDepth || values_.size() >= kMaxValues) return false;
  SkipBlanks();
  if (rest_.empty()) return false;
  if (rest_[0] == '{') return ReadObject(place, depth);
  if (rest_[0] == '[') return ReadList(place, depth);
  Value value{place, Kind::kOther, ""};
  if (rest_[0] == '"') {
    value.kind = Kind::kText;
    if (!ReadText(value.text)) return false;
  } else if (!ReadWord(value.text)) {
    return false;
  }
  values_.push_back(std::move(value));
  return true;
}

bool Document::ReadObject(const std::string& place, int depth) {
  if (!Take('{')) return false;
  if (Take('}')) return true;
  do {
    std::string name;
    SkipBlanks();
    if (!ReadText(name) || name.size() > kMaxName || !Take(':') ||
        !ReadValue(Below(place, name), depth + 1))
      return false;
  } while (Take(','));
  return Take('}');
}

bool Document::ReadList(const std::string& place, int depth) {
  if (!Take('[')) return false;
  if (Take(']')) return true;
  std::size_t index = 0;
  do {
    if (!ReadValue(Below(place, std::to_string(index++)), depth + 1)) return false;
  } while (Take(','));
  return Take(']');
}

bool Document::ReadText(std::string& text) {
  if (rest_.empty() || rest_[0] != '"') return false;
  rest_.remove_prefix(1);
  while (!rest_.empty() && rest_[0] != '"') {
    if (rest_[0] == '\\') {
      if (!ReadEscape(text)) return false;
      continue;
    }
    if (static_cast<unsigned char>(rest_[0]) < 0x20) return false;
    text += rest_[0];
    rest_.remove_prefix(1);
  }
  if (rest_.empty()) return false;
  rest_.remove_prefix(1);
  return true;
}

bool Document::ReadEscape(std::string& text) {
  static constexpr std::string_view kLetters = "\"\\/bfnrt", kMeaning = "\"\\/\b\f\n\r\t";
  if (rest_.size() < 2) return false;
  const std::size_t which = kLetters.find(rest_[1]);
  if (which != std::string_view::npos) {
    text += kMeaning[which];
    rest_.remove_prefix(2);
    return true;
  }
  if (rest_[1] != 'u' || rest_.size() < 6) return false;
  unsigned code = 0;
  for (const char c : rest_.substr(2, 4)) {
    const bool digit = c >= '0' && c <= '9';
    const bool low = c >= 'a' && c <= 'f', high = c >= 'A' && c <= 'F';
    if (!digit && !low && !high) return false;
    code = code * 16 + static_cast<unsigned>(digit ? c - '0' : low ? c - 'a' + 10 : c - 'A' + 10);
  }
  AppendUtf8(text, code);
  rest_.remove_prefix(6);
  return true;
}

// A number, true, false or null: the caller checks which one.
bool Document::ReadWord(std::string& word) {
  while (!rest_.empty() && rest_[0] > ' ' && rest_[0] != ',' && rest_[0] != '}' &&
         rest_[0] != ']' && rest_[0] != ':' && rest_[0] != '"') {
    word += rest_[0];
    rest_.remove_prefix(1);
  }
  return !word.empty();
}

const Document::Value* Document::Find(std::string_view place) const {
  for (const Value& value : values_) {
    if (value.place == place) return &value;
  }
  return nullptr;
}

std::optional<std::string> Document::Text(std::string_view place) const {
  const Value* value = Find(place);
  if (value == nullptr || value->kind != Kind::kText) return std::nullopt;
  return value->text;
}

std::optional<std::int64_t> Document::Number(std::string_view place) const {
  const Value* value = Find(place);
  if (value == nullptr || value->kind == Kind::kText) return std::nullopt;
  return Whole(value->text, 0, INT64_MAX);
}

std::vector<std::pair<std::string, std::string>> Document::Texts(std::string_view place) const {
  std::vector<std::pair<std::string, std::string>> texts;
  const std::string front = std::string(place) + "/";
  for (const Value& value : values_) {
    if (value.kind == Kind::kText && value.place.compare(0, front.size(), front) == 0)
      texts.emplace_back(value.place.substr(front.size()), value.text);
  }
  return texts;
}

}  // namespace carma::slurm
