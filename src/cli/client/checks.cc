// Checks, with the user's permissions, whether a task can start.
#include "cli/client/checks.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/suggest.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/client/verbs.h"
#include "task/shim/environment.h"

namespace carma::cli {
namespace {

constexpr std::size_t kMaxSourceBytes = 1 << 20;

std::string Below(const task::TaskSpec& spec, const std::string& path) {
  return path.starts_with('/') ? path : spec.workdir + "/" + path;
}

// Finds the program the way the task will: in the task's own PATH, or relative to its own folder.
std::optional<std::string> FindProgram(const task::TaskSpec& spec, const std::string& program) {
  if (program.find('/') != std::string::npos) {
    const std::string path = Below(spec, program);
    return base::IsProgram(path) ? std::optional(path) : std::nullopt;
  }
  const auto path = spec.environment.find("PATH");
  const std::string folders =
      path == spec.environment.end() ? "/usr/local/bin:/usr/bin:/bin" : path->second;
  for (const std::string_view folder : base::Split(folders, ':')) {
    const std::string found =
        Below(spec, folder.empty() ? "." : std::string(folder)) + "/" + program;
    if (base::IsProgram(found)) return found;
  }
  return std::nullopt;
}

// Rejects a file that the kernel would not execute. name: the file's name in messages.
Result<Unit> CheckInterpreter(const task::TaskSpec& spec, std::string_view text,
                              const std::string& name) {
  constexpr std::size_t kMostRead = 256;  // bytes that the kernel reads
  const bool whole = text.size() < kMostRead;
  text = text.substr(0, kMostRead);
  const std::string shown = base::Printable(name, 400);
  if (!text.starts_with("#!")) {
    if (text.find('\0') != text.npos) return Unit{};  // a binary file
    return Invalid("{} has no interpreter line such as #!/bin/bash{}", shown,
                   name.ends_with(".py") ? fmt::format("; did you mean: python3 {}?", shown) : "");
  }
  const std::string_view line = text.substr(2, text.find('\n') - 2);
  const std::vector<std::string_view> words = base::SplitWords(line);
  const bool cut = !whole && line.size() == text.size() - 2;
  if (cut || words.empty() || base::IsProgram(Below(spec, std::string(words[0])))) return Unit{};
  return Invalid("{}: no interpreter {}", shown, base::Printable(words[0], 400));
}

// The command is in the image, so the machine needs only the container tool and, if the image is a
// file, that file.
Result<Unit> CheckContainer(const task::TaskSpec& spec) {
  const auto container = CARMA_TRY(task::ParseContainer(*spec.container));
  const bool is_file = task::IsImageFile(container.image);
  if (is_file && ::access(container.image.c_str(), R_OK) != 0)
    return Invalid("no image {}", container.image);
  std::vector<std::string> names;
  for (const task::ContainerTool tool : task::ToolsFor(container)) {
    names.emplace_back(task::ToolName(tool));
    if (FindProgram(spec, names.back())) return Unit{};
  }
  return Invalid("no {} on your PATH to run the container {}", base::Join(names, " or "),
                 container.image);
}

std::string SimilarProgram(const task::TaskSpec& spec, const std::string& program) {
  const auto path = spec.environment.find("PATH");
  if (path == spec.environment.end()) return "";
  std::vector<std::string> names;
  for (const std::string_view folder : base::Split(path->second, ':')) {
    std::error_code ignored;
    for (std::filesystem::directory_iterator at(std::string(folder), ignored), end; at != end;
         at.increment(ignored))
      names.push_back(at->path().filename());
  }
  const std::optional<std::string> meant = base::DidYouMean(program, names, 1);
  return meant ? ", did you mean " + *meant + "?" : "";
}

// True if the word is a unit of memory or time, or "%". In "--gpu-mem 12 GB", the parser takes "GB"
// for the name of the program.
bool IsUnit(const std::string& word) {
  constexpr std::array<std::string_view, 17> kUnits{
      "g",   "gb",     "gib",     "m", "mb",  "mib",  "h", "hour", "hours",
      "min", "minute", "minutes", "d", "day", "days", "s", "%"};
  return std::ranges::find(kUnits, base::ToLower(word)) != kUnits.end();
}

// What to write instead of a word that only a shell understands; empty for other words.
std::string InsteadOfShellWord(const std::string& program, bool lease) {
  constexpr std::array<std::string_view, 11> kBuiltins{"alias",  "cd",     "eval", "exec",
                                                       "export", "module", "set",  "source",
                                                       "trap",   "ulimit", "unset"};
  if (std::ranges::find(kBuiltins, program) != kBuiltins.end()) {
    const std::string word = program == "source" ? "." : program;  // /bin/sh has only "."
    return fmt::format(", a shell command: use {} '{} …'", lease ? "sh -c" : "--wrap", word);
  }
  const std::size_t equals = program.find('=');
  if (equals == program.npos || !task::IsParameterName(program.substr(0, equals))) return "";
  return fmt::format(": use env {} PROGRAM …{}", program,
                     lease ? "" : fmt::format(", or --export ALL,{}", program));
}

// Suggests another command, such as "; did you mean: python3 cpu.py?"; empty if there is none.
std::string OtherProgram(const task::TaskSpec& spec, const std::string& program, bool lease) {
  if (std::string instead = InsteadOfShellWord(program, lease); !instead.empty()) return instead;
  const std::string path = Below(spec, program);
  if (::access(path.c_str(), F_OK) != 0 && program.find(' ') != std::string::npos)
    return "; remove the quotes, or use --wrap";
  if (::access(path.c_str(), F_OK) != 0)
    return program.find('/') == std::string::npos ? SimilarProgram(spec, program)
                                                  : SimilarFile(path);
  if (program.ends_with(".py")) return fmt::format("; did you mean: python3 {}?", program);
  if (base::IsFolder(path)) return "; that is a folder";
  if (program.find('/') == std::string::npos && base::IsProgram(path))
    return fmt::format("; did you mean: ./{}?", program);
  return "; that file is not executable (chmod +x)";
}

// True if a file can be created or written at this path. The value of a pattern such as "%j" is not
// known yet, so only the folders before it are checked.
bool CanWrite(const std::string& pattern) {
  const std::size_t percent = pattern.find('%');
  const std::string path = pattern.substr(0, percent);
  struct stat st {};
  if (percent == std::string::npos && ::stat(path.c_str(), &st) == 0)
    return ::access(path.c_str(), W_OK) == 0;
  // Missing folders will be created, so check the permissions of their nearest existing parent.
  std::string folder = path.substr(0, path.rfind('/'));
  while (!folder.empty() && ::stat(folder.c_str(), &st) != 0)
    folder.resize(folder.find_last_of('/') == std::string::npos ? 0 : folder.rfind('/'));
  if (folder.empty()) folder = "/";
  return base::IsFolder(folder) && ::access(folder.c_str(), W_OK | X_OK) == 0;
}

// Returns kInvalid if a component of the path is too long for a file name.
Result<Unit> CheckNameLength(const std::string& path, const char* option) {
  if (path.find('%') != path.npos) return Unit{};  // not known yet
  for (const std::string_view name : base::Split(path, '/')) {
    if (name.size() <= NAME_MAX) continue;
    return Invalid("{}: expected a name of at most {} bytes, not {} ({})",
                   base::Printable(path, 80), NAME_MAX, name.size(), option);
  }
  return Unit{};
}

// True if the output would overwrite the program that the task runs.
bool IsProgramOf(const task::TaskSpec& spec, const std::string& path) {
  std::vector<std::string> files{spec.script_path.value_or(""),
                                 ScriptOf(spec.command).value_or("")};
  if (!spec.command.empty()) files.push_back(spec.command.front());
  return std::ranges::any_of(files, [&](const std::string& each) {
    std::error_code ignored;
    return !each.empty() && std::filesystem::equivalent(path, Below(spec, each), ignored);
  });
}

Result<Unit> CheckOutput(const task::TaskSpec& spec) {
  for (const auto& [path, option] :
       {std::pair(&spec.stdout_path, "--output"), std::pair(&spec.stderr_path, "--error")}) {
    CARMA_TRY(CheckNameLength(*path, option));
    if (path->ends_with('/') || base::IsFolder(*path))
      return Invalid("{}: expected a file, not a folder ({})", base::Printable(*path, 400), option);
    if (!path->empty() && !path->starts_with("/dev/") && !CanWrite(*path))
      return Invalid("{}: not writable; choose another file with {}", base::Printable(*path, 400),
                     option);
    if (IsProgramOf(spec, *path))
      return Invalid("{}: this would overwrite the program itself ({})",
                     base::Printable(*path, 400), option);
  }
  return Unit{};
}

// The names of parameters that the word contains in braces: "lr" for "--lr={lr}".
std::vector<std::string> NamesInBraces(std::string_view word) {
  std::vector<std::string> names;
  for (std::size_t open = word.find('{'); open != word.npos; open = word.find('{', open + 1)) {
    const std::size_t close = word.find('}', open);
    if (close == word.npos) break;
    const std::string_view name = word.substr(open + 1, close - open - 1);
    if (task::IsParameterName(name)) names.emplace_back(name);
  }
  return names;
}

using Warnings = std::vector<std::string>;

// Warns about missing or unsuitable files that do not prevent the task from starting.
void WarnOfFiles(const task::TaskSpec& spec, Warnings& warnings) {
  const std::string summary = spec.model_summary.value_or("");
  if (!summary.empty() && spec.dependencies.empty() && ::access(summary.c_str(), R_OK) != 0)
    warnings.push_back(fmt::format(
        "cannot read the task's model summary {}: {}; correct --model-summary or give --memory",
        base::Printable(summary, 200), std::strerror(errno)));
  for (const auto& [path, option] :
       {std::pair(&spec.stdout_path, "--output"), std::pair(&spec.stderr_path, "--error")}) {
    struct stat st {};
    if (::stat(path->c_str(), &st) == 0 && S_ISFIFO(st.st_mode))
      warnings.push_back(fmt::format(
          "{}: {} is a FIFO: the task fails unless a program is reading it when the task starts",
          option, base::Printable(*path, 200)));
  }
  for (const task::NotifyRule& rule : spec.notify) {
    const auto target = task::ParseNotifyTarget(rule.target);
    if (target && target->kind == task::NotifyKind::kProgram && !base::IsProgram(target->address))
      warnings.push_back(
          fmt::format("--notify: no program {}", base::Printable(target->address, 200)));
  }
}

void WarnOfDevices(const task::TaskSpec& spec, Warnings& warnings) {
  const std::optional<std::string> script = ScriptOf(spec.command);
  if (!script) return;
  const auto text = base::ReadFile(Below(spec, *script), kMaxSourceBytes);
  if (!text) return;
  int number = 0;
  for (const std::string_view line : base::Split(*text, '\n')) {
    ++number;
    const std::size_t at = line.find("CUDA_VISIBLE_DEVICES");
    const std::size_t comment = line.find('#');
    if (at == line.npos || comment < at) continue;
    // matches environ["CUDA_VISIBLE_DEVICES"] = … and export CUDA_VISIBLE_DEVICES=…
    const std::string_view rest = base::Trim(line.substr(at + 20));
    const std::size_t equals = rest.find('=');
    const bool sets = equals != rest.npos && !rest.substr(equals).starts_with("==") &&
                      rest.substr(0, equals).find_first_not_of("\"'] ") == rest.npos;
    if (!sets) continue;
    return warnings.push_back(fmt::format(
        "{}:{}: sets CUDA_VISIBLE_DEVICES, so the task may use GPUs that are not assigned to it",
        base::Printable(*script, 200), number));
  }
}

// Docker's daemon starts containers, so a detached container is not among the task's processes.
// Podman may move a container out of the task's control group.
void WarnOfDetached(const task::TaskSpec& spec, Warnings& warnings) {
  const std::vector<std::string>& words = spec.command;
  const std::size_t run = words.size() > 1 && words[1] == "container" ? 2 : 1;
  if (words.size() < run + 2 || (words[0] != "docker" && words[0] != "podman") ||
      words[run] != "run")
    return;
  // A word after an option may be its value. Two words without a dash end the options.
  for (std::size_t i = run + 1;
       i < words.size() && (words[i].starts_with('-') || words[i - 1].starts_with('-')); ++i) {
    const std::string& word = words[i];
    const bool letters = word.starts_with('-') && word.find_first_not_of("ditqpP", 1) == word.npos;
    if (word == "--detach" || word == "--detach=true" || (letters && word.contains('d'))) {
      return warnings.push_back(
          fmt::format("{} run {}: the task ends, but its container may keep the GPU; "
                      "omit {} (docs/use/containers.md)",
                      words[0], word, word));
    }
  }
}

// Warns about words after the program that were probably meant as options of carma submit.
void WarnOfOrder(const task::TaskSpec& spec, Warnings& warnings) {
  constexpr std::array<std::string_view, 4> kOwn{"--gpu-mem", "--time", "--array", "--dependency"};
  for (const std::vector<std::string>& words : {spec.script_args, spec.command}) {
    for (const std::string& word : words) {
      const std::string_view option = std::string_view(word).substr(0, word.find('='));
      if (std::ranges::find(kOwn, option) == kOwn.end()) continue;
      warnings.push_back(fmt::format(
          "{} is passed to the task's command; CARMA options must come before the command",
          option));
    }
  }
}

using Spec = const task::TaskSpec&;
// Options that have no effect on a task without GPUs, each with a test for whether it was given.
constexpr std::array<std::pair<std::string_view, bool (*)(Spec)>, 10> kGpuOptions{{
    {"gpu-mem", [](Spec spec) { return spec.memory_mib.has_value(); }},
    {"gpu-memory-min", [](Spec spec) { return spec.gpu_memory_min_mib.has_value(); }},
    {"gpu-type", [](Spec spec) { return spec.gpu_type.has_value(); }},
    {"gpu", [](Spec spec) { return !spec.on_gpus.empty(); }},
    {"not-on", [](Spec spec) { return !spec.not_on_gpus.empty(); }},
    {"linked", [](Spec spec) { return spec.linked_gpus; }},
    {"exclusive", [](Spec spec) { return spec.exclusive; }},
    {"sm-share", [](Spec spec) { return spec.sm_share.has_value(); }},
    {"max-slowdown", [](Spec spec) { return spec.max_slowdown.has_value(); }},
    {"serve", [](Spec spec) { return spec.serve; }},
}};

void WarnOfGpuOptions(const task::TaskSpec& spec, Warnings& warnings) {
  if (spec.gpus > 0) return;
  std::vector<std::string> given;
  for (const auto& [option, is_given] : kGpuOptions)
    if (is_given(spec)) given.push_back(fmt::format("--{}", option));
  if (given.empty()) return;
  warnings.push_back(fmt::format("{} {} no effect with --gpus 0", base::Join(given, ", "),
                                 given.size() == 1 ? "has" : "have"));
}

}  // namespace

bool IsGpuOption(std::string_view option) {
  if (option == "memory") option = "gpu-mem";  // another name for the option
  return std::ranges::any_of(kGpuOptions, [&](const auto& each) { return each.first == option; });
}

std::optional<std::string> ScriptOf(const std::vector<std::string>& command) {
  if (command.empty()) return std::nullopt;
  const std::string_view program =
      std::string_view(command.front()).substr(command.front().rfind('/') + 1);
  const bool python = program.starts_with("python") &&
                      program.find_first_not_of("0123456789.", 6) == std::string_view::npos;
  if (!python && program != "bash" && program != "sh") return std::nullopt;
  for (std::size_t i = 1; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (!word.starts_with('-')) return word;
    // With these options, the interpreter runs a module, inline code or standard input instead of a
    // file.
    if (word == "-" || word == "-s" || word.find_first_of("cm") == 1) return std::nullopt;
    if (!python && word.find('c') != std::string::npos) return std::nullopt;  // bash -lc
    if (python && (word == "-W" || word == "-X")) ++i;
    if (!python && (word == "-o" || word == "-O")) ++i;
  }
  return std::nullopt;
}

std::string SimilarFile(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  std::vector<std::string> names;
  std::error_code ignored;
  for (std::filesystem::directory_iterator at(folder, ignored), end; at != end;
       at.increment(ignored)) {
    names.push_back(at->path().filename());
    if (names.size() > 10'000) break;
  }
  return base::Suggestion(path.substr(slash + 1), names);
}

Result<Unit> CheckItCanStart(const task::TaskSpec& spec, bool lease) {
  const auto refuse = [](std::string text) { return Invalid(base::Printable(text, 1000)); };
  if (!base::IsFolder(spec.workdir))
    return refuse(fmt::format("working directory {}: no such folder", spec.workdir));
  if (::access(spec.workdir.c_str(), X_OK) != 0)
    return refuse(
        fmt::format("working directory {}: you do not have permission to enter it", spec.workdir));
  CARMA_TRY(CheckOutput(spec));
  if (spec.conda_env) {
    const auto home = spec.environment.find("HOME");
    const auto found =
        task::FindCondaEnv(*spec.conda_env, spec.environment,
                           home == spec.environment.end() ? "/" : home->second, &base::IsFolder);
    if (!found) return std::unexpected(NamedWrongly(found.error()));
    return Unit{};  // the environment's programs come first in PATH and are not checked
  }
  if (spec.container) return CheckContainer(spec);
  if (spec.script)
    return CheckInterpreter(spec, *spec.script, spec.script_path.value_or(spec.name));
  if (spec.command.empty()) return Unit{};
  const std::string& program = spec.command.front();
  if (IsUnit(program) && !FindProgram(spec, program))
    return refuse(fmt::format(
        "no program '{0}'; write a value and its unit as one word, such as 2{0}", program));
  const std::optional<std::string> found = FindProgram(spec, program);
  if (!found)
    return refuse(fmt::format("no program '{}'{}", program, OtherProgram(spec, program, lease)));
  // A program that is executable but not readable is not checked further.
  if (std::ifstream file(*found, std::ios::binary); file && !lease) {
    char start[256];
    file.read(start, sizeof start);
    const std::string_view text(start, static_cast<std::size_t>(file.gcount()));
    CARMA_TRY(CheckInterpreter(spec, text, program));
  }
  const std::optional<std::string> script = ScriptOf(spec.command);
  if (!script || ::access(Below(spec, *script).c_str(), F_OK) == 0) return Unit{};
  return refuse(
      fmt::format("no file '{}' for {}{}", *script, program, SimilarFile(Below(spec, *script))));
}

Result<Unit> CheckParameters(const task::TaskSpec& spec) {
  if (spec.parameters.empty()) return Unit{};
  std::vector<std::string> known;
  for (const auto& [name, value] : spec.parameters) known.push_back(name);
  // A script without a path is the text of --wrap.
  for (const std::string& name :
       NamesInBraces(spec.script && !spec.script_path ? *spec.script : "")) {
    if (spec.parameters.contains(name))
      return Invalid("--wrap does not replace {{{0}}}; use $CARMA_PARAM_{0}", name);
  }
  std::vector<std::string> words = spec.command;
  words.insert(words.end(), spec.script_args.begin(), spec.script_args.end());
  words.insert(words.end(), {spec.name, spec.stdout_path, spec.stderr_path});
  for (const std::string& word : words) {
    if (const std::vector<std::string> unknown = NamesInBraces(word); !unknown.empty())
      return Invalid("{{{}}} is not a sweep parameter{}", unknown.front(),
                     base::Suggestion(unknown.front(), known));
  }
  return Unit{};
}

std::vector<std::string> StartWarnings(const task::TaskSpec& spec) {
  Warnings warnings;
  WarnOfFiles(spec, warnings);
  WarnOfOrder(spec, warnings);
  WarnOfDevices(spec, warnings);
  WarnOfDetached(spec, warnings);
  WarnOfGpuOptions(spec, warnings);
  return warnings;
}

}  // namespace carma::cli
