// Registers the verbs of carma-lab and shell completions for their values.
#include "lab/verbs/lab.h"

#include <array>

#include "cli/client/server_choices.h"
#include "config/settings.h"
#include "core/policy/policy.h"
#include "estimate/estimator.h"
#include "lab/sim/model_words.h"
#include "lab/trace/job_reader.h"

namespace carma::cli {
namespace {

using Words = std::vector<std::string>;

// The mappers, and the keywords that a simulated policy accepts.
Words SimulatedPolicy() {
  Words words = NamesOf(core::Mappers());
  words.emplace_back(config::kAutoMapper);
  for (const std::string& name : PolicyWordNames()) words.push_back(name + "=");
  return words;
}

Words SimulatedWorld() {
  Words words;
  for (const std::string& name : NamesOf(sim::ModelWords())) words.push_back(name + "=");
  return words;
}

Words Estimators() {
  return NamesOf(estimate::Estimators());
}

Words SimulatedEstimators() {
  Words words{"oracle", "horus", "faketensor", "gpumemnet", "none"};
  for (const std::string& name : Estimators()) words.push_back(name);
  return words;
}

constexpr ChoiceRow kRows[] = {
    {"estimate evaluate", "--estimator", true, &Estimators},
    {"estimate evaluate", "--by", true, nullptr,
     "source,family,model,method,quantisation,parallel,gpus"},
    {"simulate", "--estimator", false, &SimulatedEstimators},
    {"simulate", "--policy", true, &SimulatedPolicy},
    {"simulate", "--model", true, &SimulatedWorld},
    {"simulate", "--history", false, nullptr, "none,run,runs"},
    {"simulate", "--collocation", false, nullptr, "mps,streams,mig,exclusive"},
    {"profile", "--methods", true, nullptr, "streams,mps,mig"},
    {"simulate", "--published", false, nullptr, "thesis,v2"},
    {"trace export", "--as", false, nullptr, "jobs,tasks,script"},
};

Choices LabChoices(std::string_view verb, std::string_view option) {
  if (verb.starts_with("trace ") && option == "--format") return {trace::TraceFormats(), false};
  const Choices own = FindChoices(kRows, verb, option);
  return own.words.empty() ? ServerChoices(verb, option) : own;
}

constexpr std::array kVerbs{
    Verb{"demo", &AddDemoCommand},         Verb{"trace", &AddTraceCommand},
    Verb{"simulate", &AddSimulateCommand}, Verb{"profile", &AddProfileCommand},
    Verb{"evaluate", &AddEvaluateCommand},
};

}  // namespace

Program LabProgram() {
  Program program = ServerProgram();
  program.choices = &LabChoices;
  for (Verb& verb : program.verbs) {
    for (const Verb& own : kVerbs) {
      if (verb.name == own.name) verb.add = own.add;
    }
  }
  return program;
}

}  // namespace carma::cli
