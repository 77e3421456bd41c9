#include "estimate/recipe/shell.h"

#include <algorithm>
#include <optional>
#include <ranges>
#include <utility>

#include "base/text.h"
#include "estimate/recipe/shell_state.h"

namespace carma::estimate {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kDigits = "0123456789";

bool IsOneOf(char c, std::string_view set) {
  return set.contains(c);
}

// The words into which one word of the text expands: none, one or several.
class Fields {
 public:
  void Append(std::string_view text, bool known = true) {
    open_ = true;
    current_.text += text;
    current_.known = current_.known && known;
  }
  void Split() {
    if (open_) done_.push_back(std::exchange(current_, {}));
    open_ = false;
  }
  // Splits the text at blanks and appends its words, as for an unquoted variable.
  void AppendSplit(std::string_view text) {
    while (!text.empty()) {
      const std::size_t begin = text.find_first_not_of(kBlanks);
      if (begin != 0) Split();
      if (begin == std::string_view::npos) return;
      const std::size_t end = std::min(text.find_first_of(kBlanks, begin), text.size());
      Append(text.substr(begin, end - begin));
      text.remove_prefix(end);
    }
  }
  const std::string& Current() const { return current_.text; }
  std::vector<ShellWord> Take() {
    Split();
    return std::move(done_);
  }

 private:
  std::vector<ShellWord> done_;
  ShellWord current_;
  bool open_ = false;  // also true for an empty word ('')
};

// Reads one text: the script, a file that it names with `source`, or what it passes to `eval`. Each
// text has its own reader; all of them share one state.
class ShellReader {
 public:
  // file, line: the place of the text's first character, as in ShellCommand. depth: the number of
  // texts around this one.
  ShellReader(std::string_view text, std::string file, int line, int depth, ShellState& state)
      : text_(text), file_(std::move(file)), line_(line), depth_(depth), state_(state) {}

  void Read() {
    while (!AtEnd() && !state_.IsFull()) {
      const char c = Peek();
      if (IsOneOf(c, " \t\r") || Continues()) {
        SkipBlank();
      } else if (c == '#') {
        TakeUntil("\n");
      } else if (c == '\n') {
        EndCommand();
        state_.SetDepends(false);
        Skip(1);
        SkipHereDocuments();
      } else if ((IsOneOf(c, "<>") && !Substitutes()) || (c == '&' && Peek(1) == '>')) {
        Redirect();
      } else if (IsOneOf(c, ";&|()")) {
        ReadOperator(c);
      } else {
        if (words_.empty()) began_ = line_;
        for (ShellWord& word : ReadWord()) words_.push_back(std::move(word));
      }
    }
    EndCommand();
  }

 private:
  struct HereDocument {
    std::string end;
    bool tabs = false;
  };

  // ---- the position in the text ----

  bool AtEnd() const { return at_ == text_.size(); }
  // The character that is this far ahead; NUL, which no set contains, if the text ends before it.
  char Peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool Continues() const { return Peek() == '\\' && Peek(1) == '\n'; }
  std::string_view Take(std::size_t count) {
    const std::string_view taken = text_.substr(at_, count);
    line_ += static_cast<int>(std::ranges::count(taken, '\n'));
    at_ += taken.size();
    return taken;
  }
  void Skip(std::size_t count) { Take(count); }
  std::string_view TakeUntil(std::string_view ends) {
    return Take(std::min(text_.find_first_of(ends, at_), text_.size()) - at_);
  }
  void SkipBlank() { Skip(Continues() ? 2 : 1); }

  // Returns true at $( … ), <( … ) and >( … ), whose results are unknown.
  bool Substitutes() const { return IsOneOf(Peek(), "$<>") && Peek(1) == '('; }
  void SkipParentheses() {
    Skip(1);
    int depth = 0;
    do {
      const char c = Peek();
      if (c == '(') ++depth;
      if (c == ')') --depth;
      Skip(c == '\\' ? 2 : 1);
      if (c != '\'' && c != '"') continue;
      while (!AtEnd() && Peek() != c) Skip(Peek() == '\\' ? 2 : 1);
      Skip(1);
    } while (!AtEnd() && depth > 0);
  }

