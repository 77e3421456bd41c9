// The options that describe a task, for the verbs that accept them.
#include "cli/client/verbs.h"
#include "task/describe/options.h"

namespace carma::cli {

void AddTaskOptions(Syntax verb, bool (*wants)(std::string_view name), bool shown) {
  for (const task::OptionInfo& info : task::SubmitOptions()) {
    if (wants != nullptr && !wants(info.name)) continue;
    std::string names = info.letter != 0 ? std::string("-") + info.letter + "," : "";
    names += "--" + std::string(info.name);
    const std::string help(info.help);
    const Option option = info.value.empty() ? verb.AddFlag(names, help)
                                             : verb.AddOption(names, std::string(info.value), help);
    option.LastCounts().Group(shown ? std::string(info.group) : "");
  }
}

std::vector<std::pair<std::string, std::string>> GivenOptions(Syntax verb) {
  std::vector<std::pair<std::string, std::string>> given;
  for (auto& [name, value] : verb.GivenOptions()) {
    const task::OptionInfo* info = task::FindOption(name);
    if (info) given.emplace_back(name, info->value.empty() ? "" : std::move(value));
  }
  return given;
}

}  // namespace carma::cli
