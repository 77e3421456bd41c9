#include "cli/estimate/script_run.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "model/summary.h"
#include "task/process/bounded_run.h"

namespace carma::cli {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kExpected =
    "expected a Python command, as in: carma estimate --run python train.py";
// Longer than the helper's own limit, after which the helper stops and gives a reason (script.py).
constexpr std::chrono::seconds kLimit{150};

bool IsInterpreter(std::string_view word) {
  const std::string_view name = base::BaseName(word);
  return name.starts_with("python") &&
         name.substr(6).find_first_not_of("0123456789.") == std::string_view::npos;
}

// True if the word is a program, or a module after -m, that starts a process for each GPU.
bool IsLauncher(std::string_view word) {
  constexpr std::string_view kLaunchers[] = {"torchrun",
                                             "deepspeed",
                                             "mpirun",
                                             "srun",
                                             "torch.distributed.run",
                                             "torch.distributed.launch"};
  return std::ranges::find(kLaunchers, base::BaseName(word)) != std::end(kLaunchers) ||
         base::BaseName(word) == "accelerate" || word.starts_with("accelerate.");
}

base::Error LauncherError(const std::string& word) {
  return {ErrorCode::kInvalid,
          "--run: '" + base::Printable(word, 40) + "' starts several processes; " + kExpected};
}

}  // namespace

Result<Words> WordsOfRun(const Words& command, const std::string& helper, const std::string& gpus) {
  if (!command.empty() && command.front().ends_with(".py")) {
    Words words{"python3", helper, "--run", "--gpus", gpus};
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }
  const auto interpreter = std::ranges::find_if(command, IsInterpreter);
  const auto launcher = std::find_if(command.begin(), interpreter, IsLauncher);
  if (launcher != interpreter) return std::unexpected(LauncherError(*launcher));
  if (interpreter == command.end()) return Invalid(std::string("--run: ") + kExpected);
  auto script = interpreter + 1;
  while (script != command.end() && script->starts_with('-') && *script != "-m" &&
         *script != "-c" && *script != "-") {
    const bool takes_value = *script == "-X" || *script == "-W";
    script += takes_value && script + 1 != command.end() ? 2 : 1;
  }
  const bool module = script != command.end() && *script == "-m";
  if (script == command.end() || *script == "-c" || *script == "-" ||
      (module && script + 1 == command.end()))
    return Invalid(std::string("--run: ") + kExpected);
  if (module && IsLauncher(script[1])) return std::unexpected(LauncherError(script[1]));
  Words words(command.begin(), script);
  words.insert(words.end(), {helper, "--run", "--gpus", gpus});
  words.insert(words.end(), script, command.end());
  return words;
}

Result<std::string> RunScript(const Words& command, const std::string& gpus) {
  const std::string bin = base::ExecutableDir();
  const std::array places{bin + "/../share/carma/python/carma_summary.py",
                          bin + "/../python/carma_summary.py"};
  const auto helper = std::ranges::find_if(places, base::Exists);
  const Words words = CARMA_TRY(
      WordsOfRun(command, helper == places.end() ? "" : *helper, gpus.empty() ? "1" : gpus));
  if (helper == places.end()) return NotFound("the helper " + places[0] + " is not installed");
  task::RunRequest request{.words = words, .folder = ".", .kept = model::kMaxSummaryBytes};
  request.limit = kLimit;
  const task::RunResult ran = CARMA_TRY(task::RunBounded(request));
  if (ran.exit_code == 0 && ran.signal == 0) return ran.output;
  if (ran.late) return Unavailable("the script did not exit in time");
  const std::string end = ran.signal != 0 ? "was killed by signal " + std::to_string(ran.signal)
                                          : "exited with " + std::to_string(ran.exit_code);
  std::string_view said = ran.signal != 0 ? "" : base::Trim(ran.errors);
  said = said.substr(said.rfind('\n') + 1);
  constexpr std::string_view kHelper = "carma_summary: ";
  if (said.starts_with(kHelper)) said.remove_prefix(kHelper.size());
  return Unavailable(said.empty() ? "the script " + end : base::Printable(said, 300));
}

}  // namespace carma::cli
