#include "task/describe/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <string_view>

#include "base/field_check.h"
#include "base/text.h"
#include "task/describe/shell_words.h"

namespace carma::task {
namespace {

template <class... Args>
std::unexpected<base::Error> Bad(std::string_view field, fmt::format_string<Args...> expected,
                                 Args&&... args) {
  return Invalid("{}: expected {}", field, fmt::format(expected, std::forward<Args>(args)...));
}

// Returns true if the text survives JSON and execve unchanged. Line breaks are allowed.
bool IsPlain(std::string_view text, std::size_t max_bytes) {
  return text.size() <= max_bytes && HasNoNul(text) && base::IsUtf8(text);
}

Result<Unit> CheckArguments(std::string_view field, const std::vector<std::string>& arguments) {
  if (arguments.size() > kMaxArgs) return Bad(field, "at most {} arguments", kMaxArgs);
  std::size_t total = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    // The kernel's limit on one argument includes the terminating NUL.
    if (!IsPlain(arguments[i], kMaxArgBytes - 1)) {
      return Bad(fmt::format("{}/{}", field, i),
                 "UTF-8 text without NUL bytes, shorter than {} bytes", kMaxArgBytes);
    }
    total += arguments[i].size() + 1;
  }
  if (total > kMaxCommandBytes) return Bad(field, "at most {} bytes in total", kMaxCommandBytes);
  return Unit{};
}

Result<Unit> CheckWhatToRun(const TaskSpec& spec) {
  if (spec.script) {
    if (!spec.command.empty()) return Bad("command", "no value when there is a script");
    if (!spec.script->starts_with("#!"))
      return Bad("script", "a first line that names its interpreter, such as #!/bin/bash");
    if (!IsPlain(*spec.script, kMaxScriptBytes))
      return Bad("script", "UTF-8 text without NUL bytes, at most {} bytes", kMaxScriptBytes);
    return CheckArguments("script_args", spec.script_args);
  }
  if (spec.command.empty() || spec.command.front().empty())
    return Bad("command", "a command or a script");
  if (!spec.script_args.empty()) return Bad("script_args", "no value without a script");
  return CheckArguments("command", spec.command);
}

Result<Unit> CheckContainer(const TaskSpec& spec) {
  if (!spec.container && !spec.container_mounts.empty())
    return Invalid("container mounts need a container: name its image too");
  if (spec.container && spec.conda_env)
    return Invalid("a container has its own programs: omit the conda environment");
  return Unit{};
}

Result<Unit> CheckEnvironment(const TaskSpec& spec) {
  std::size_t total = 0;
  for (const auto& [name, value] : spec.environment) {
    const bool good_name = !name.empty() && !name.contains('=') && IsPlain(name, kMaxPathBytes) &&
                           !base::HasControls(name);
    if (!good_name) {
      return Bad("environment", "a variable name without '=', not '{}'", base::Printable(name, 60));
    }
    if (name.size() + value.size() + 2 > kMaxArgBytes || !IsPlain(value, kMaxArgBytes)) {
      return Bad("environment/" + base::Printable(name, 60),
                 "UTF-8 text without NUL bytes, shorter than {} bytes including its name",
                 kMaxArgBytes);
    }
    total += name.size() + value.size() + 2;
  }
  if (total > kMaxCommandBytes)
    return Bad("environment", "at most {} bytes in total (see --export)", kMaxCommandBytes);
  return Unit{};
}

Result<Unit> CheckAttach(const TaskSpec& spec) {
  if (spec.attach && spec.array_index) return Invalid("attach: not supported for array tasks");
  if (spec.terminal && !spec.attach) return Invalid("terminal: not supported without attach");
  return Unit{};
}

Result<Unit> CheckScriptPath(const TaskSpec& spec) {
  if (!spec.script_path || (spec.script && IsAbsolutePath(*spec.script_path))) return Unit{};
  return Bad("script_path", "with a script, {}", kPath.expected);
}

Result<Unit> CheckCondaEnv(const TaskSpec& spec) {
  if (!spec.conda_env) return Unit{};
  const std::string& env = *spec.conda_env;
  const bool name = !env.contains('/') && env != "." && env != ".." && !env.starts_with('-') &&
                    env.size() <= kMaxNameBytes && !env.empty() && base::IsOneLine(env);
  if (name || IsAbsolutePath(env)) return Unit{};
  return Bad("conda_env", "an environment name or absolute path");
}

Result<Unit> CheckDependencies(const TaskSpec& spec) {
  const std::vector<core::Dependency>& dependencies = spec.dependencies;
  if (dependencies.size() > core::kMaxDependencies)
    return Bad("dependencies", "at most {}", core::kMaxDependencies);
  for (std::size_t i = 0; i < dependencies.size(); ++i) {
    const core::Dependency& each = dependencies[i];
    const std::string place = "dependencies/" + std::to_string(i);
    if (core::Number(each.task) == 0) return Bad(place + "/task", "a task number from 1");
    if (each.known_final && !core::IsFinal(*each.known_final))
      return Bad(place + "/known_final", "a final task state");
  }
  return Unit{};
}

Result<Unit> CheckNotify(const TaskSpec& spec) {
  for (std::size_t i = 0; i < spec.notify.size(); ++i) {
    const Result<Unit> good = base::CheckFields(spec.notify[i]);
    if (!good) return Invalid("notify/{}/{}", i, good.error().message);
  }
  return Unit{};
}

Result<Unit> CheckParameters(const TaskSpec& spec) {
  for (const auto& [name, value] : spec.parameters) {
    if (!IsParameterName(name)) {
      return Bad("parameters", "a name of letters, digits and _, not '{}'",
                 base::Printable(name, 60));
    }
    if (value.size() > kMaxPathBytes || !base::IsOneLine(value))
      return Bad("parameters/" + name, "{}", kOneLine.expected);
  }
  return Unit{};
}

template <std::size_t kCount>
bool IsOneOf(std::string_view word, const std::array<std::string_view, kCount>& words) {
  return std::ranges::find(words, word) != words.end();
}

// Programs that run the file named in their arguments.
bool IsInterpreter(std::string_view program) {
  constexpr std::array<std::string_view, 11> kNames{
      "bash", "sh", "zsh", "dash", "ksh", "Rscript", "perl", "ruby", "node", "lua", "julia"};
  const bool python = program.starts_with("python") &&
                      program.substr(6).find_first_not_of("0123456789.") == std::string_view::npos;
  return python || IsOneOf(program, kNames);
}
// Programs that run one training job in several processes; they have too many options to list here.
bool IsTrainingLauncher(std::string_view program) {
  constexpr std::array<std::string_view, 6> kNames{"torchrun",   "accelerate", "deepspeed",
                                                   "horovodrun", "mpirun",     "mpiexec"};
  return IsOneOf(program, kNames) || program.starts_with("torch.distributed.") ||
         program.starts_with("accelerate.commands.");
}
// Programs that run another command, given after their own options.
bool IsWrapper(std::string_view program) {
  constexpr std::array<std::string_view, 12> kNames{"env",     "nice",    "nohup", "time",
                                                    "stdbuf",  "ionice",  "uv",    "poetry",
                                                    "numactl", "taskset", "conda", "srun"};
  return IsOneOf(program, kNames);
}

using Words = std::span<const std::string>;

std::string_view Launched(std::string_view program, Words arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].ends_with(".py")) return base::BaseName(arguments[i]);
    if ((arguments[i] == "-m" || arguments[i] == "--module") && i + 1 < arguments.size())
      return arguments[i + 1];
  }
  return program;
}

