// The options of pilot.
#include <memory>

#include "base/text.h"
#include "cli/command.h"
#include "cli/pilot/pilot.h"

namespace carma::cli {
namespace {

Option AddSpan(Syntax verb, const char* name, std::optional<base::Duration>& span,
               const char* help) {
  const auto take = [&span](const std::string& text) -> base::Result<base::Unit> {
    const base::Result<base::Duration> read = base::ParseSpan(text);
    if (!read) return std::unexpected(read.error());
    span = *read;
    return base::Unit{};
  };
  return verb.AddParsed(name, "SPAN", take, help);
}

}  // namespace

void AddPilotCommand(Syntax app, Context& context) {
  auto flags = std::make_shared<PilotFlags>();
  const Syntax verb = app.AddVerb(
      "pilot", "Serve the GPUs of this Slurm job as a CARMA of one's own, until the job ends");
  verb.Footer(
      "In a batch script, without any right of an administrator:\n"
      "  carma pilot ./submit-all.sh            runs it, then what it has submitted\n"
      "  carma pilot --once --name sweep ./submit-all.sh   its first pilot alone runs it; the "
      "next\n"
      "                                         goes on with what waits\n"
      "  carma pilot --until-empty              nothing but what waits already\n"
      "Only the GPUs, cores and memory of the job are used. Before the end of the job tasks are\n"
      "asked to save and wait for the next pilot of that name. Inside the job 'carma' finds it.\n"
      "SIGUSR1 (sbatch --signal): the end is near. SIGTERM: within 15 s.\n"
      "Exit code: that of the command if it failed; 75 where tasks wait for the next pilot, 3 "
      "where\n"
      "tasks have failed, 0 where all is done; 1 and 2 where it could not serve.\n"
      "Every verb also takes --json.");
  verb.AddOption("--name", "NAME", flags->name,
                 "of its books; pilots at the same time need several");
  verb.AddOption("--books", "DIR", flags->books,
                 "folder with the books of all names (default: ~/.local/state/carma/pilot)");
  verb.AddOption("--gpus", "LIST", flags->gpus,
                 "numbers or UUIDs of GPUs, in place of what the job was given");
  const Option until = verb.AddOption("--until", "TIME", flags->until,
                                      "when it ends: 18:00, +4h (default: the job's own end)");
  AddSpan(verb, "--for", flags->length, "or after this time: 4h, 90m").Excludes(until);
  AddSpan(verb, "--notice", flags->notice,
          "so long before the end tasks are asked to save, and none without a time limit is\n"
          "started (default: slots.notice, at most a quarter of the time)");
  verb.AddFlag("--until-empty", flags->until_empty,
               "end as soon as nothing runs and nothing that waits could start");
  verb.AddFlag("--once", flags->once,
               "the command is for new books: later pilots of the name leave it out");
  verb.AddFlag("--beside", flags->beside,
               "outside of any job: start although root's carmad manages the GPUs");
  verb.OnRun([&context, flags] { RunPilot(context, *flags); });
}

}  // namespace carma::cli
