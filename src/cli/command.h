// The context in which all verbs of `carma` run, and the registration of verbs.
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

// Exit codes: 0 success, 1 failure, 2 usage error. `wait` and `submit --wait` return the task's
// code instead.
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;

// One run of the program. Verbs print only to `out` and `err`, so that tests can read their output.
struct Context {
  std::string socket_path;           // --socket; if empty, DefaultSocketPath() is used
  std::string version;               // of this program
  std::string build;                 // description of the build; may be empty
  const Program* program = nullptr;  // the running program; set by RunCarma
  std::string laboratory;            // path of carma-lab; if empty, carma-lab's verbs fail
  bool json = false;                 // --json: print one JSON value on `out` instead of text
  int exit_code = 0;                 // what main() returns
  std::FILE* out = stdout;
  std::FILE* err = stderr;
  // The task's command. For `submit`, `run`, `shell`, `lease` and `pilot`: everything from the
  // first word that is not an option. For `estimate`: the words after "--" or "--run". CLI11 does
  // not parse these words, because their options belong to another program. literal: true if the
  // words came after "--".
  std::vector<std::string> words;
  bool literal = false;

  // The connection to the daemon. It is opened on the first call and remains open.
  api::Client& client();
  // The daemon's socket: --socket or DefaultSocketPath().
  std::string Socket() const;
  // Prints one line "carma: message" on `err`. exit_code becomes 2 for kInvalid and 1 for other
  // errors.
  void Fail(const base::Error& error);
  // Like Fail(), for the result of a whole verb. Does nothing if it succeeded.
  void Report(const Result<Unit>& done);

  Context();
  ~Context();

 private:
  std::unique_ptr<api::Client> client_;
};

// Returns the first of these sockets that applies:
//   1. $CARMA_SOCKET
//   2. the pilot socket of this process's job (client_socket.h)
//   3. the socket in the configuration that a daemon of this user would read
//   4. the socket of the user's own daemon (config::OwnSocketPath), if it exists
//   5. /run/carma/carmad.sock, if it exists, or if root's carmad has run since the machine started,
//      or if the user is root
//   6. the socket of the user's own daemon, although it does not exist yet
std::string DefaultSocketPath();

// A verb. `add` calls app.AddVerb(name, help) and OnRun(...) with the function that does the work
// once all options are read. The function reports errors with context.Fail(). --json and --socket
// are global, but may also follow the verb.
struct Verb {
  std::string_view name;
  void (*add)(Syntax app, Context& context);  // null if carma-lab runs the verb (lab.h)
  std::string_view help = {};                 // used if `add` is null
  std::string_view parent = {};               // parent verb: "estimate"
};

// A program's verbs, in the order of its help, and the words that complete their arguments.
struct Program {
  std::vector<Verb> verbs;
  // verb: "list", "trace info"; option: "--state", or empty for the verb's arguments.
  Choices (*choices)(std::string_view verb, std::string_view option);
};
// The program `carma`. Verbs that carma-lab runs have no `add`.
Program ServerProgram();

// Verbs with their own source files. All other verbs are in verbs.cc.
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

// Parses the words, runs one verb, and returns the exit code. Never throws. Sets up only the
// requested verb, because setting up all verbs takes several times as long as submitting a task.
int RunCarma(int argc, const char* const* argv, Context& context, const Program& program);

}  // namespace carma::cli
