#include "store/delta.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace carma::store {
namespace {

// A reference to a match shorter than this would take more space than the match itself.
constexpr std::size_t kShortestCopy = 24;

// Returns the text from `at` through the next comma. Commas separate the values in JSON, and other
// text can be cut there as well.
std::string_view PieceAt(std::string_view text, std::size_t at) {
  const std::size_t comma = text.find(',', at);
  return text.substr(at, comma == std::string_view::npos ? comma : comma + 1 - at);
}

std::size_t CommonPrefix(std::string_view a, std::string_view b) {
  const std::size_t length = std::min(a.size(), b.size());
  return static_cast<std::size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(length), b.begin()).first -
      a.begin());
}

void Insert(std::string_view bytes, std::string& difference) {
  if (bytes.empty()) return;
  difference += 'i' + std::to_string(bytes.size()) + ';';
  difference += bytes;
}

// Removes a number and the `after` that follows it from the front of the text. Returns the number.
std::optional<std::size_t> TakeNumber(std::string_view& text, char after) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data() + text.size() || *end != after) return {};
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  return number;
}

}  // namespace

Template::Template(std::string text) : text_(std::move(text)) {
  const std::string_view all = text_;
  for (std::size_t at = 0; at < all.size();) {
    const std::string_view piece = PieceAt(all, at);
    pieces_.emplace(piece, at);
    at += piece.size();
  }
}

std::string Template::Difference(std::string_view text) const {
  const std::string_view base = text_;
  std::string difference;
  std::size_t told = 0;  // bytes of `text` already encoded
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view piece = PieceAt(text, at);
    // The beginning of the text is always compared with the beginning of the template, even if the
    // first pieces are different.
    const auto found = pieces_.find(piece);
    const std::size_t from = at == 0 ? 0 : found == pieces_.end() ? base.size() : found->second;
    const std::size_t length = CommonPrefix(base.substr(from), text.substr(at));
    if (length < kShortestCopy) {
      at += piece.size();
      continue;
    }
    Insert(text.substr(told, at - told), difference);
    difference += 'c' + std::to_string(from) + ',' + std::to_string(length) + ';';
    told = at + length;
    // The search continues where the next piece begins. If the match ended within a piece, the rest
    // of that piece counts as new.
    at = text[told - 1] == ',' || told == text.size() ? told : told + PieceAt(text, told).size();
  }
  Insert(text.substr(told), difference);
  return difference;
}

std::optional<std::string> Apply(std::string_view base, std::string_view difference) {
  std::string text;
  while (!difference.empty()) {
    const char kind = difference.front();
    difference.remove_prefix(1);
    if (kind == 'c') {
      const std::optional<std::size_t> from = TakeNumber(difference, ',');
      const std::optional<std::size_t> length = TakeNumber(difference, ';');
      if (!from || !length || *from > base.size() || *length > base.size() - *from) return {};
      text += base.substr(*from, *length);
    } else if (kind == 'i') {
      const std::optional<std::size_t> length = TakeNumber(difference, ';');
      if (!length || *length > difference.size()) return {};
      text += difference.substr(0, *length);
      difference.remove_prefix(*length);
    } else {
      return {};
    }
  }
  return text;
}

}  // namespace carma::store
