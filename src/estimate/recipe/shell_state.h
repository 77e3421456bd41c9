// What the commands of a script have done so far. Only for shell.cc.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "estimate/recipe/shell.h"

namespace carma::estimate {

// The length of the name with which the text begins; 0 if there is none.
inline std::size_t NameLength(std::string_view text) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return 0;
  return std::min(text.find_first_not_of(kLetters), text.size());
}

// The parts of "NAME=value" or "NAME+=value". Empty if the word is not an assignment.
struct Assignment {
  std::string name;
  std::string value;
  bool adds = false;
};
inline std::optional<Assignment> AssignmentOf(std::string_view word) {
  const std::size_t length = NameLength(word);
  std::string_view rest = word.substr(length);
  const bool adds = rest.starts_with('+');
  if (adds) rest.remove_prefix(1);
  if (length == 0 || !rest.starts_with('=')) return std::nullopt;
  return Assignment{std::string(word.substr(0, length)), std::string(rest.substr(1)), adds};
}

// The variables, arguments, branches and folder of the shell, and the commands for other programs.
class ShellState {
 public:
  // The references must outlive this object.
  ShellState(const std::vector<ShellWord>& args,
             const std::map<std::string, std::string>& environment, const SourceReader& source,
             ShellBranches& branches)
      : args_(args), environment_(environment), source_(source), branches_(branches) {}

  // The variable's value, or the items of an array. Empty if the variable is not set.
  std::vector<ShellWord> ValuesOf(const std::string& name) const {
    if (const auto own = variables_.find(name); own != variables_.end()) return own->second;
    const auto inherited = environment_.find(name);
    if (inherited != environment_.end()) return {{inherited->second, true}};
    // CARMA sets these when it starts the task.
    if (sets_others_ || name.starts_with("CARMA_") || name.starts_with("SLURM_"))
      return {{"", false}};
    return {};
  }
  // Returns true if the script itself sets the variable.
  bool Sets(const std::string& name) const { return variables_.contains(name); }
  // The arguments from this position on; $1 is the first.
  std::vector<ShellWord> Arguments(std::int64_t first) const {
    if (!args_) return {{"", false}};
    if (first < 1 || first > std::ssize(*args_)) return {};
    return {args_->begin() + (first - 1), args_->end()};
  }
  void ForgetArguments() { args_.reset(); }
  // The text of a file that `source` names.
  Result<std::string> FileText(const ShellWord& path) const {
    if (!path.known) return NotFound("the file's name is unknown");
    return source_(folder_, path.text);
  }
  // A text that cannot be read may have set any variable.
  void MaySetAny() { sets_others_ = true; }

  // Notes which branches and loops begin or end with the word.
  void NoteKeyword(std::string_view word) {
    if (word == "do") ++loops_;
    if (word == "done") --loops_;
    if (word == "if" || word == "case") open_branches_.push_back(0);
    if (open_branches_.empty()) return;
    if (word == "elif" || word == "else" || word == ";;") ++open_branches_.back();
    if (word == "fi" || word == "esac") open_branches_.pop_back();
  }
  // depends: whether the next command follows && or ||.
  void SetDepends(bool depends) { depends_ = depends; }

  // Does nothing if the word is not an assignment.
  void Assign(const ShellWord& word) {
    const std::optional<Assignment> assignment = AssignmentOf(word.text);
    if (!assignment || KeepsEarlier(*assignment, word.known)) return;
    std::vector<ShellWord>& variable = variables_[assignment->name];
    if (!assignment->adds || variable.empty()) {
      variable = {{assignment->value, word.known}};
    } else if (Spend(assignment->value.size())) {
      variable.front().text += assignment->value;
      variable.front().known = variable.front().known && word.known;
    }
  }
  // items: the words in NAME=( … ).
  void AssignArray(const Assignment& array, const std::vector<ShellWord>& items) {
    if (KeepsEarlier({array.name, "", true}, true)) return;
    std::vector<ShellWord>& variable = variables_[array.name];
    if (!array.adds) variable.clear();
    variable.insert(variable.end(), items.begin(), items.end());
  }
  // Executes a command that changes the shell itself. Adds any other command to the result.
  void Run(ShellCommand command) {
    const std::vector<ShellWord>& words = command.words;
    const std::string& name = words.front().text;
    if (base::IsWordIn(" export declare local readonly typeset ", name)) {
      for (const ShellWord& word : words) {
        Assign(word);
        if (name == "export") Export(word.text.substr(0, NameLength(word.text)));
      }
    } else if (base::IsWordIn(" for read mapfile readarray ", name)) {
      for (std::size_t i = 1; i < words.size() && (i == 1 || name != "for"); ++i)
        variables_[words[i].text] = {{"", false}};
    } else if (name == "shift") {
      Shift(words.size() == 1 ? 1 : base::ParseInt(words[1].text).value_or(-1));
    } else if (name == "set" && words.size() > 1 &&
               (words[1].text == "--" || words[1].text.find_first_of("-+") != 0)) {
      ForgetArguments();  // "set -- a b" replaces the arguments; "set -e" does not
    } else if (name == "cd" && words.size() == 2) {
      ChangeFolder(words[1]);
    } else {
      command.settings.insert(exported_.begin(), exported_.end());
      command.folder = folder_;
      command.repeated = loops_ > 0;
      // An unknown value, such as a loop variable, differs from run to run.
      const auto gpus = variables_.find("CUDA_VISIBLE_DEVICES");
      if (gpus != variables_.end() && !std::ranges::all_of(gpus->second, &ShellWord::known))
        command.background = false;
      commands_.push_back(std::move(command));
    }
  }

  // Counts text that variables and files add to the script. Returns false if it is too much.
  bool Spend(std::size_t bytes) {
    const bool enough = bytes < budget_;
    budget_ = enough ? budget_ - bytes : 0;
    return enough;
  }
  // Returns true if a limit is reached, so that the rest of the script is not read.
  bool IsFull() const { return budget_ == 0 || commands_.size() >= kMaxShellCommands; }
  std::vector<ShellCommand> TakeCommands() { return std::move(commands_); }

 private:
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
  void Shift(std::int64_t count) {
    if (!args_ || count < 0 || count > std::ssize(*args_)) return args_.reset();
    args_->erase(args_->begin(), args_->begin() + count);
  }
  void Export(const std::string& name) {
    constexpr std::size_t kMostExported = 200;
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

  std::optional<std::vector<ShellWord>> args_;  // empty: unknown
  const std::map<std::string, std::string>& environment_;
  const SourceReader& source_;
  ShellBranches& branches_;
  std::vector<int> open_branches_;  // the current branch of each "if" and "case" without its end
  int loops_ = 0;
  bool depends_ = false;
  bool sets_others_ = false;
  std::size_t budget_ = 4 << 20;  // bytes; variables may contain other variables
  std::string folder_;
  std::map<std::string, std::vector<ShellWord>> variables_{{"OPTARG", {{"", false}}}};
  std::map<std::string, std::string> exported_;
  std::vector<ShellCommand> commands_;
};

}  // namespace carma::estimate
