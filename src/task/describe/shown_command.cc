#include "task/describe/shown_command.h"

#include "base/text.h"

namespace carma::task {

std::vector<std::string> ShownCommand(const TaskSpec& spec) {
  if (!spec.script) return spec.command;
  constexpr std::string_view kShell = "#!/bin/sh\n";
  constexpr std::size_t kMostOfLine = 1000;
  if (!spec.script_path && spec.script->starts_with(kShell)) {
    const std::string_view text = base::Trim(std::string_view(*spec.script).substr(kShell.size()));
    const std::size_t end = text.find('\n');
    const std::string line = base::Printable(text.substr(0, end), kMostOfLine);
    return {"sh", "-c", end == std::string_view::npos ? line : line + " …"};
  }
  std::vector<std::string> words{spec.script_path.value_or(spec.name)};
  words.insert(words.end(), spec.script_args.begin(), spec.script_args.end());
  return words;
}

}  // namespace carma::task
