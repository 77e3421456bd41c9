// Runs the whole program: finds the verb, splits off the task's command, and reports errors.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

#include "base/file.h"
#include "base/suggest.h"
#include "base/text.h"
#include "cli/client/verbs.h"
#include "cli/command.h"

namespace carma::cli {
namespace {

bool TakesValue(const CLI::App& app, const CLI::App& verb, const std::string& name) {
  const CLI::Option* option = verb.get_option_no_throw(name);
  if (!option) option = app.get_option_no_throw(name);
  return option && option->get_items_expected_min() > 0;
}

// The number of words that an option and its value take up: 2 for "--gpus 2" and "-HG 2", 1 for
// "--gpus=2" and "-G2".
std::size_t OptionLength(const CLI::App& app, const CLI::App& verb, const std::string& word) {
  if (word.starts_with("--")) {
    const bool has_value = word.find('=') != std::string::npos;
    return !has_value && TakesValue(app, verb, word) ? 2 : 1;
  }
  for (std::size_t i = 1; i < word.size(); ++i) {
    if (TakesValue(app, verb, std::string("-") + word[i])) return i + 1 == word.size() ? 2 : 1;
  }
  return 1;
}

bool IsOption(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && word != "--";
}

// The position of the first word after the options that begin at `at`.
std::size_t SkipOptions(const CLI::App& app, const CLI::App& verb,
                        const std::vector<std::string>& words, std::size_t at) {
  while (at < words.size() && IsOption(words[at])) at += OptionLength(app, verb, words[at]);
  return std::min(at, words.size());
}

CLI::App* FindVerb(CLI::App& app, const std::string& name) {
  for (CLI::App* verb : app.get_subcommands({})) {
    if (verb->check_name(name)) return verb;
  }
  return nullptr;
}

// Verbs of other programs, each with its counterpart in CARMA.
constexpr std::pair<std::string_view, std::string_view> kForeignVerbs[] = {
    {"kill", "cancel"},  {"stop", "cancel"}, {"rm", "cancel"},     {"scancel", "cancel"},
    {"ps", "list"},      {"squeue", "list"}, {"sbatch", "submit"}, {"srun", "run"},
    {"tail", "logs -f"}, {"jobs", "list"},   {"info", "show"},     {"unhold", "release"},
    {"pause", "hold"},   {"retry", "redo"},  {"rerun", "redo"},    {"resubmit", "redo"},
    {"prio", "priority"}};
// Options of other programs, each with the corresponding option of CARMA. Their spellings differ
// too much for CARMA's suggestions of similar options.
constexpr std::pair<std::string_view, std::string_view> kForeignOptions[] = {
    {"--gpu-memory", "--gpu-mem"},
    {"--depends-on", "--dependency"},
    {"--dry-run", "--check"},
    {"--max-retries", "--retries"}};

Result<Unit> NoVerb(CLI::App& app, const std::string& word) {
  const auto foreign =
      std::ranges::find(kForeignVerbs, word, [](const auto& each) { return each.first; });
  if (foreign != std::end(kForeignVerbs))
    return Invalid("no verb '{}', did you mean carma {}?", word, foreign->second);
  std::vector<std::string> known;
  for (const CLI::App* verb : app.get_subcommands({})) known.push_back(verb->get_name());
  const std::string meant = base::Suggestion(word, known);
  return Invalid("no verb '" + base::Printable(word, 40) +
                 (meant.empty() ? "' (see carma --help)" : "'" + meant));
}

// Removes the words that CLI11 must not parse: the command of `submit`, `run`, `shell`, `lease` and
// `pilot`, and the words of `estimate` after "--" or "--run". Returns kInvalid if there is no such
// verb.
Result<Unit> SplitCommand(CLI::App& app, std::vector<std::string>& words, Context& context) {
  const std::size_t verb_at = SkipOptions(app, app, words, 0);
  if (verb_at == words.size()) return Unit{};
  // "carma help submit" means "carma submit --help", as in other programs.
  if (words[verb_at] == "help") {
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(verb_at));
    words.emplace_back("--help");
    return Unit{};
  }
  const CLI::App* found = FindVerb(app, words[verb_at]);
  if (!found) return NoVerb(app, words[verb_at]);
  if (found->get_name() == "estimate") {
    const auto dashes =
        std::find(words.begin() + static_cast<std::ptrdiff_t>(verb_at), words.end(), "--");
    const std::size_t file_at = SkipOptions(app, *found, words, verb_at + 1);
    const auto file = words.begin() + static_cast<std::ptrdiff_t>(file_at);
    if (std::find(words.begin(), file, "--run") != file && file < dashes) {
      context.literal = true;
      context.words.assign(file, words.end());
      words.erase(file, words.end());
      return Unit{};
    }
    context.literal = dashes != words.end();
    if (context.literal) context.words.assign(dashes + 1, words.end());
    words.erase(dashes, words.end());
    return Unit{};
  }
  const std::string name = found->get_name();
  const bool takes_command =
      name == "submit" || name == "run" || name == "shell" || name == "pilot" || name == "lease";
  if (!takes_command) return Unit{};
  const CLI::App& verb = *found;
  const std::size_t at = SkipOptions(app, verb, words, verb_at + 1);
  context.literal = at < words.size() && words[at] == "--";
  const auto first = words.begin() + static_cast<std::ptrdiff_t>(at);
  context.words.assign(first + (context.literal ? 1 : 0), words.end());
  words.erase(first, words.end());
  return Unit{};
}

void AddOne(CLI::App& app, const Verb& verb, Context& context) {
  if (verb.add) return verb.add(Syntax(&app), context);
  app.add_subcommand(std::string(verb.name), std::string(verb.help))->prefix_command();
}

// Adds the requested verb with its subverbs. Adds all verbs if none is requested.
void AddVerbs(CLI::App& app, const std::vector<std::string>& words, Context& context) {
  const std::size_t at = SkipOptions(app, app, words, 0);
  const std::string asked = at < words.size() ? words[at] : "";
  const std::vector<Verb>& verbs = context.program->verbs;
  const bool one = asked != "completion" && std::ranges::any_of(verbs, [&](const Verb& verb) {
                     return verb.parent.empty() && verb.name == asked;
                   });
  for (const Verb& verb : verbs) {
    if (verb.parent.empty() && (!one || verb.name == asked)) AddOne(app, verb, context);
  }
  for (const Verb& verb : verbs) {
    if (verb.parent.empty() || (one && verb.parent != asked)) continue;
    AddOne(*FindVerb(app, std::string(verb.parent)), verb, context);
  }
}

// Returns the verb in these words if carma-lab runs it, else "". An installed carma-lab also runs
// `completion`, because only carma-lab knows the options of all verbs.
std::string VerbOfLaboratory(const CLI::App& app, const std::vector<std::string>& words,
                             const Context& context) {
  std::size_t at = SkipOptions(app, app, words, 0);
  if (at < words.size() && words[at] == "help") ++at;
  const std::string asked = at < words.size() ? words[at] : "";
  const std::string below = at + 1 < words.size() ? words[at + 1] : "";
  for (const Verb& verb : context.program->verbs) {
    if (verb.add) continue;
    if (verb.parent.empty() && verb.name == asked) return asked;
    if (verb.parent == asked && verb.name == below) return asked + " " + below;
    if (asked == "completion" && base::Exists(context.laboratory)) return asked;
  }
  return "";
}

// The most common commands, shown if no verb is given.
constexpr const char* kVerbsOfTheDay =
    "  carma submit train.sh     submit a task to the queue; options go before the command\n"
    "  carma run python3 t.py    run a task here, in this terminal\n"
    "  carma list                what is running or waiting, and why\n"
    "  carma top                 the same, updated live, with the GPUs\n"
    "  carma logs -f             follow the output of my last task\n"
    "  carma explain             why my last task is waiting, or how it ended\n"
    "  carma cancel 42           stop a task\n"
    "  carma gpus                memory and activity of each GPU\n"
    "All verbs: carma --help. One verb: carma submit --help.\n";

// The message for an unknown word such as "--tiem", with similar options of the verb.
std::string UnknownWord(const CLI::App& app, const CLI::App& verb, const std::string& word) {
  if (!word.starts_with("-")) return fmt::format("unexpected word '{}'", base::Printable(word, 60));
  std::vector<std::string> known;
  for (const CLI::App* each : {&app, &verb}) {
    for (const CLI::Option* option : each->get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
  }
  const std::string option = word.substr(0, word.find('='));
  const auto foreign =
      std::ranges::find(kForeignOptions, option, [](const auto& each) { return each.first; });
  if (foreign != std::end(kForeignOptions) && std::ranges::count(known, foreign->second) > 0)
    return fmt::format("unknown option {}, did you mean {}?", option, foreign->second);
  // Nothing is suggested for a single letter, because every letter resembles some short option.
  const std::string meant = word.starts_with("--") ? base::Suggestion(option, known) : "";
  return fmt::format("unknown option {}{}", base::Printable(option, 60), meant);
}

// The first example in the verb's help.
std::string ExampleOf(const CLI::App& verb) {
  const std::string footer = verb.get_footer();
  const std::string_view line = base::Trim(std::string_view(footer).substr(0, footer.find('\n')));
  return std::string(line.substr(0, line.find("   ")));
}

// Rewrites "--limit: Value all not in range 1 to 100" (since CLI11 2.4 "[1 - 100]") in CARMA's
// words; empty if the text has a different form.
std::string OutOfRange(std::string_view text) {
  constexpr std::string_view kValue = ": Value ", kRange = " not in range ";
  const std::size_t value = text.find(kValue), range = text.find(kRange);
  if (value == text.npos || range == text.npos || range < value) return "";
  const std::size_t begin = value + kValue.size();
  std::string bounds(text.substr(range + kRange.size()));
  if (bounds.starts_with('[')) {
    bounds = bounds.substr(1, bounds.find(']') - 1);
    if (const std::size_t dash = bounds.find(" - "); dash != bounds.npos)
      bounds.replace(dash, 3, " to ");
  }
  std::vector<std::string> words;
  for (std::string_view word : base::Split(bounds, ' ')) {
    // CLI11 writes fractions with six digits: "0.100000 to 3600.000000".
    if (word.contains('.')) word = word.substr(0, word.find_last_not_of('0') + 1);
    if (word.ends_with('.')) word.remove_suffix(1);
    words.emplace_back(word);
  }
  return fmt::format("{}: expected a number from {}, not '{}'", text.substr(0, value),
                     base::Join(words, " "), text.substr(begin, range - begin));
}

// Rewrites "--limit: 1 required N:UINT in [1 - 10] missing" in CARMA's words; empty if the text has
// a different form.
std::string MissingValue(const CLI::App& verb, std::string_view text) {
  constexpr std::string_view kRequired = ": 1 required ", kMissing = " missing";
  const std::size_t at = text.find(kRequired);
  if (at == text.npos || !text.ends_with(kMissing)) return "";
  const std::string name(text.substr(0, at));
  const CLI::Option* option = verb.get_option_no_throw(name);
  const bool has_letter = option != nullptr && !option->get_snames().empty();
  const std::string letter = has_letter ? fmt::format(" (-{})", option->get_snames()[0]) : "";
  const std::string_view type = text.substr(at + kRequired.size());
  return fmt::format("{}{}: expected a value ({})", name, letter,
                     type.substr(0, type.find_first_of(": ")));
}

// The message for a missing or unknown subverb, as in "carma slurm chek". It lists the subverbs.
std::string MissingVerb(CLI::App& app, const CLI::App& verb) {
  std::vector<std::string> known;
  for (const CLI::App* each : verb.get_subcommands({})) known.push_back(each->get_name());
  const std::vector<std::string> typed = app.remaining(true);
  if (typed.empty()) return "expected one of " + base::Join(known, ", ");
  return fmt::format("no '{} {}'{} (expected one of {})", verb.get_name(),
                     base::Printable(typed.front(), 60), base::Suggestion(typed.front(), known),
                     base::Join(known, ", "));
}

// path: the verb with its parents, such as "carma reserve list".
std::string MistakeText(CLI::App& app, const CLI::ParseError& error, const std::string& path) {
  const CLI::App* verb = &app;
  while (!verb->get_subcommands().empty()) verb = verb->get_subcommands().front();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> extra = app.remaining(true);
    if (!extra.empty()) return UnknownWord(app, *verb, extra.front());
  }
  const bool missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const std::string_view text = error.what();
  if (missing) {
    // An argument that seems to be missing may have been read as the value of an unknown option.
    for (const std::string& word : app.remaining(true)) {
      if (IsOption(word)) return UnknownWord(app, *verb, word);
    }
  }
  if (std::string value = MissingValue(*verb, text); !value.empty()) return value;
  if (missing && verb != &app && !verb->get_subcommands({}).empty()) return MissingVerb(app, *verb);
  if (missing && verb != &app)
    return fmt::format("expected {}, for example: {}", text.substr(0, text.find(" is required")),
                       ExampleOf(*verb));
  if (const std::size_t at = text.find(": At Most 1 required"); at != text.npos)
    return std::string(text.substr(0, at)) + ": given more than once";
  constexpr std::string_view kExcludes = " excludes ";
  if (const std::size_t at = text.find(kExcludes); at != text.npos) {
    const std::string_view one = text.substr(0, at), other = text.substr(at + kExcludes.size());
    return one == verb->get_name() ? fmt::format("{} takes no {}", path, other)
                                   : fmt::format("{} cannot be combined with {}", one, other);
  }
  constexpr std::string_view kConvert = "Could not convert: ", kIs = " = ";
  if (const std::size_t is = text.find(kIs); text.starts_with(kConvert) && is != text.npos)
    return fmt::format("{}: expected a number, not '{}', for example: {}",
                       text.substr(kConvert.size(), is - kConvert.size()),
                       text.substr(is + kIs.size()), ExampleOf(*verb));
  const std::string range = OutOfRange(text);
  return range.empty() ? std::string(text) : range;
}

// Prints the error, or the help: CLI11 throws an exception for both. Returns the exit code.
int Tell(CLI::App& app, const CLI::ParseError& error, Context& context) {
  if (error.get_exit_code() == 0) {
    std::ostringstream out;
    std::ostringstream err;
    app.exit(error, out, err);
    Print(context, out.str());
    return 0;
  }
  if (app.get_subcommands().empty() && app.remaining(true).empty() &&
      dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    std::fputs(kVerbsOfTheDay, context.err);
    return kExitUsage;
  }
  std::string verb = "carma";
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    verb += " " + at->get_name();
  }
  std::fprintf(context.err, "carma: %s (see %s --help)\n",
               base::Printable(MistakeText(app, error, verb), 1000).c_str(), verb.c_str());
  return kExitUsage;
}

