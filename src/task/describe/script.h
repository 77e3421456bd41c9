// Batch scripts: "#CARMA" and "#SBATCH" directives in the leading comment block.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "task/describe/description.h"

namespace carma::task {

// One option from a directive line.
struct Directive {
  std::string option;  // name or letter, without dashes
  std::string value;   // empty for a switch
  bool sbatch = false;
  int line = 0;  // counted from 1
  friend bool operator==(const Directive&, const Directive&) = default;
};

struct Directives {
  bool sbatch = false;  // the script has #SBATCH lines
  SlurmWords slurm;     // the options of these lines
  std::vector<Directive> settings;
  std::vector<std::string> warnings;  // "train.sh:4: #SBATCH --partition: …"
};

// Reads the comment lines up to the first command (a line that is neither blank nor a comment).
//   #CARMA --gpus=2 --time 12h -J "my name"     several options per line, = or blank, '…' and "…"
//   #SBATCH --partition=gpu                     known but has no effect here; gives a warning
// Lines starting with "##" or "# " are plain comments; a blank followed by '#' ends a directive
// line. Returns kInvalid "path:line: …" for an unknown #CARMA option, a missing or unexpected
// value, an unclosed quote, a directive line longer than 8 KiB, NUL bytes, a script larger than
// kMaxScriptBytes, or a missing "#!" line.
Result<Directives> ReadDirectives(std::string_view text, std::string_view path);

// Makes the script the description's command, and applies its directives as the first settings.
// Returns the errors of ReadDirectives() and Description::Set(), which begin with "path:line".
Result<Unit> ApplyScript(std::string_view text, std::string_view path,
                         std::vector<std::string> args, Description& description);

// Applies options from sbatch's command line, which override those of a previously applied script.
// Each word is an option with its value, such as "--ntasks=4". Returns kInvalid "sbatch: …" on
// failure.
Result<Unit> ApplySbatch(const std::vector<std::string>& words, Description& description);

}  // namespace carma::task