  // ---- words ----

  // in_array: whether the word is an item of an array, which cannot contain other arrays.
  std::vector<ShellWord> ReadWord(bool in_array = false) {
    Fields fields;
    while (!AtEnd() && (Substitutes() || !IsOneOf(Peek(), " \t\r\n;&|)<>"))) {
      if (Peek() == '(') {
        const std::optional<Assignment> array = AssignmentOf(fields.Current());
        if (in_array || !array || !fields.Current().ends_with('=')) break;
        ReadArray(*array);
        return {};
      }
      ReadPiece(false, fields);
    }
    // Digits in front of a redirection are a file descriptor, as in 2>&1.
    const bool redirects = IsOneOf(Peek(), "<>") && !fields.Current().empty();
    if (redirects && fields.Current().find_first_not_of(kDigits) == std::string::npos) return {};
    return fields.Take();
  }

  // Reads a quoted text, an expansion, an escaped character, or the plain text up to the next of
  // these. quoted: the text is in double quotes, where other characters are special.
  void ReadPiece(bool quoted, Fields& fields) {
    const char c = Peek();
    if (Continues()) {
      Skip(2);
    } else if (Substitutes() && (c == '$' || !quoted)) {
      SkipParentheses();
      fields.Append("", false);
    } else if (c == '\\' && (!quoted || IsOneOf(Peek(1), "\"\\$`"))) {
      Skip(1);
      if (!AtEnd()) fields.Append(Take(1));
    } else if (c == '$') {
      Expand(quoted, fields);
    } else if (c == '`') {
      Skip(1);
      TakeUntil("`");
      Skip(1);
      fields.Append("", false);
    } else if (quoted) {
      fields.Append(Take(1));
    } else if (c == '\'') {
      Skip(1);
      fields.Append(TakeUntil("'"));
      Skip(1);
    } else if (c == '"') {
      Skip(1);
      if (Peek() == '"') fields.Append("");
      while (!AtEnd() && Peek() != '"') ReadPiece(true, fields);
      Skip(1);
    } else {
      fields.Append(TakeUntil(" \t\r\n;&|()<>'\"\\$`"));
    }
  }

  // Reads the items of an array NAME=( … ), starting at the parenthesis.
  void ReadArray(const Assignment& array) {
    Skip(1);
    std::vector<ShellWord> items;
    while (!AtEnd() && Peek() != ')') {
      if (IsOneOf(Peek(), " \t\r\n;&|(<>") || Continues()) {
        SkipBlank();
      } else if (Peek() == '#') {
        TakeUntil("\n");
      } else {
        for (ShellWord& word : ReadWord(true)) items.push_back(std::move(word));
      }
    }
    Skip(1);
    state_.AssignArray(array, items);
  }

  // ---- variables ----

  // Expands a variable, starting at its '$'.
  void Expand(bool quoted, Fields& fields) {
    const char next = Peek(1);
    const std::size_t length = NameLength(text_.substr(at_ + 1));
    if (next == '{') {
      ExpandBraces(quoted, fields);
    } else if (length > 0) {
      Skip(1);
      Put(state_.ValuesOf(std::string(Take(length))), quoted, false, fields);
    } else if (IsOneOf(next, "@*123456789")) {
      Skip(2);
      const bool all = IsOneOf(next, "@*");
      Put(Arguments(all ? 1 : next - '0'), quoted, all, fields);
    } else if (IsOneOf(next, "#?$!-0")) {
      Skip(2);
      fields.Append("", false);
    } else {
      if (next != '\'' || quoted) fields.Append("$");
      Skip(1);
    }
  }

