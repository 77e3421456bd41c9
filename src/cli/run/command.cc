// The options of `carma run` and `carma shell`.
#include <memory>

#include "base/file.h"
#include "cli/client/verbs.h"
#include "cli/command.h"
#include "cli/run/run.h"

namespace carma::cli {
namespace {

// Adds the task's options and those that run and shell share.
std::shared_ptr<RunFlags> AddRunOptions(Syntax verb) {
  auto flags = std::make_shared<RunFlags>();
  AddTaskOptions(verb);
  verb.AddFlag("--no-check", flags->submit.no_check,
               "skip the check that program, working directory and conda environment exist");
  verb.AddFlag("-q,--quiet", flags->quiet, "print only the task's own output, and errors");
  return flags;
}

}  // namespace

void AddRunCommand(Syntax app, Context& context) {
  struct Flags {
    bool pty = false;
    bool no_pty = false;
  };
  auto pty = std::make_shared<Flags>();
  const Syntax verb = app.AddVerb(
      "run",
      "Wait for GPUs, then run a command in this terminal (stdin and signals are passed through)");
  verb.Footer(
      "Waits like any task, then runs in this terminal and exits with the command's exit code.\n"
      "  carma run --gpu-mem 12G -- python3 train.py\n"
      "  carma run -G 2 -- torchrun --nproc-per-node 2 train.py\n"
      "  zcat data.gz | carma run ./score > result      pipes go to the task\n"
      "Ctrl-C interrupts the task, or removes it from the queue. The task keeps running while\n"
      "carmad is down, and gets SIGHUP when this program exits. After running out of GPU memory,\n"
      "it restarts here unless its input is a pipe or a file. --output FILE keeps a copy of its\n"
      "output.\n");
  auto flags = AddRunOptions(verb);
  const Option always =
      verb.AddFlag("--pty", pty->pty,
                   "give the task its own terminal (default: if stdin and stdout are terminals)");
  verb.AddFlag("--no-pty", pty->no_pty,
               "do not allocate a terminal; use this program's standard streams")
      .Excludes(always);
  verb.OnRun([&context, flags, pty, verb] {
    flags->submit.settings = GivenOptions(verb);
    if (pty->pty || pty->no_pty) flags->terminal = pty->pty;
    RunHere(context, *flags);
  });
}

void AddShellCommand(Syntax app, Context& context) {
  const Syntax verb = app.AddVerb("shell", "Open a shell with GPUs in this terminal");
  verb.Footer(
      "  carma shell -G 1 --gpu-mem 20G --time 2h\n"
      "  carma shell -- bash -l        instead of $SHELL\n");
  auto flags = AddRunOptions(verb);
  verb.OnRun([&context, flags, verb] {
    flags->submit.settings = GivenOptions(verb);
    // A command that a user watches at a terminal should not be restarted.
    flags->submit.settings.insert(flags->submit.settings.begin(),
                                  {{"retries", "0"}, {"no-requeue", ""}, {"job-name", "shell"}});
    if (context.words.empty()) context.words = {base::GetEnv("SHELL", "/bin/sh")};
    context.literal = true;
    RunHere(context, *flags);
  });
}

void AddSshCommand(Syntax app, Context& context) {
  const Syntax verb = app.AddVerb("ssh",
                                  "Run an ssh server inside a task, over stdin and stdout, for use "
                                  "as an editor's ProxyCommand");
  verb.Footer(
      "In ~/.ssh/config on your own machine:\n"
      "  Host gpu\n"
      "    ProxyCommand ssh SERVER carma ssh -G 1 --gpu-mem 12G --time 8h\n"
      "Then 'ssh gpu' and VS Code Remote run inside a task with its GPUs, limits and environment.\n"
      "The task ends when the connection closes, and the connection closes when the task ends.\n"
      "Keys are read from ~/.ssh/authorized_keys. Requires OpenSSH's sshd on the server; see\n"
      "docs/use/notebooks.md.\n");
  auto flags = AddRunOptions(verb);
  verb.OnRun([&context, flags, verb] {
    flags->submit.settings = GivenOptions(verb);
    flags->submit.settings.insert(flags->submit.settings.begin(),
                                  {{"retries", "0"}, {"no-requeue", ""}, {"job-name", "ssh"}});
    context.words = {base::ExecutableDir() + "/../libexec/carma/sshd"};
    context.literal = true;
    flags->terminal = false;
    RunHere(context, *flags);
  });
}

}  // namespace carma::cli
