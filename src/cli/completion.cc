#include "cli/completion.h"

#include <fmt/format.h>

#include "base/text.h"

namespace carma::cli {
namespace {

// Text inside '…' of a shell.
std::string Quote(std::string_view text) {
  std::string out = "'";
  for (char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out.push_back(c == '\n' ? ' ' : c);
    }
  }
  return out + "'";
}

std::string OptionList(const std::vector<OptionWords>& options) {
  std::vector<std::string> words;
  for (const OptionWords& option : options) {
    if (!option.long_name.empty()) words.push_back(option.long_name);
    if (option.letter != 0) words.push_back(std::string("-") + option.letter);
  }
  return base::Join(words, " ");
}

std::string Bash(const std::vector<VerbWords>& verbs, const std::vector<OptionWords>& global) {
  std::vector<std::string> names;
  std::string cases;
  for (const VerbWords& verb : verbs) {
    names.insert(names.end(), verb.names.begin(), verb.names.end());
    cases += fmt::format("    {}) words={} ;;\n", base::Join(verb.names, "|"),
                         Quote(OptionList(verb.options)));
  }
  return fmt::format(
      "_carma() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} verb= word words= i\n"
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    word=${{COMP_WORDS[i]}}\n"
      "    if [[ $word == --socket ]]; then ((++i)); elif [[ $word != -* ]]; then verb=$word; "
      "break; "
      "fi\n"
      "  done\n"
      "  case $verb in\n"
      "    '') words={} ;;\n"
      "{}"
      "  esac\n"
      "  if [[ -z $verb || $current == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$words {}\" -- \"$current\"))\n"
      "  else\n"
      "    COMPREPLY=($(compgen -f -- \"$current\"))\n"
      "  fi\n"
      "}}\n"
      "complete -o filenames -F _carma carma\n",
      Quote(base::Join(names, " ")), cases, OptionList(global));
}

// One option of zsh's _arguments, "-G", "--gpus" or both.
std::string ZshOption(const OptionWords& option) {
  std::string help;
  for (char c : option.help) help += c == '[' || c == ']' || c == ':' ? ' ' : c;
  const std::string value = option.takes_value ? ":value:_files" : "";
  std::string specs;
  if (option.letter != 0) {
    specs += " " + Quote(fmt::format("*-{}[{}]{}", option.letter, help, value));
  }
  if (!option.long_name.empty()) {
    const char* equals = option.takes_value ? "=" : "";
    specs += " " + Quote(fmt::format("*{}{}[{}]{}", option.long_name, equals, help, value));
  }
  return specs;
}

std::string Zsh(const std::vector<VerbWords>& verbs, const std::vector<OptionWords>& global) {
  std::string descriptions;
  std::string cases;
  std::string global_specs;
  for (const OptionWords& option : global) global_specs += ZshOption(option);
  for (const VerbWords& verb : verbs) {
    for (const std::string& name : verb.names) {
      descriptions += " " + Quote(name + ":" + verb.help);
    }
    std::string specs;
    for (const OptionWords& option : verb.options) specs += ZshOption(option);
    cases += fmt::format("    {}) _arguments -S{}{} '*:argument:_files' ;;\n",
                         base::Join(verb.names, "|"), specs, global_specs);
  }
  return fmt::format(
      "#compdef carma\n"
      "_carma() {{\n"
      "  local context state state_descr line\n"
      "  typeset -A opt_args\n"
      "  local -a verbs=({})\n"
      "  _arguments -C{} '1:verb:->verb' '*::argument:->rest'\n"
      "  case $state in\n"
      "    verb) _describe verb verbs; return ;;\n"
      "  esac\n"
      "  case $line[1] in\n"
      "{}"
      "  esac\n"
      "}}\n"
      "if [[ $funcstack[1] == _carma ]]; then _carma \"$@\"; else compdef _carma carma; fi\n",
      descriptions, global_specs, cases);
}

std::string FishOption(const OptionWords& option) {
  std::string line;
  if (option.letter != 0) line += fmt::format(" -s {}", option.letter);
  if (!option.long_name.empty()) line += " -l " + option.long_name.substr(2);
  if (option.takes_value) line += " -r";
  return line + " -d " + Quote(option.help) + "\n";
}

std::string Fish(const std::vector<VerbWords>& verbs, const std::vector<OptionWords>& global) {
  std::string out;
  for (const OptionWords& option : global) out += "complete -c carma" + FishOption(option);
  for (const VerbWords& verb : verbs) {
    for (const std::string& name : verb.names) {
      out += fmt::format("complete -c carma -n __fish_use_subcommand -f -a {} -d {}\n", name,
                         Quote(verb.help));
    }
    for (const OptionWords& option : verb.options) {
      out += fmt::format("complete -c carma -n '__fish_seen_subcommand_from {}'",
                         base::Join(verb.names, " ")) +
             FishOption(option);
    }
  }
  return out;
}

}  // namespace

base::Result<std::string> CompletionScript(const std::string& shell,
                                           const std::vector<VerbWords>& verbs,
                                           const std::vector<OptionWords>& global) {
  if (shell == "bash") return Bash(verbs, global);
  if (shell == "zsh") return Zsh(verbs, global);
  if (shell == "fish") return Fish(verbs, global);
  return base::Fail(base::ErrorCode::kInvalid,
                    "shell '" + base::Printable(shell, 40) + "': expected bash, zsh or fish");
}

}  // namespace carma::cli
