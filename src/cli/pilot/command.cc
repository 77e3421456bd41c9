// The options of `carma pilot`.
#include <memory>

#include "cli/command.h"
#include "cli/pilot/pilot.h"

namespace carma::cli {

void AddPilotCommand(Syntax app, Context& context) {
  auto flags = std::make_shared<PilotFlags>();
  const Syntax verb =
      app.AddVerb("pilot", "Run your own CARMA on the GPUs of this Slurm job until the job ends");
  verb.Footer(
      "In a batch script, without administrator privileges:\n"
      "  carma pilot ./submit-all.sh            runs the script, then its tasks\n"
      "  carma pilot --once --name sweep ./submit-all.sh   only the first pilot runs it; later\n"
      "                                         ones continue with the waiting tasks\n"
      "  carma pilot --until-empty              runs only tasks already waiting\n"
      "Uses only the job's GPUs, cores and memory. Before the job ends, tasks are asked to save;\n"
      "they then wait for the next pilot with the same name. Inside the job, 'carma' finds this\n"
      "pilot. SIGUSR1 (sbatch --signal) announces the end of the job; SIGTERM stops the pilot\n"
      "within 15 s.\n"
      "Exit code: the command's if it failed; 75 if tasks are waiting for the next pilot, 3 if\n"
      "tasks have failed, 0 if all are done; 1 or 2 if the pilot could not serve.\n"
      "Every verb also takes --json.");
  verb.AddOption("--name", "NAME", flags->name,
                 "name of the pilot's database; simultaneous pilots need different names");
  verb.AddOption("--books", "DIR", flags->books,
                 "folder for the databases of all pilots (default: ~/.local/state/carma/pilot)");
  verb.AddOption("--gpus", "LIST", flags->gpus,
                 "indices or UUIDs of GPUs (default: the job's GPUs)");
  const Option until =
      verb.AddOption("--until", "TIME", flags->until,
                     "when the pilot exits: 18:00, +4h (default: when the job ends)");
  verb.AddSpan("--for", flags->length, "how long the pilot runs: 4h, 90m").Excludes(until);
  verb.AddSpan(
      "--notice", flags->notice,
      "how long before the end to ask tasks to checkpoint, and to stop starting tasks without a\n"
      "time limit (default: slots.notice, at most a quarter of the pilot's time)");
  verb.AddFlag("--until-empty", flags->until_empty,
               "exit as soon as nothing is running and no waiting task can start");
  verb.AddFlag("--once", flags->once,
               "run the command only with a new database; later pilots with the same name skip it");
  verb.AddFlag("--beside", flags->beside,
               "outside a job: start even if root's carmad manages the GPUs");
  verb.OnRun([&context, flags] { RunPilot(context, *flags); });
}

}  // namespace carma::cli