  // Expands "${…}" if it contains a name, all items of an array, or a name with a default. Other
  // forms are not supported.
  void ExpandBraces(bool quoted, Fields& fields) {
    Skip(2);
    int depth = 1;
    std::size_t end = at_;
    for (; end < text_.size(); ++end) {
      if (text_[end] == '{') ++depth;
      if (text_[end] == '}' && --depth == 0) break;
    }
    const std::string_view inside = Take(end - at_);
    Skip(1);
    const std::size_t digits = std::min(inside.find_first_not_of(kDigits), inside.size());
    const std::size_t length = digits > 0 ? digits : NameLength(inside);
    if (length == 0) return fields.Append("", false);
    const std::string name(inside.substr(0, length));
    const std::vector<ShellWord> values =
        digits > 0 ? Arguments(base::ParseInt(name).value_or(0)) : state_.ValuesOf(name);
    std::string_view form = inside.substr(length);
    if (form.empty()) return Put(values, quoted, false, fields);
    if (form == "[@]" || form == "[*]") return Put(values, quoted, true, fields);
    if (form.starts_with(":-") || form.starts_with(":=")) form.remove_prefix(1);
    const bool assigns = form.starts_with('=') && digits == 0;
    if (!form.starts_with('-') && !assigns) return fields.Append("", false);
    // If only an unread file can have set the variable, its default is the best guess.
    const bool set = digits > 0 || state_.Sets(name);
    if (!values.empty() && (!values.front().text.empty() || (set && !values.front().known)))
      return Put(values, quoted, false, fields);
    form.remove_prefix(1);
    if (form.size() >= 2 && (form[0] == '"' || form[0] == '\'') && form.back() == form[0])
      form = form.substr(1, form.size() - 2);
    const bool plain = form.find_first_of("$`\"'\\") == std::string_view::npos;
    const ShellWord usual{std::string(plain ? form : ""), plain};
    if (assigns) state_.Assign({name + "=" + usual.text, plain});
    Put({usual}, quoted, false, fields);
  }

  std::vector<ShellWord> Arguments(std::int64_t first) const {
    if (own_arguments_) return {{"", false}};
    return state_.Arguments(first);
  }

  // all: whether to append every value, each as a separate word. If false, only the first value is
  // used, as in a shell. Without values, "$@" expands to no words, but "$1" to one empty word.
  void Put(const std::vector<ShellWord>& values, bool quoted, bool all, Fields& fields) {
    if (values.empty() && quoted && !all) fields.Append("");
    for (const ShellWord& value : values) {
      if (!state_.Spend(value.text.size() + 1)) return;
      if (&value != &values.front()) fields.Split();
      if (quoted || !value.known) {
        fields.Append(value.text, value.known);
      } else {
        fields.AppendSplit(value.text);
      }
      if (!all) return;
    }
  }

  // ---- redirections ----

  void Redirect() {
    const bool here = Peek() == '<' && Peek(1) == '<' && Peek(2) != '<';
    while (IsOneOf(Peek(), "<>&|")) Skip(1);
    const bool tabs = here && Peek() == '-';
    if (tabs) Skip(1);
    while (IsOneOf(Peek(), " \t") || Continues()) SkipBlank();
    const std::vector<ShellWord> target = ReadWord();
    if (here && !target.empty()) here_.push_back({target.front().text, tabs});
  }

  void SkipHereDocuments() {
    for (const HereDocument& document : std::exchange(here_, {})) {
      while (!AtEnd()) {
        std::string_view line = TakeUntil("\n");
        Skip(1);
        while (document.tabs && line.starts_with('\t')) line.remove_prefix(1);
        if (line == document.end) break;
      }
    }
  }

  // ---- commands ----

  // Reads one of ; & | ( ) or a doubled one.
  void ReadOperator(char c) {
    if (c == '(' && DefinesFunction()) return;
    EndCommand(c == '&' && Peek(1) != '&');
    if (c == ';' && Peek(1) == ';') state_.NoteKeyword(";;");
    const bool depends = IsOneOf(c, "&|") && Peek(1) == c;
    state_.SetDepends(depends);
    Skip(depends ? 2 : 1);
    while (depends && here_.empty() && IsOneOf(Peek(), kBlanks)) Skip(1);
  }

  // Skips the parentheses in the definition of a function, "name()". Returns false for any other
  // parenthesis.
  bool DefinesFunction() {
    const std::size_t end = text_.find_first_not_of(" \t", at_ + 1);
    if (words_.empty() || end == text_.npos || text_[end] != ')') return false;
    BeginFunction(std::exchange(words_, {}).back().text);
    Skip(end + 1 - at_);
    return true;
  }

