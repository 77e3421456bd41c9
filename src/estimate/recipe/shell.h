// Reads a shell script's commands as text. Nothing is executed, so values that depend on running
// the script are marked as unknown.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace carma::estimate {

struct ShellWord {
  std::string text;   // without quotes, with variables expanded
  bool known = true;  // false: a part is the output of a command, a loop variable …
  friend bool operator==(const ShellWord&, const ShellWord&) = default;
};

struct ShellCommand {
  std::vector<ShellWord> words;                 // at least one; without redirections
  std::map<std::string, std::string> settings;  // exported, or set as NAME=value COMMAND
  std::string folder;                           // set by an earlier `cd`; empty: no `cd`
  int line = 0;                                 // line of the first word, from 1
};

// Returns simple commands in the order in which they appear, ignoring the conditions, loops and
// functions around them. args: the script's arguments; environment: the task's environment.
// Supports variables, arrays, defaults (${NAME:-word}), here-documents and continued lines. Returns
// at most kMaxShellCommands commands and at most a few megabytes of text, and drops everything
// beyond these limits.
inline constexpr std::size_t kMaxShellCommands = 2'000;
std::vector<ShellCommand> CommandsOf(std::string_view script, const std::vector<std::string>& args,
                                     const std::map<std::string, std::string>& environment);

}  // namespace carma::estimate
