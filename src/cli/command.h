// What every verb of `carma` is given, and how it is registered.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/http.h"
#include "base/result.h"
#include "cli/choices.h"
#include "cli/syntax.h"

namespace carma::cli {

struct Program;

// Exit codes of the command: 0 done, 1 it failed, 2 it was asked wrongly. `wait` and
// `submit --wait` give the task's own code instead.
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;

// One run of the program. Verbs print to `out` and `err` only, so that tests can read them.
struct Context {
  std::string socket_path;           // --socket; empty: DefaultSocketPath()
  std::string version;               // of this program
  std::string build;                 // which build it is; empty: not said
  const Program* program = nullptr;  // the one that runs; set by RunCarma
  std::string laboratory;            // path of carma-lab; empty: its verbs fail
  bool json = false;                 // --json: one JSON value on `out` instead of text
  int exit_code = 0;                 // what main() returns
  std::FILE* out = stdout;
  std::FILE* err = stderr;
  // `submit`, `run`, `shell`, `lease`, `pilot`: the words from the first that is no option, as they
  // are; CLI11 never sees them, because their dashes are not ours. literal: "--" stood before them.
  // `estimate`: what stands behind "--".
  std::vector<std::string> words;
  bool literal = false;

  // Connection to the daemon at its socket, made at the first call and kept.
  api::Client& client();
  // One line "carma: message" on `err`; exit_code becomes 2 for kInvalid and 1 for the others.
  void Fail(const base::Error& error);

  Context();
  ~Context();

 private:
  std::unique_ptr<api::Client> client_;
};

// $CARMA_SOCKET; else that of the pilot of the job that this process belongs to (pilot_socket.h);
// else what the configuration that a daemon of this user would read says, where it
// does; else that of the own user's daemon (config::OwnSocketPath) if it exists, or if there is
// none at all; else /run/carma/carmad.sock.
std::string DefaultSocketPath();

// A verb, and what sets it up: app.AddVerb(name, help) and an OnRun(...) that does the work. It
// runs after all options are read, reports errors with context.Fail() and returns. --json and
// --socket are global and may stand after the verb too.
struct Verb {
  std::string_view name;
  void (*add)(Syntax app, Context& context);  // null: carma-lab runs it (lab.h)
  std::string_view help = {};                 // where `add` is null
  std::string_view parent = {};               // the verb below which it is: "estimate"
};

// A program's verbs, in the order of its help, and the completion of their words.
struct Program {
  std::vector<Verb> verbs;
  // verb: "list", "trace info"; option: "--state", or empty for the verb's arguments.
  Choices (*choices)(std::string_view verb, std::string_view option);
};
// `carma`. The verbs of the laboratory have no `add`.
Program ServerProgram();

// Those that stand in files of their own; the others are in verbs.cc.
void AddRunCommand(Syntax app, Context& context);
void AddShellCommand(Syntax app, Context& context);
void AddSshCommand(Syntax app, Context& context);
void AddPilotCommand(Syntax app, Context& context);
void AddSlurmCommand(Syntax app, Context& context);
void AddTopCommand(Syntax app, Context& context);
void AddReserveCommand(Syntax app, Context& context);
void AddTokenCommand(Syntax app, Context& context);  // create, list, revoke
void AddProgressCommand(Syntax app, Context& context);
void AddMcpCommand(Syntax app, Context& context);
void AddUsageCommand(Syntax app, Context& context);
void AddReportCommand(Syntax app, Context& context);
void AddConfigCommand(Syntax app, Context& context);
void AddInitCommand(Syntax app, Context& context);
void AddEstimateCommand(Syntax app, Context& context);
void AddDoctorCommand(Syntax app, Context& context);
void AddCompletionCommand(Syntax app, Context& context);

// The whole program: parses, runs one verb, returns the exit code. Throws nothing. Setting up all
// verbs takes several times as long as submitting a task, so only the one asked for is set up.
int RunCarma(int argc, const char* const* argv, Context& context, const Program& program);

}  // namespace carma::cli
