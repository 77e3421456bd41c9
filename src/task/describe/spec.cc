#include "task/describe/spec.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"

namespace carma::task {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;
using base::Unit;

std::unexpected<base::Error> Bad(std::string_view field, std::string_view expected) {
  return Fail(ErrorCode::kInvalid, std::string(field) + ": expected " + std::string(expected));
}

bool HasNul(std::string_view text) {
  return text.find('\0') != std::string_view::npos;
}

bool HasControl(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7F;
  });
}

// Text that may hold line breaks but must survive JSON and execve.
bool IsPlain(std::string_view text, std::size_t max_bytes) {
  return text.size() <= max_bytes && !HasNul(text) && base::IsUtf8(text);
}

bool IsAbsolutePath(std::string_view path) {
  return path.starts_with('/') && IsPlain(path, kMaxPathBytes);
}

bool IsWord(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '+' || c == '.';
  });
}

std::string Between(std::int64_t low, std::int64_t high) {
  return "a number from " + std::to_string(low) + " to " + std::to_string(high);
}

Result<Unit> CheckArguments(std::string_view field, const std::vector<std::string>& arguments) {
  if (arguments.size() > kMaxArgs)
    return Bad(field, "at most " + std::to_string(kMaxArgs) + " arguments");
  std::size_t total = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    // The kernel's limit on one argument includes its closing NUL.
    if (!IsPlain(arguments[i], kMaxArgBytes - 1)) {
      return Bad(
          std::string(field) + "/" + std::to_string(i),
          "UTF-8 text without NUL bytes, shorter than " + std::to_string(kMaxArgBytes) + " bytes");
    }
    total += arguments[i].size() + 1;
  }
  if (total > kMaxCommandBytes) {
    return Bad(field, "at most " + std::to_string(kMaxCommandBytes) + " bytes in all");
  }
  return Unit{};
}

Result<Unit> CheckWhatToRun(const TaskSpec& spec) {
  if (spec.script) {
    if (!spec.command.empty()) return Bad("command", "nothing when there is a script");
    if (!spec.script->starts_with("#!")) {
      return Bad("script", "a first line that names its interpreter, such as #!/bin/bash");
    }
    if (!IsPlain(*spec.script, kMaxScriptBytes)) {
      return Bad("script", "UTF-8 text without NUL bytes, at most " +
                               std::to_string(kMaxScriptBytes) + " bytes");
    }
    return CheckArguments("script_args", spec.script_args);
  }
  if (spec.command.empty() || spec.command.front().empty())
    return Bad("command", "a command or a script");
  if (!spec.script_args.empty()) return Bad("script_args", "nothing without a script");
  return CheckArguments("command", spec.command);
}

Result<Unit> CheckEnvironment(const TaskSpec& spec) {
  std::size_t total = 0;
  for (const auto& [name, value] : spec.environment) {
    const bool good_name = !name.empty() && name.find('=') == std::string::npos &&
                           IsPlain(name, kMaxPathBytes) && !HasControl(name);
    if (!good_name) {
      return Bad("environment",
                 "a variable name without '=', not '" + base::Printable(name, 60) + "'");
    }
    if (name.size() + value.size() + 2 > kMaxArgBytes || !IsPlain(value, kMaxArgBytes)) {
      return Bad("environment/" + base::Printable(name, 60),
                 "UTF-8 text without NUL bytes, with its name shorter than " +
                     std::to_string(kMaxArgBytes) + " bytes");
    }
    total += name.size() + value.size() + 2;
  }
  if (total > kMaxCommandBytes) {
    return Bad("environment",
               "at most " + std::to_string(kMaxCommandBytes) + " bytes in all (see --export)");
  }
  return Unit{};
}

Result<Unit> CheckNumbers(const TaskSpec& spec) {
  const auto outside = [](std::int64_t value, std::int64_t low, std::int64_t high) {
    return value < low || value > high;
  };
  if (outside(spec.gpus, 1, kMaxGpus)) return Bad("gpus", Between(1, kMaxGpus));
  if (spec.memory_mib && outside(*spec.memory_mib, 1, kMaxMemoryMib)) {
    return Bad("memory_mib", Between(1, kMaxMemoryMib) + " MiB per GPU");
  }
  if (spec.sm_share && !(*spec.sm_share >= kMinSmShare && *spec.sm_share <= 1)) {
    return Bad("sm_share", "a fraction from 0.01 to 1");
  }
  if (spec.batch_size && outside(*spec.batch_size, 1, kMaxBatchSize)) {
    return Bad("batch_size", Between(1, kMaxBatchSize));
  }
  if (outside(spec.priority, -kMaxPriority, kMaxPriority)) {
    return Bad("priority", Between(-kMaxPriority, kMaxPriority));
  }
  if (spec.time_limit &&
      (*spec.time_limit <= base::Duration(0) || *spec.time_limit > kMaxTimeLimit)) {
    return Bad("time_limit_s", "more than 0 seconds and at most 10 years");
  }
  if (spec.begin && outside(base::ToMs(*spec.begin), 0, kMaxBeginMs)) {
    return Bad("begin_ms", "a time between the years 1970 and 2200");
  }
  if (outside(spec.max_recoveries, 0, kMaxRecoveries)) {
    return Bad("max_recoveries", Between(0, kMaxRecoveries));
  }
  if (spec.array_index && outside(*spec.array_index, 0, kMaxArrayIndex)) {
    return Bad("array_index", Between(0, kMaxArrayIndex));
  }
  if (spec.array_limit && outside(*spec.array_limit, 1, kMaxArrayIndex)) {
    return Bad("array_limit", Between(1, kMaxArrayIndex));
  }
  return Unit{};
}

