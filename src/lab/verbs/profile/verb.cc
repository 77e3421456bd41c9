// Defines the options of `carma profile`.
#include <memory>

#include "lab/verbs/lab.h"
#include "lab/verbs/profile/command.h"

namespace carma::cli {

void AddProfileCommand(Syntax app, Context& context) {
  const Syntax verb = app.AddVerb(
      "profile",
      "Measure workloads on this server, alone and together, and the cost of monitoring");
  verb.Footer(
      "  carma profile --dry-run                        what would be run, and for how long\n"
      "  carma profile ours.jsonl --gpus 0 --output measured\n"
      "  carma profile --built-in resnet50-b32,bert-base-b32 --methods mps --degrees none\n"
      "Each line of FILE is like {\"name\":\"ours\",\"command\":[\"python3\",\"train.py\"]}; the "
      "command must do\nthe same amount of work each time (docs/server/profile.md). To continue "
      "after an interruption,\nrepeat the command. Exit code: 0 if everything was measured, 130 if "
      "interrupted.\n"
      "Every verb also takes --json and --socket PATH.");
  auto flags = std::make_shared<ProfileFlags>();
  const Option file = verb.AddOption("workloads", "FILE", flags->file,
                                     "workloads, one JSON object per line; -: standard input");
  verb.AddOption("--built-in", "LIST", flags->built_in,
                 "built-in workloads instead of a file (default: four of them)")
      .List()
      .OneWord()
      .Excludes(file);
  verb.AddOption("--output", "DIR", flags->output, "results folder (default: carma-profile)");
  verb.AddOption("--gpus", "LIST", flags->gpus,
                 "GPU numbers as in carma gpus (default: all); GPUs of one type run in parallel")
      .List()
      .OneWord();
  verb.AddOption("--methods", "LIST", flags->methods,
                 "any of streams,mps,mig (default: all available)")
      .List()
      .OneWord()
      .OneOf({"streams", "mps", "mig"});
  verb.AddOption(
      "--degrees", "LIST", flags->degrees,
      "numbers of copies to run together, such as '1-7' or '2,4', or none (default: 1-7)");
  verb.AddFlag("!--no-pairs", flags->pairs,
               "skip the pairs; sensitivity and pressure stay unknown");
  verb.AddFlag("!--no-watching", flags->watching, "skip measuring the cost of monitoring");
  verb.AddOption("--repeat", "N", flags->repeats, "number of runs of each combination (default: 3)")
      .Range(1, 100);
  verb.AddOption("--seconds", "S", flags->seconds,
                 "solo computing time of built-in workloads (default: 60; 300 on simulated GPUs)")
      .Range(1.0, 86'400.0)
      .Excludes(file);
  verb.AddOption("--python", "PROGRAM", flags->python,
                 "Python with PyTorch, for built-in workloads (default: python3)")
      .Excludes(file);
  verb.AddOption("--config", "FILE", flags->config,
                 "configuration file to use instead of the usual ones");
  verb.AddFlag("--beside-others", flags->beside_others,
               "also measure on GPUs that other programs use or where the daemon may start tasks");
  verb.AddFlag("--dry-run", flags->dry_run, "print what would be run");
  verb.OnRun([&context, flags] { RunProfile(context, *flags); });
}

}  // namespace carma::cli