std::string_view Interpreted(std::string_view program, Words arguments) {
  constexpr std::array<std::string_view, 3> kWithValue{"-W", "-X", "-o"};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i];
    if (word == "-c" || word == "-e" || word == "-") return program;
    if (word == "-m" && i + 1 < arguments.size()) {
      const std::string_view module = arguments[i + 1];
      return IsTrainingLauncher(module) ? Launched(module, arguments.subspan(i + 2)) : module;
    }
    if (!word.starts_with('-')) return base::BaseName(word);
    if (IsOneOf(word, kWithValue)) ++i;
  }
  return program;
}

std::string_view NameOf(Words command) {
  const std::string_view program = base::BaseName(command.front());
  const Words arguments = command.subspan(1);
  if (IsInterpreter(program)) return Interpreted(program, arguments);
  if (IsTrainingLauncher(program)) return Launched(program, arguments);
  if (!IsWrapper(program)) return program;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view inner = base::BaseName(arguments[i]);
    if (IsInterpreter(inner) || IsTrainingLauncher(inner)) return NameOf(arguments.subspan(i));
  }
  return program;
}

std::string AsFileName(std::string text) {
  std::replace(text.begin(), text.end(), '/', '_');
  return text;
}

}  // namespace

bool HasNoNul(std::string_view text) {
  return !text.contains('\0');
}

bool IsWord(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '+' || c == '.';
  });
}

bool IsAbsolutePath(std::string_view text) {
  return text.starts_with('/') && text.size() <= kMaxPathBytes && base::IsOneLine(text);
}