Result<Unit> CheckPaths(const TaskSpec& spec) {
  constexpr std::string_view kAbsolute = "an absolute path of at most 4096 bytes of UTF-8";
  if (!IsAbsolutePath(spec.workdir)) return Bad("workdir", kAbsolute);
  if (!IsAbsolutePath(spec.stdout_path)) return Bad("stdout_path", kAbsolute);
  if (!spec.stderr_path.empty() && !IsAbsolutePath(spec.stderr_path)) {
    return Bad("stderr_path", kAbsolute);
  }
  if (spec.script_path && (!spec.script || !IsAbsolutePath(*spec.script_path))) {
    return Bad("script_path", "with a script, an absolute path of at most 4096 bytes of UTF-8");
  }
  if (spec.model_summary && !IsAbsolutePath(*spec.model_summary)) {
    return Bad("model_summary", kAbsolute);
  }
  if (spec.conda_env) {
    const std::string& env = *spec.conda_env;
    const bool name = env.find('/') == std::string::npos && env != "." && env != ".." &&
                      !env.starts_with('-') && env.size() <= kMaxNameBytes && !HasControl(env) &&
                      !env.empty() && base::IsUtf8(env);
    if (!name && !IsAbsolutePath(env)) {
      return Bad("conda_env", "the name of an environment or its absolute path");
    }
  }
  return Unit{};
}

Result<Unit> CheckTexts(const TaskSpec& spec) {
  if (spec.name.empty() || spec.name.size() > kMaxNameBytes || HasControl(spec.name) ||
      !base::IsUtf8(spec.name)) {
    return Bad("name", "1 to " + std::to_string(kMaxNameBytes) +
                           " bytes of UTF-8 without control characters");
  }
  if (!IsWord(spec.memory_source)) return Bad("memory_source", "one word");
  if (spec.optimizer && !IsWord(*spec.optimizer)) return Bad("optimizer", "one word");
  if (spec.precision && !IsWord(*spec.precision)) return Bad("precision", "one word");
  if (spec.comment && (!IsPlain(*spec.comment, kMaxPathBytes) || HasControl(*spec.comment))) {
    return Bad("comment",
               "one line of at most " + std::to_string(kMaxPathBytes) + " bytes of UTF-8");
  }
  return Unit{};
}

Result<Unit> CheckDependencies(const TaskSpec& spec) {
  const std::vector<core::Dependency>& dependencies = spec.dependencies;
  if (dependencies.size() > kMaxDependencies) {
    return Bad("dependencies", "at most " + std::to_string(kMaxDependencies));
  }
  for (std::size_t i = 0; i < dependencies.size(); ++i) {
    if (core::Number(dependencies[i].task) == 0) {
      return Bad("dependencies/" + std::to_string(i) + "/task", "a task number from 1");
    }
  }
  return Unit{};
}

std::string AsFileName(std::string text) {
  std::replace(text.begin(), text.end(), '/', '_');
  return text;
}

}  // namespace

void FillDefaults(TaskSpec& spec) {
  if (spec.name.empty() && !spec.command.empty()) {
    const std::string& program = spec.command.front();
    spec.name = base::Printable(std::string_view(program).substr(program.rfind('/') + 1), 200);
  }
  if (spec.name.empty() && spec.script) spec.name = "script";
  if (spec.stdout_path.empty()) {
    spec.stdout_path = spec.workdir + (spec.workdir.ends_with('/') ? "" : "/") + "carma-%j.out";
  }
}

Result<Unit> Validate(const TaskSpec& spec) {
  for (const auto check : {CheckTexts, CheckWhatToRun, CheckPaths, CheckEnvironment, CheckNumbers,
                           CheckDependencies}) {
    if (Result<Unit> good = check(spec); !good) return good;
  }
  return Unit{};
}

core::TaskRequest ToRequest(const TaskSpec& spec, std::uint32_t uid) {
  core::TaskRequest request;
  request.gpus = spec.gpus;
  request.memory_mib = spec.memory_mib;
  request.array_limit = static_cast<int>(spec.array_limit.value_or(0));
  request.exclusive = spec.exclusive;
  request.sm_share = spec.sm_share;
  request.priority = spec.priority;
  request.uid = uid;
  request.begin = spec.begin;
  request.dependencies = spec.dependencies;
  request.time_limit = spec.time_limit;
  request.max_recoveries = spec.max_recoveries;
  request.requeue = spec.requeue;
  request.held = spec.held;
  return request;
}

std::string ExpandPath(const std::string& pattern, const TaskSpec& spec, core::TaskId id,
                       const std::string& user) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char letter = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    switch (letter) {
      case 'j':
        path += std::to_string(core::Number(id));
        break;
      case 'x':
        path += AsFileName(spec.name);
        break;
      case 'u':
        path += AsFileName(user);
        break;
      case 'a':
        path += std::to_string(spec.array_index.value_or(0));
        break;
      case '%':
        path += '%';
        break;
      default:
        path += pattern[i];
        continue;
    }
    ++i;
  }
  return path;
}

}  // namespace carma::task
