// `carma completion`, and the words that it completes for each verb.
#include <algorithm>
#include <memory>

#include "cli/client/completion.h"
#include "cli/client/verbs.h"
#include "cli/command.h"

namespace carma::cli {
namespace {

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
