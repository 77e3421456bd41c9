#include "estimate/recipe/shell.h"

#include <algorithm>
#include <optional>
#include <ranges>
#include <utility>

#include "base/text.h"
#include "estimate/recipe/shell_text.h"

namespace carma::estimate {
namespace {

// Limits the expanded text, because variables may contain other variables.
constexpr std::size_t kMaxExpandedBytes = 4 << 20;

class ShellReader : ShellText {
 public:
  ShellReader(std::string_view text, const std::vector<std::string>& args,
              const std::map<std::string, std::string>& environment, const SourceReader& source,
              ShellBranches& branches)
      : ShellText{text, "", 1},
        args_(args),
        environment_(environment),
        source_(source),
        branches_(branches) {}

  std::vector<ShellCommand> Read() {
    ReadText();
    return std::move(commands_);
  }

 private:
  struct HereDocument {
    std::string end;
    bool tabs = false;
  };

  void ReadText() {
    while (!AtEnd() && commands_.size() < kMaxShellCommands && budget_ > 0) {
      const char c = Peek();
      if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else if (Continues()) {
        Skip(2);
      } else if (c == '#') {
        SkipLine();
      } else if (c == '\n') {
        EndCommand();
        depends_ = false;
        Skip(1);
        SkipHereDocuments();
      } else if (IsOneOf(c, ";&|()")) {
        if (c == '(' && DefinesFunction()) continue;
        EndCommand();
        if (c == ';' && Peek(1) == ';') NextBranch();
        depends_ = IsOneOf(c, "&|") && Peek(1) == c;
        Skip(depends_ ? 2 : 1);
        while (depends_ && here_.empty() && IsOneOf(Peek(), " \t\r\n")) Skip(1);
      } else if (c == '<' || c == '>') {
        Redirect();
      } else {
        if (words_.empty()) began_ = line_;
        for (ShellWord& word : ReadWord()) words_.push_back(std::move(word));
      }
    }
    EndCommand();
  }

  // ---- words ----

  std::vector<ShellWord> ReadWord() {
    Fields fields;
    while (!AtEnd()) {
      const char c = Peek();
      if (c == '(' && AssignmentOf(fields.Current()) && fields.Current().ends_with('=')) {
        ReadArray(*AssignmentOf(fields.Current()));
        return {};
      }
      if (IsOneOf(c, " \t\r\n;&|()<>")) break;
      ReadPiece(fields);
    }
    // Digits in front of a redirection are a file descriptor, as in 2>&1.
    if (IsOneOf(Peek(), "<>") && !AtEnd() && IsDigits(fields.Current())) return {};
    return fields.Take();
  }

  void ReadPiece(Fields& fields) {
    const char c = Peek();
    if (c == '\'') {
      ReadSingleQuoted(fields);
    } else if (c == '"') {
      ReadDoubleQuoted(fields);
    } else if (Continues()) {
      Skip(2);
    } else if (c == '\\') {
      Skip(1);
      if (!AtEnd()) fields.Append(text_.substr(at_, 1));
      Skip(1);
    } else if (c == '$') {
      Expand(false, fields);
    } else if (c == '`') {
      SkipBackticks();
      fields.Append("", false);
    } else {
      std::size_t end = at_ + 1;
      while (end < text_.size() && !IsOneOf(text_[end], " \t\r\n;&|()<>'\"\\$`")) ++end;
      fields.Append(text_.substr(at_, end - at_));
      Skip(end - at_);
    }
  }

  void ReadSingleQuoted(Fields& fields) {
    const std::size_t end = std::min(text_.find('\'', at_ + 1), text_.size());
    fields.Append(text_.substr(at_ + 1, end - at_ - 1));
    Skip(end + 1 - at_);
  }

  void ReadDoubleQuoted(Fields& fields) {
    Skip(1);
    fields.Append("");
    while (!AtEnd() && Peek() != '"') {
      if (Continues()) {
        Skip(2);
      } else if (Peek() == '\\' && IsOneOf(Peek(1), "\"\\$`")) {
        fields.Append(text_.substr(at_ + 1, 1));
        Skip(2);
      } else if (Peek() == '$') {
        Expand(true, fields);
      } else if (Peek() == '`') {
        SkipBackticks();
        fields.Append("", false);
      } else {
        fields.Append(text_.substr(at_, 1));
        Skip(1);
      }
    }
    Skip(1);
  }