bool IsUmask(std::string_view text) {
  return text.size() >= 3 && text.size() <= 4 && (text.size() == 3 || text[0] == '0') &&
         text.find_first_not_of("01234567") == std::string_view::npos;
}

bool IsAttachName(std::string_view text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

mode_t UmaskOf(const TaskSpec& spec) {
  mode_t bits = 0;
  for (const char digit : spec.umask) bits = bits << 3 | static_cast<mode_t>(digit - '0');
  return bits;
}

std::string UmaskText(mode_t bits) {
  return fmt::format("{:03o}", bits & 0777U);
}

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

bool IsParameterName(std::string_view text) {
  return text.size() <= 64 && IsVariableName(text);
}

std::string NameOfCommand(const std::vector<std::string>& command) {
  std::string name = base::Printable(NameOf(command), 200);
  // "python3 ''" and similar commands give an empty name, but every task needs a name.
  return name.empty() ? base::Printable(base::BaseName(command.front()), 200) : name;
}

void FillDefaults(TaskSpec& spec) {
  if (spec.name.empty() && !spec.command.empty()) spec.name = NameOfCommand(spec.command);
  if (spec.name.empty() && spec.script) spec.name = "script";
  if (spec.stdout_path.empty())
    spec.stdout_path = spec.workdir + (spec.workdir.ends_with('/') ? "" : "/") + "carma-%j-%B.out";
  if (spec.serve && !spec.max_slowdown) spec.max_slowdown = kServeSlowdown;
}

Result<Unit> Validate(const TaskSpec& spec) {
  for (const auto check :
       {CheckWhatToRun, &base::CheckFields<TaskSpec>, CheckAttach, CheckScriptPath, CheckCondaEnv,
        CheckContainer, CheckEnvironment, CheckDependencies, CheckNotify, CheckParameters}) {
    if (Result<Unit> good = check(spec); !good) return good;
  }
  return Unit{};
}

core::TaskRequest ToRequest(const TaskSpec& spec, std::uint32_t uid, std::string user) {
  auto request = static_cast<const core::TaskRequest&>(spec);
  request.uid = uid;
  request.user = std::move(user);
  return request;
}

std::string BooksWord(std::string_view id) {
  // Omits letters that look like digits or like each other.
  constexpr std::string_view kLetters = "0123456789abcdefghjkmnpqrstvwxyz";
  constexpr int kBits = 5, kCount = 6;
  std::uint32_t number = 0;
  const std::string_view head = id.substr(0, 8);
  const auto [end, error] = std::from_chars(head.data(), head.data() + head.size(), number, 16);
  if (error != std::errc() || end != head.data() + 8) return "";
  std::string word;
  for (int i = 0; i < kCount; ++i) word += kLetters[number >> (i * kBits) & 31];
  return word;
}

std::string ExpandPath(const std::string& pattern, const TaskSpec& spec, const PathWords& words) {
  const auto value_of = [&](char letter, std::size_t width) -> std::optional<std::string> {
    const auto number = [&](auto n) { return fmt::format("{:0{}}", n, width); };
    switch (letter) {
      case 'j':
      case 'J':
        return number(core::Number(words.id));
      case 'A':
        return number(core::Number(words.array));
      case 'a':
        return number(spec.array_index.value_or(0));
      case 'n':
        return number(0);
      case 't':
        return number(words.rank);
      case 's':
        return "batch";
      case 'x':
        return AsFileName(spec.name);
      case 'u':
        return AsFileName(words.user);
      case 'N':
        return AsFileName(words.host);
      case 'B':
        return words.books.empty() ? std::nullopt : std::optional(words.books);
      case '%':
        return "%";
      default:
        return std::nullopt;
    }
  };
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    std::size_t at = i + 1;
    std::size_t width = 0;
    // As in Slurm, numbers are padded to at most ten digits.
    while (at < pattern.size() && pattern[at] >= '0' && pattern[at] <= '9') ++at;
    if (at > i + 1)
      width =
          std::min<std::size_t>(10, base::ParseInt(pattern.substr(i + 1, at - i - 1)).value_or(10));
    const auto value =
        pattern[i] == '%' && at < pattern.size() ? value_of(pattern[at], width) : std::nullopt;
    if (value) {
      path += *value;
      i = at;
    } else {
      path += pattern[i];
    }
  }
  return path;
}

bool IsOnePathForAll(std::string_view pattern) {
  if (pattern.starts_with("/dev/")) return false;
  TaskSpec first, second;
  first.array_index = 1;
  second.array_index = 2;
  const std::string text(pattern);
  return ExpandPath(text, first, {.id = core::TaskId{1}}) ==
         ExpandPath(text, second, {.id = core::TaskId{2}});
}

}  // namespace carma::task
