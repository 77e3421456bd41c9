#include "cli/client/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/text.h"
#include "cli/client/verbs.h"
#include "cli/command.h"
#include "cli/shell_quote.h"

namespace carma::cli {
namespace {

// Puts help text on one line.
std::string QuotedLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return ShellQuote(text);
}

// The command that lists the tasks, one per line: number, name, state. user: a shell expression for
// the caller's name.
std::string ListCommand(TaskNames tasks, const std::string& user = "\"$(id -un)\"") {
  return fmt::format("carma list --no-header -o id,name,state -u {} {} 2>/dev/null", user,
                     tasks == TaskNames::kAll ? "--all --limit 50" : "--limit 500");
}

std::string OptionList(const std::vector<OptionFacts>& options) {
  std::vector<std::string> words;
  for (const OptionFacts& option : options) {
    if (!option.long_name.empty()) words.push_back(option.long_name);
    if (option.letter != 0) words.push_back(std::string("-") + option.letter);
  }
  return base::Join(words, " ");
}

std::vector<std::string> AllNames(const std::vector<VerbWords>& verbs) {
  std::vector<std::string> names;
  for (const VerbWords& verb : verbs)
    names.insert(names.end(), verb.names.begin(), verb.names.end());
  return names;
}

// Returns the pattern of a bash `case` branch for an option. place: `verb/subverb`, or `verb/*` for
// an option of the verb itself. For example: list/*/--state|list/*/-t.
std::string BashPatterns(const std::string& place, const OptionFacts& option) {
  std::vector<std::string> patterns;
  if (!option.long_name.empty()) patterns.push_back(place + "/" + option.long_name);
  if (option.letter != 0) patterns.push_back(place + "/-" + option.letter);
  return base::Join(patterns, "|");
}

std::string BashValueCases(const std::string& place, const std::vector<OptionFacts>& options) {
  std::string cases;
  for (const OptionFacts& option : options) {
    if (option.values.words.empty()) continue;
    cases += fmt::format("    {}) values={}{} ;;\n", BashPatterns(place, option),
                         ShellQuote(base::Join(option.values.words, " ")),
                         option.values.list ? " list=yes" : "");
  }
  return cases;
}

// The values of a verb's subverbs come first, because `case` takes the first matching pattern.
std::string BashValues(const VerbWords& verb) {
  std::string cases;
  for (const std::string& name : verb.names) {
    for (const VerbWords& sub : verb.verbs) {
      for (const std::string& sub_name : sub.names)
        cases += BashValueCases(name + "/" + sub_name, sub.options);
    }
    cases += BashValueCases(name + "/*", verb.options);
  }
  return cases;
}

std::string BashNames(const std::vector<std::string>& names) {
  return names.empty() ? "" : " names=" + ShellQuote(base::Join(names, " "));
}

// Returns an assignment that makes bash complete task numbers or file names for the verb, or "".
std::string BashArguments(const VerbWords& verb) {
  if (verb.tasks == TaskNames::kAll) return " tasks=all";
  if (verb.tasks == TaskNames::kOpen) return " tasks=open";
  return verb.takes_files && verb.words.empty() ? " files=yes" : "";
}

// A `case` branch for each verb and each `verb/subverb`. The branch of a verb comes after those of
// its subverbs, because its pattern also matches them.
std::string BashCases(const VerbWords& verb) {
  std::string cases;
  for (const std::string& name : verb.names) {
    for (const VerbWords& sub : verb.verbs) {
      for (const std::string& sub_name : sub.names) {
        cases += fmt::format("    {}/{}) words={}{} ;;\n", name, sub_name,
                             ShellQuote(OptionList(sub.options)), BashNames(sub.words));
      }
    }
    std::vector<std::string> names = AllNames(verb.verbs);
    names.insert(names.end(), verb.words.begin(), verb.words.end());
    cases += fmt::format("    {}/*) words={}{}{} ;;\n", name, ShellQuote(OptionList(verb.options)),
                         BashNames(names), BashArguments(verb));
  }
  return cases;
}

std::string Bash(const std::vector<VerbWords>& verbs, const std::vector<OptionFacts>& global) {
  std::string cases;
  std::string values;
  for (const VerbWords& verb : verbs) {
    cases += BashCases(verb);
    values += BashValues(verb);
  }
  return fmt::format(
      "_carma_tasks() {{\n"
      "  local id rest\n"
      "  if [[ $1 == all ]]; then {}; else {}; fi | while read -r id rest; do echo \"$id\"; done\n"
      "}}\n"
      "_carma() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} verb= sub= word words= names= files= tasks= i\n"
      "  local option=${{COMP_WORDS[COMP_CWORD-1]}} values= list= before=\n"
      "  if [[ $current == = ]]; then current=\n"
      "  elif [[ $option == = ]]; then option=${{COMP_WORDS[COMP_CWORD-2]}}\n"
      "  fi\n"
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    word=${{COMP_WORDS[i]}}\n"
      "    if [[ $word == --socket ]]; then ((++i))\n"
      "    elif [[ $word == -* ]]; then :\n"
      "    elif [[ -z $verb ]]; then verb=$word\n"
      "    else sub=$word; break\n"
      "    fi\n"
      "  done\n"
      "  case $verb/$sub in\n"
      "    /*) names={} ;;\n"
      "{}"
      "  esac\n"
      "  case $verb/$sub/$option in\n"
      "{}"
      "  esac\n"
      "  if [[ -n $tasks && -z $values && $current != -* ]]; then\n"
      "    list=yes values=$(_carma_tasks $tasks)\n"
      "    [[ -n $values ]] || {{ COMPREPLY=(); return; }}\n"
      "  fi\n"
      "  [[ -n $list && $current == *,* ]] && before=${{current%,*}},\n"
      "  if [[ -n $values ]]; then\n"
      "    COMPREPLY=($(compgen -P \"$before\" -W \"$values\" -- \"${{current#\"$before\"}}\"))\n"
      "  elif [[ $current == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$words {}\" -- \"$current\"))\n"
      "  elif [[ -n $names ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$names\" -- \"$current\"))\n"
      "    [[ -z $files ]] || mapfile -t -O ${{#COMPREPLY[@]}} COMPREPLY < <(compgen -f -- "
      "\"$current\")\n"
      "  else\n"
      "    mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
      "  fi\n"
      "}}\n"
      "complete -o filenames -F _carma carma\n",
      ListCommand(TaskNames::kAll), ListCommand(TaskNames::kOpen),
      ShellQuote(base::Join(AllNames(verbs), " ")), cases, values, OptionList(global));
}

// The zsh action that completes a value.
std::string ZshAction(const Choices& choices) {
  const std::string words = base::Join(choices.words, " ");
  if (words.empty()) return "_files";
  return choices.list ? "_sequence compadd - " + words : "(" + words + ")";
}

// An option in the notation of zsh's _arguments: "-G", "--gpus" or both.
std::string ZshOption(const OptionFacts& option) {
  std::string help;
  for (char c : option.help) help += c == '[' || c == ']' || c == ':' ? ' ' : c;
  const std::string value = option.takes_value ? ":value:" + ZshAction(option.values) : "";
  std::string specs;
  if (option.letter != 0)
    specs += " " + ShellQuote(fmt::format("*-{}[{}]{}", option.letter, help, value));
  if (!option.long_name.empty()) {
    const char* equals = option.takes_value ? "=" : "";
    specs += " " + ShellQuote(fmt::format("*{}{}[{}]{}", option.long_name, equals, help, value));
  }
  return specs;
}

std::string ZshArguments(const std::string& options, const std::vector<std::string>& words,
                         TaskNames tasks = TaskNames::kNone) {
  std::string action = ZshAction({.words = words});
  if (tasks == TaskNames::kOpen) action = "_carma_tasks open";
  if (tasks == TaskNames::kAll) action = "_carma_tasks all";
  return fmt::format("_arguments -S{} '*:argument:{}'", options, action);
}

// zsh code that completes a verb, then its words and subverbs. takes_files: the user may name a
// file instead of a verb.
std::string ZshChoice(const std::vector<VerbWords>& verbs, const std::string& options,
                      const std::string& global, bool takes_files) {
  std::string descriptions;
  std::string cases;
  for (const VerbWords& verb : verbs) {
    std::string specs;
    for (const OptionFacts& option : verb.options) specs += ZshOption(option);
    for (const std::string& name : verb.names)
      descriptions += " " + QuotedLine(name + ":" + verb.help);
    const std::string taken = verb.verbs.empty()
                                  ? ZshArguments(specs + global, verb.words, verb.tasks)
                                  : ZshChoice(verb.verbs, specs + global, global, verb.takes_files);
    cases += fmt::format("    {}) {} ;;\n", base::Join(verb.names, "|"), taken);
  }
  if (takes_files) cases += "    *) " + ZshArguments(options, {}) + " ;;\n";
  return fmt::format(
      "verbs=({})\n"
      "  _arguments -C{} '1:verb:->verb' '*::argument:->rest'\n"
      "  case $state in\n"
      "    verb) _describe verb verbs;{} return ;;\n"
      "  esac\n"
      "  case $line[1] in\n"
      "{}"
      "  esac",
      descriptions, options, takes_files ? " _files;" : "", cases);
}

std::string Zsh(const std::vector<VerbWords>& verbs, const std::vector<OptionFacts>& global) {
  std::string global_specs;
  for (const OptionFacts& option : global) global_specs += ZshOption(option);
  return fmt::format(
      "#compdef carma\n"
      "_carma_tasks() {{\n"
      "  local id rest\n"
      "  local -a tasks\n"
      "  if [[ $1 == all ]]; then {}; else {}; fi | while read -r id rest; do\n"
      "    tasks+=(\"$id:$rest\")\n"
      "  done\n"
      "  compset -P '*,'\n"
      "  _describe -V task tasks\n"
      "}}\n"
      "_carma() {{\n"
      "  local context state state_descr line\n"
      "  typeset -A opt_args\n"
      "  local -a verbs\n"
      "  {}\n"
      "}}\n"
      "if [[ $funcstack[1] == _carma ]]; then _carma \"$@\"; else compdef _carma carma; fi\n",
      ListCommand(TaskNames::kAll), ListCommand(TaskNames::kOpen),
      ZshChoice(verbs, global_specs, global_specs, false));
}

std::string FishOption(const OptionFacts& option) {
  std::string line;
  if (option.letter != 0) line += fmt::format(" -s {}", option.letter);
  if (!option.long_name.empty()) line += " -l " + option.long_name.substr(2);
  if (option.takes_value) line += " -r";
  if (!option.values.words.empty()) {
    const std::string words = base::Join(option.values.words, " ");
    line += " -f -a " + ShellQuote(option.values.list ? "(__fish_append , " + words + ")" : words);
  }
  return line + " -d " + QuotedLine(option.help) + "\n";
}

// where: fish's condition for offering these verbs. takes_files: true to offer files too.
std::string FishVerbs(const std::vector<VerbWords>& verbs, const std::string& where,
                      const std::string& seen_before, bool takes_files) {
  std::string out;
  for (const VerbWords& verb : verbs) {
    for (const std::string& name : verb.names) {
      out += fmt::format("complete -c carma -n {}{} -a {} -d {}\n", ShellQuote(where),
                         takes_files ? "" : " -f", name, QuotedLine(verb.help));
    }
    const std::string seen =
        seen_before + "__fish_seen_subcommand_from " + base::Join(verb.names, " ");
    for (const OptionFacts& option : verb.options)
      out += "complete -c carma -n " + ShellQuote(seen) + FishOption(option);
    if (!verb.words.empty()) {
      out += fmt::format("complete -c carma -n {} -f -a {}\n", ShellQuote(seen),
                         ShellQuote(base::Join(verb.words, " ")));
    }
    if (verb.tasks != TaskNames::kNone) {
      out += fmt::format("complete -c carma -n {} -f -a '(__carma_tasks {})'\n", ShellQuote(seen),
                         verb.tasks == TaskNames::kAll ? "all" : "open");
    }
    if (verb.verbs.empty()) continue;
    out += FishVerbs(
        verb.verbs,
        seen + "; and not __fish_seen_subcommand_from " + base::Join(AllNames(verb.verbs), " "),
        seen + "; and ", verb.takes_files);
  }
  return out;
}

std::string Fish(const std::vector<VerbWords>& verbs, const std::vector<OptionFacts>& global) {
  std::string out = fmt::format(
      "function __carma_tasks\n"
      "  if test $argv[1] = all\n    {}\n  else\n    {}\n"
      "  end | string trim | string replace -r '\\s+' '\\t'\n"
      "end\n",
      ListCommand(TaskNames::kAll, "(id -un)"), ListCommand(TaskNames::kOpen, "(id -un)"));
  for (const OptionFacts& option : global) out += "complete -c carma" + FishOption(option);
  return out + FishVerbs(verbs, "__fish_use_subcommand", "", false);
}

// verb: for example "trace info"; empty for the options of all verbs.
std::vector<OptionFacts> OptionsOf(Syntax syntax, const std::string& verb, const Context& context) {
  std::vector<OptionFacts> options = syntax.options();
  for (OptionFacts& option : options)
    option.values = context.program->choices(verb, option.long_name);
  return options;
}

// above: the parent verb of these verbs, followed by a space.
std::vector<VerbWords> VerbsOf(Syntax app, const Context& context, const std::string& above = "") {
  std::vector<VerbWords> verbs;
  for (const Syntax each : app.verbs()) {
    const std::string name = above + each.names()[0];
    const std::vector<std::string> arguments = each.arguments();
    const bool takes_tasks = std::ranges::find(arguments, "tasks") != arguments.end();
    verbs.push_back({.names = each.names(),
                     .help = each.help(),
                     .options = OptionsOf(each, name, context),
                     .verbs = VerbsOf(each, context, name + " "),
                     .words = context.program->choices(name, "").words,
                     .tasks = takes_tasks ? TasksWorthNaming(name) : TaskNames::kNone,
                     .takes_files = !arguments.empty()});
  }
  return verbs;
}

}  // namespace

Result<std::string> CompletionScript(const std::string& shell, const std::vector<VerbWords>& verbs,
                                     const std::vector<OptionFacts>& global) {
  if (shell == "bash") return Bash(verbs, global);
  if (shell == "zsh") return Zsh(verbs, global);
  if (shell == "fish") return Fish(verbs, global);
  return Invalid("shell '" + base::Printable(shell, 40) + "': expected bash, zsh or fish");
}

void AddCompletionCommand(Syntax app, Context& context) {
  auto shell = std::make_shared<std::string>();
  const Syntax verb = app.AddVerb("completion", "Print a shell's completion script");
  verb.Footer(
      "  source <(carma completion bash)\n"
      "  carma completion fish | source\n"
      "\nEvery verb also takes --json and --socket PATH.");
  verb.AddOption("shell", "", *shell, "bash, zsh or fish").Required();
  verb.OnRun([app, &context, shell] {
    const auto script =
        CompletionScript(*shell, VerbsOf(app, context), OptionsOf(app, "", context));
    if (!script) return context.Fail(script.error());
    Print(context, *script);
  });
}

}  // namespace carma::cli