  // In a function, $1 and "$@" are the function's own arguments, unless it is called with the
  // script's "$@".
  void BeginFunction(const std::string& name) {
    own_arguments_ = !text_.contains(name + " \"$@\"");
  }

  // Returns the number of keywords in front of a command. Notes which branches and functions begin
  // or end.
  std::ptrdiff_t SkipKeywords(const std::vector<ShellWord>& words) {
    std::size_t first = 0;
    for (; first < words.size(); ++first) {
      const std::string& word = words[first].text;
      // A loop that shifts usually reads options in any order: while …; do case "$1" in ….
      if (base::IsWordIn(" while until ", word) && text_.find("shift", at_) != text_.npos)
        state_.ForgetArguments();
      state_.NoteKeyword(word);
      if (word == "function") BeginFunction(words[std::min(first + 1, words.size() - 1)].text);
      if (word == "}") own_arguments_ = false;
      if (!base::IsWordIn(" if then else elif do while until ! { time exec command ", word)) break;
    }
    return static_cast<std::ptrdiff_t>(first);
  }

  void EndCommand(bool background = false) {
    const std::vector<ShellWord> words = std::exchange(words_, {});
    const auto first = words.begin() + SkipKeywords(words);
    const auto program = std::find_if(
        first, words.end(), [](const ShellWord& word) { return !AssignmentOf(word.text); });
    // The run may choose its GPUs in front of the command or after "env".
    background = background && std::ranges::none_of(words, [](const ShellWord& word) {
                   return word.text.starts_with("CUDA_VISIBLE_DEVICES=");
                 });
    ShellCommand command{
        .words = {program, words.end()}, .file = file_, .line = began_, .background = background};
    for (const ShellWord& word : std::ranges::subrange(first, program)) {
      const Assignment setting = *AssignmentOf(word.text);
      if (program == words.end()) state_.Assign(word);
      if (word.known) command.settings[setting.name] = setting.value;
    }
    if (program != words.end()) Run(std::move(command));
  }

  void Run(ShellCommand command) {
    const std::vector<ShellWord>& words = command.words;
    const std::string& name = words.front().text;
    if ((name == "source" || name == ".") && words.size() > 1)
      return ReadInside(state_.FileText(words[1]), base::BaseName(words[1].text), 1);
    if (name == "eval" && std::ranges::all_of(words, &ShellWord::known)) {
      std::string text;
      for (const ShellWord& word : words | std::views::drop(1)) text += word.text + " ";
      return ReadInside(text, file_, began_);
    }
    if (name == "eval") state_.MaySetAny();
    state_.Run(std::move(command));
  }

  // Reads the text's commands in place of the current command.
  void ReadInside(const Result<std::string>& text, std::string_view file, int line) {
    constexpr int kMostNested = 4;
    if (!text || depth_ == kMostNested || !state_.Spend(text->size())) return state_.MaySetAny();
    state_.SetDepends(false);
    ShellReader(*text, std::string(file), line, depth_ + 1, state_).Read();
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string file_;
  int line_;
  int depth_;
  ShellState& state_;
  std::vector<ShellWord> words_;  // of the command that is being read
  int began_ = 1;                 // line of the first of them
  std::vector<HereDocument> here_;
  bool own_arguments_ = false;  // in a function that is not called with the script's arguments
};

}  // namespace

std::vector<ShellWord> KnownWords(const std::vector<std::string>& words) {
  std::vector<ShellWord> known;
  for (const std::string& word : words) known.push_back({word, true});
  return known;
}

std::vector<ShellCommand> CommandsOf(std::string_view script, const std::vector<ShellWord>& args,
                                     const std::map<std::string, std::string>& environment,
                                     const SourceReader& source, ShellBranches& branches) {
  ShellState state(args, environment, source, branches);
  ShellReader(script, "", 1, 0, state).Read();
  return state.TakeCommands();
}

}  // namespace carma::estimate
