// Reads a shell script's commands as text. Nothing is executed, so values that depend on running
// the script are marked as unknown.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace carma::estimate {

struct ShellWord {
  std::string text;  // without quotes, with variables expanded
  // False if a part of the text is known only when the script runs: the output of a command, a loop
  // variable, an argument of a function, or a variable set by a file that cannot be read.
  bool known = true;
  friend bool operator==(const ShellWord&, const ShellWord&) = default;
};

// Words that do not pass through a shell.
std::vector<ShellWord> KnownWords(const std::vector<std::string>& words);

struct ShellCommand {
  std::vector<ShellWord> words;                 // at least one; without redirections
  std::map<std::string, std::string> settings;  // exported, or set as NAME=value COMMAND
  std::string folder;                           // set by an earlier `cd`; empty: no `cd`
  std::string file;                             // read by `source`; empty: the script itself
  int line = 0;                                 // line of the first word, from 1
  bool background = false;                      // ends with "&" and does not choose its own GPUs
  bool repeated = false;                        // in a loop
};

// Assignments in branches, whose conditions are not evaluated. The branches of each if and case are
// numbered from 0; a command after && or || counts as branch 0.
struct ShellBranches {
  int most = std::numeric_limits<int>::max();  // later branches do not replace an earlier value
  int seen = -1;                               // set to the last branch that would replace one
};

// Returns the text of a file that `source` names. folder: as in ShellCommand.
using SourceReader =
    std::function<Result<std::string>(const std::string& folder, const std::string& path)>;

// Returns simple commands in the order in which they appear, ignoring the conditions, loops and
// functions around them. args: the script's arguments; environment: the task's environment.
// Supports variables, arrays, defaults (${NAME:-word}), here-documents, continued lines, `source`
// and `eval`. Returns at most kMaxShellCommands commands and at most a few megabytes of text, and
// drops everything beyond these limits.
inline constexpr std::size_t kMaxShellCommands = 2'000;
std::vector<ShellCommand> CommandsOf(std::string_view script, const std::vector<ShellWord>& args,
                                     const std::map<std::string, std::string>& environment,
                                     const SourceReader& source, ShellBranches& branches);

}  // namespace carma::estimate