// Makes the program fail if any output could not be written. A full disk must not look like
// success.
int Finish(Context& context) {
  if (std::fflush(context.out) == 0 && !std::ferror(context.out)) return context.exit_code;
  const int error = errno;
  if (error == EPIPE) return context.exit_code != 0 ? context.exit_code : kExitFailure;  // "| head"
  if (context.exit_code == 0) context.Fail(FailErrno(error, "write output").error());
  return context.exit_code;
}

}  // namespace

int RunCarma(int argc, const char* const* argv, Context& context, const Program& program) {
  context.program = &program;
  CLI::App app("Share a server's GPUs: submit training tasks and watch them.", "carma");
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--socket", context.socket_path, "the daemon's socket ($CARMA_SOCKET)")
      ->type_name("PATH");
  app.add_flag("--json", context.json, "print JSON instead of text");
  app.set_version_flag("--version", VersionText(context));
  app.footer(
      "  carma submit --gpus 1 --memory 12G python train.py\n"
      "  carma list\n"
      "  carma logs -f\n"
      "Exit code: 0 success, 1 failure, 2 usage error. Details: carma VERB --help.");
  // Rejects --csv together with --json before the verb runs. Otherwise, --csv would be ignored.
  app.parse_complete_callback([&app, &context] {
    const CLI::Option* csv = app.get_subcommands().front()->get_option_no_throw("--csv");
    if (context.json && csv != nullptr && csv->count() > 0)
      throw CLI::ExcludesError("--csv", "--json");
  });
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  AddVerbs(app, words, context);
  if (const std::string verb = VerbOfLaboratory(app, words, context); !verb.empty()) {
    ::execv(context.laboratory.c_str(), const_cast<char* const*>(argv));  // returns only on failure
    context.Fail({ErrorCode::kNotFound,
                  "carma " + verb + " needs carma-lab, which is not installed next to carma"});
    return context.exit_code;
  }
  if (const auto split = SplitCommand(app, words, context); !split) {
    context.Fail(split.error());
    return context.exit_code;
  }
  std::ranges::reverse(words);  // CLI11 expects the last word first
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return Tell(app, error, context);
  } catch (const std::exception& error) {
    context.Fail({ErrorCode::kIo, error.what()});
  }
  return Finish(context);
}

}  // namespace carma::cli
