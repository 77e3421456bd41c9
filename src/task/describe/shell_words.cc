#include "task/describe/shell_words.h"

#include <algorithm>
#include <optional>

namespace carma::task {
namespace {

bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

class Splitter {
 public:
  Splitter(std::string_view line, WordRules rules) : line_(line), rules_(rules) {}

  Result<std::vector<std::string>> Run() {
    while (at_ < line_.size()) {
      const char c = line_[at_];
      if (IsBlank(c)) {
        EndWord();
        ++at_;
      } else if (c == '#' && !word_) {
        break;
      } else if (std::optional<base::Error> error = Take(c)) {
        return std::unexpected(*error);
      }
    }
    EndWord();
    if (rules_ == WordRules::kCommand && !words_.empty() && assignment_)
      return NeedsShell("a variable assignment before the command");
    return std::move(words_);
  }

 private:
  static std::unexpected<base::Error> NeedsShell(std::string_view what) {
    return Invalid("the command is run without a shell and must not use " + std::string(what) +
                   "; put it into a script and submit that");
  }
  static std::optional<base::Error> Wrong(std::string message) {
    return base::Error{ErrorCode::kInvalid, std::move(message)};
  }

  std::string& Word() {
    if (!word_) word_.emplace();
    return *word_;
  }

  void EndWord() {
    if (!word_) return;
    if (words_.empty())
      assignment_ = word_->contains('=') && IsVariableName(word_->substr(0, word_->find('=')));
    words_.push_back(std::move(*word_));
    word_.reset();
  }

  // Consumes one character, quoted section or escape sequence of a word.
  std::optional<base::Error> Take(char c) {
    if (c == '\'') return TakeSingleQuoted();
    if (c == '"') return TakeDoubleQuoted();
    if (c == '\\') {
      if (at_ + 1 == line_.size()) return Wrong("ends with a backslash");
      Word() += line_[at_ + 1];
      at_ += 2;
      return std::nullopt;
    }
    if (std::optional<base::Error> error = CheckShellText(c, /*quoted=*/false)) return error;
    Word() += c;
    ++at_;
    return std::nullopt;
  }

  std::optional<base::Error> TakeSingleQuoted() {
    const std::size_t end = line_.find('\'', at_ + 1);
    if (end == std::string_view::npos) return Wrong("missing closing quote '");
    Word() += line_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return std::nullopt;
  }

  std::optional<base::Error> TakeDoubleQuoted() {
    Word();
    for (++at_; at_ < line_.size(); ++at_) {
      char c = line_[at_];
      if (c == '"') {
        ++at_;
        return std::nullopt;
      }
      if (std::optional<base::Error> error = CheckShellText(c, /*quoted=*/true)) return error;
      const bool escape = c == '\\' && at_ + 1 < line_.size() &&
                          std::string_view("\"\\$`").find(line_[at_ + 1]) != std::string_view::npos;
      if (escape) c = line_[++at_];
      Word() += c;
    }
    return Wrong("missing closing quote \"");
  }

  std::optional<base::Error> CheckShellText(char c, bool quoted) const {
    if (rules_ != WordRules::kCommand) return std::nullopt;
    const char next = at_ + 1 < line_.size() ? line_[at_ + 1] : '\0';
    const bool expansion = c == '$' && (IsNameStart(next) || next == '{' || next == '(');
    const bool operation =
        c == '`' || (!quoted && std::string_view(";|&><").find(c) != std::string_view::npos);
    if (!expansion && !operation) return std::nullopt;
    return NeedsShell("'" + std::string(1, c) + (expansion ? std::string(1, next) : "") + "'")
        .error();
  }

  std::string_view line_;
  WordRules rules_;
  std::size_t at_ = 0;
  std::vector<std::string> words_;
  std::optional<std::string> word_;
  bool assignment_ = false;  // the first word looks like VAR=value
};

}  // namespace

bool IsVariableName(std::string_view name) {
  return !name.empty() && IsNameStart(name.front()) &&
         std::ranges::all_of(name, [](char c) { return IsNameStart(c) || (c >= '0' && c <= '9'); });
}

Result<std::vector<std::string>> SplitShellWords(std::string_view line, WordRules rules) {
  return Splitter(line, rules).Run();
}

}  // namespace carma::task
