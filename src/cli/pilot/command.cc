// How pilot is spelled.
#include <CLI/CLI.hpp>
#include <memory>

#include "base/text.h"
#include "cli/command.h"
#include "cli/pilot/pilot.h"

namespace carma::cli {
namespace {

CLI::Option* AddSpan(CLI::App& verb, const char* name, std::optional<base::Duration>& span,
                     const char* help) {
  return verb
      .add_option_function<std::string>(
          name,
          [&span, name](const std::string& text) {
            const base::Result<base::Duration> read = base::ParseSpan(text);
            if (!read) throw CLI::ValidationError(name, read.error().message);
            span = *read;
          },
          help)
      ->type_name("SPAN");
}

}  // namespace

void AddPilotCommand(CLI::App& app, Context& context) {
  auto flags = std::make_shared<PilotFlags>();
  CLI::App* verb = app.add_subcommand(
      "pilot", "Serve the GPUs of this Slurm job as a CARMA of one's own, until the job ends");
  verb->footer(
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
  verb->add_option("--name", flags->name, "of its books; pilots at the same time need several")
      ->type_name("NAME");
  verb->add_option("--books", flags->books,
                   "folder with the books of all names (default: ~/.local/state/carma/pilot)")
      ->type_name("DIR");
  verb->add_option("--gpus", flags->gpus,
                   "numbers or UUIDs of GPUs, in place of what the job was given")
      ->type_name("LIST");
  CLI::Option* until = verb->add_option("--until", flags->until,
                                        "when it ends: 18:00, +4h (default: the job's own end)")
                           ->type_name("TIME");
  AddSpan(*verb, "--for", flags->length, "or after this time: 4h, 90m")->excludes(until);
  AddSpan(*verb, "--notice", flags->notice,
          "so long before the end tasks are asked to save, and none without a time limit is\n"
          "started (default: slots.notice, at most a quarter of the time)");
  verb->add_flag("--until-empty", flags->until_empty,
                 "end as soon as nothing runs and nothing that waits could start");
  verb->add_flag("--once", flags->once,
                 "the command is for new books: later pilots of the name leave it out");
  verb->add_flag("--beside", flags->beside,
                 "outside of any job: start although root's carmad manages the GPUs");
  verb->callback([&context, flags] { RunPilot(context, *flags); });
}

}  // namespace carma::cli