  // Reads an array NAME=( … ), starting at the parenthesis.
  void ReadArray(const Assignment& assignment) {
    Skip(1);
    std::vector<ShellWord> items;
    while (!AtEnd() && Peek() != ')') {
      if (IsOneOf(Peek(), " \t\r\n")) {
        Skip(1);
      } else if (Continues()) {
        Skip(2);
      } else if (Peek() == '#') {
        SkipLine();
      } else if (IsOneOf(Peek(), ";&|(<>")) {
        Skip(1);
      } else {
        for (ShellWord& word : ReadWord()) items.push_back(std::move(word));
      }
    }
    Skip(1);
    if (KeepsEarlier({assignment.name, "", true}, true)) return;
    std::vector<ShellWord>& variable = variables_[assignment.name];
    if (!assignment.adds) variable.clear();
    variable.insert(variable.end(), items.begin(), items.end());
  }

  // ---- variables ----

  // Expands a variable, starting at its '$'.
  void Expand(bool quoted, Fields& fields) {
    const char next = Peek(1);
    if (next == '(') {
      SkipParentheses();
      fields.Append("", false);
    } else if (next == '{') {
      ExpandBraces(quoted, fields);
    } else if (IsNameStart(next)) {
      const std::size_t length = NameLength(text_.substr(at_ + 1));
      const std::string name(text_.substr(at_ + 1, length));
      Skip(1 + length);
      Put(ValuesOf(name), quoted, false, fields);
    } else if (next == '@' || next == '*') {
      Skip(2);
      Put(Arguments(1), quoted, true, fields);
    } else if (next >= '1' && next <= '9') {
      Skip(2);
      Put(Arguments(static_cast<std::size_t>(next - '0')), quoted, false, fields);
    } else if (IsOneOf(next, "#?$!-0") && next != '\0') {
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
    const std::size_t from = at_ + 2;
    int depth = 1;
    std::size_t end = from;
    for (; end < text_.size(); ++end) {
      if (text_[end] == '{') ++depth;
      if (text_[end] == '}' && --depth == 0) break;
    }
    const std::string_view inside = text_.substr(from, end - from);
    Skip(end + 1 - at_);
    const std::size_t digits = std::min(inside.find_first_not_of("0123456789"), inside.size());
    const std::size_t length = digits > 0 ? digits : NameLength(inside);
    if (length == 0) return fields.Append("", false);
    const std::string name(inside.substr(0, length));
    const std::vector<ShellWord> values =
        digits > 0 ? Arguments(static_cast<std::size_t>(base::ParseInt(name).value_or(0)))
                   : ValuesOf(name);
    std::string_view form = inside.substr(length);
    if (form.empty()) return Put(values, quoted, false, fields);
    if (form == "[@]" || form == "[*]") return Put(values, quoted, true, fields);
    if (form.starts_with(":-") || form.starts_with(":=")) form.remove_prefix(1);
    if (!form.starts_with('-') && !form.starts_with('=')) return fields.Append("", false);
    // If only an unread file can have set the variable, its default is the best guess.
    const bool set = !values.empty() && (digits > 0 || variables_.contains(name));
    if (!values.empty() && (!values.front().text.empty() || (set && !values.front().known)))
      return Put(values, quoted, false, fields);
    form.remove_prefix(1);
    if (form.size() >= 2 && (form[0] == '"' || form[0] == '\'') && form.back() == form[0])
      form = form.substr(1, form.size() - 2);
    const bool plain = form.find_first_of("$`\"'\\") == std::string_view::npos;
    Put({{std::string(plain ? form : ""), plain}}, quoted, false, fields);
  }

  std::vector<ShellWord> ValuesOf(const std::string& name) const {
    if (const auto own = variables_.find(name); own != variables_.end()) return own->second;
    const auto inherited = environment_.find(name);
    if (inherited != environment_.end()) return {{inherited->second, true}};
    if (sets_others_) return {{"", false}};
    return {};
  }
  // The arguments from this position on; $1 is the first.
  std::vector<ShellWord> Arguments(std::size_t first) const {
    if (!args_ || own_arguments_) return {{"", false}};
    std::vector<ShellWord> rest;
    for (std::size_t i = first; i > 0 && i <= args_->size(); ++i)
      rest.push_back({(*args_)[i - 1], true});
    return rest;
  }

  // all: whether to append every value, each as a separate word. If false, only the first value is
  // used, as in a shell.
  void Put(const std::vector<ShellWord>& values, bool quoted, bool all, Fields& fields) {
    bool first = true;
    for (const ShellWord& value : values) {
      if (!first && !all) break;
      if (value.text.size() >= budget_) {
        budget_ = 0;
        return;
      }
      budget_ -= value.text.size() + 1;
      if (!first) fields.Split();
      first = false;
      if (quoted || !value.known) {
        fields.Append(value);
      } else {
        fields.AppendSplit(value.text);
      }
    }
  }

  // ---- redirections and commands ----

  void Redirect() {
    const bool here = Peek() == '<' && Peek(1) == '<' && Peek(2) != '<';
    while (!AtEnd() && IsOneOf(Peek(), "<>&|")) Skip(1);
    const bool tabs = here && Peek() == '-';
    if (tabs) Skip(1);
    SkipBlanks();
    if (AtEnd() || Peek() == '\n') return;
    const std::vector<ShellWord> target = ReadWord();
    if (target.empty() && IsOneOf(Peek(), "()")) Skip(1);
    if (here && !target.empty()) here_.push_back({target.front().text, tabs});
  }

  void SkipHereDocuments() {
    for (const HereDocument& document : here_) {
      while (!AtEnd()) {
        const std::size_t end = std::min(text_.find('\n', at_), text_.size());
        std::string_view line = text_.substr(at_, end - at_);
        Skip(end + 1 - at_);
        while (document.tabs && line.starts_with('\t')) line.remove_prefix(1);
        if (line == document.end) break;
      }
    }
    here_.clear();
  }

  // Returns true if the variable keeps its earlier value because the assignment is in a branch.
  bool KeepsEarlier(const Assignment& assignment, bool known) {
    int branch = depends_ ? 0 : -1;
    for (const int each : open_branches_) branch = std::max(branch, each);
    const std::vector<ShellWord> earlier = ValuesOf(assignment.name);
    const bool same =
        !assignment.adds && earlier == std::vector<ShellWord>{{assignment.value, known}};
    if (branch < 0 || earlier.empty() || !earlier.front().known || same) return false;
    branches_.seen = std::max(branches_.seen, branch);
    return branch > branches_.most;
  }

  void Assign(const Assignment& assignment, bool known) {
    if (KeepsEarlier(assignment, known)) return;
    std::vector<ShellWord>& variable = variables_[assignment.name];
    if (assignment.adds && !variable.empty()) {
      ShellWord& word = variable.front();
      if (word.text.size() + assignment.value.size() >= budget_) {
        budget_ = 0;
        return;
      }
      budget_ -= assignment.value.size();
      word.text += assignment.value;
      word.known = word.known && known;
    } else {
      variable = {{assignment.value, known}};
    }
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

  void NextBranch() {
    if (!open_branches_.empty()) ++open_branches_.back();
  }

  // Returns the number of keywords in front of a command. Notes which branches and functions begin
  // or end.
  std::size_t SkipKeywords(const std::vector<ShellWord>& words) {
    std::size_t first = 0;
    for (; first < words.size(); ++first) {
      const std::string& word = words[first].text;
      // A loop that shifts usually reads options in any order: while …; do case "$1" in ….
      if (base::IsWordIn(" while until ", word) && text_.find("shift", at_) != text_.npos)
        args_.reset();
      if (word == "if" || word == "case") open_branches_.push_back(0);
      if (word == "elif" || word == "else") NextBranch();
      if ((word == "fi" || word == "esac") && !open_branches_.empty()) open_branches_.pop_back();
      if (word == "function") BeginFunction(words[std::min(first + 1, words.size() - 1)].text);
      if (word == "}") own_arguments_ = false;
      if (!base::IsWordIn(" if then else elif do while until ! { time exec command ", word)) break;
    }
    return first;
  }

  void EndCommand() {
    std::vector<ShellWord> words = std::exchange(words_, {});
    std::size_t first = SkipKeywords(words);
    ShellCommand command;
    command.line = began_;
    command.settings = exported_;
    std::vector<std::pair<Assignment, bool>> assignments;
    for (; first < words.size(); ++first) {
      std::optional<Assignment> assignment = AssignmentOf(words[first].text);
      if (!assignment) break;
      if (words[first].known) command.settings[assignment->name] = assignment->value;
      assignments.emplace_back(*std::move(assignment), words[first].known);
    }
    words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(first));
    if (words.empty()) {
      for (const auto& [assignment, known] : assignments) Assign(assignment, known);
      return;
    }
    if (RunBuiltin(words)) return;
    command.words = std::move(words);
    command.folder = folder_;
    command.file = file_;
    commands_.push_back(std::move(command));
  }

  // Runs a command that changes the shell itself. Returns false for any other command.
  bool RunBuiltin(const std::vector<ShellWord>& words) {
    const std::string& name = words.front().text;
    if (base::IsWordIn(" export declare local readonly typeset ", name)) {
      for (const ShellWord& word : words) {
        if (const auto assignment = AssignmentOf(word.text)) Assign(*assignment, word.known);
        if (name == "export") Export(word);
      }
    } else if ((name == "for" || name == "read") && words.size() > 1) {
      variables_[words[name == "for" ? 1 : words.size() - 1].text] = {{"", false}};
    } else if (name == "shift") {
      Shift(words.size() == 1 ? 1 : base::ParseInt(words[1].text).value_or(-1));
    } else if (name == "set" && words.size() > 1 &&
               (words[1].text == "--" || !IsOneOf(words[1].text[0], "-+"))) {
      args_.reset();  // "set -- a b" replaces the arguments; "set -e" does not
    } else if (name == "cd" && words.size() == 2) {
      ChangeFolder(words[1]);
    } else if ((name == "source" || name == ".") && words.size() > 1) {
      Include(source_(folder_, words[1].text), std::string(base::BaseName(words[1].text)), 1);
    } else if (name == "eval" && std::ranges::all_of(words, &ShellWord::known)) {
      std::string text;
      for (const ShellWord& word : words | std::views::drop(1)) text += word.text + " ";
      Include(text, file_, began_);
    } else {
      sets_others_ = sets_others_ || name == "eval";
      return false;
    }
    return true;
  }

  // Reads the text's commands in place of the current command. If the text is not read, it may have
  // set any variable.
  void Include(const Result<std::string>& text, const std::string& file, int line) {
    constexpr int kMostNested = 4;
    const bool unread = !text || nested_ == kMostNested || text->size() >= budget_;
    sets_others_ = sets_others_ || unread;
    if (unread) return;
    budget_ -= text->size();
    ShellText& place = *this;
    const ShellText outer = std::exchange(place, ShellText{*text, file, line});
    depends_ = own_arguments_ = false;
    ++nested_;
    ReadText();
    --nested_;
    place = outer;
  }

  void Shift(std::int64_t count) {
    if (!args_ || count < 0 || count > std::ssize(*args_)) return args_.reset();
    args_->erase(args_->begin(), args_->begin() + count);
  }

  // Exports "NAME" or "NAME=value". The caller has already assigned the value.
  void Export(const ShellWord& word) {
    constexpr std::size_t kMostExported = 200;
    const std::string name = word.text.substr(0, NameLength(word.text));
    const auto variable = variables_.find(name);
    if (variable == variables_.end() || variable->second.size() != 1) return;
    const ShellWord& value = variable->second.front();
    if (value.known && value.text.size() < 1000 && exported_.size() < kMostExported)
      exported_[name] = value.text;
  }

  void ChangeFolder(const ShellWord& word) {
    if (!word.known || word.text.empty() || word.text.size() > 4096) return;
    if (word.text.starts_with('/')) {
      folder_ = word.text;
    } else if (folder_.size() < 4096) {
      folder_ += (folder_.empty() ? "" : "/") + word.text;
    }
  }

  std::optional<std::vector<std::string>> args_;  // empty: unknown
  const std::map<std::string, std::string>& environment_;
  const SourceReader& source_;
  ShellBranches& branches_;
  int nested_ = 0;                  // files and evaluated texts inside each other
  bool sets_others_ = false;        // a text that was not read may have set any variable
  bool depends_ = false;            // the command follows && or ||
  std::vector<int> open_branches_;  // the current branch of each "if" and "case" without its end
  bool own_arguments_ = false;      // in a function that is not called with the script's arguments
  std::size_t budget_ = kMaxExpandedBytes;
  int began_ = 1;
  std::string folder_;
  std::vector<ShellWord> words_;
  std::vector<HereDocument> here_;
  std::map<std::string, std::vector<ShellWord>> variables_{{"OPTARG", {{"", false}}}};
  std::map<std::string, std::string> exported_;
  std::vector<ShellCommand> commands_;
};

}  // namespace

std::vector<ShellCommand> CommandsOf(std::string_view script, const std::vector<std::string>& args,
                                     const std::map<std::string, std::string>& environment,
                                     const SourceReader& source, ShellBranches& branches) {
  return ShellReader(script, args, environment, source, branches).Read();
}

}  // namespace carma::estimate
