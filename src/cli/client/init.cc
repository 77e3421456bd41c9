// `carma init`: asks a few questions and writes a configuration.
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "base/user.h"
#include "cli/calls.h"
#include "cli/client/config_edit.h"
#include "cli/client/verbs.h"
#include "cli/command.h"
#include "config/settings.h"
#include "config/toml_text.h"

namespace carma::cli {

extern const std::string_view kConfigurationExample;  // packaging/carma.toml

namespace {

constexpr std::size_t kMaxConfigurationBytes = 1 << 20;
constexpr std::size_t kMaxAnswerBytes = 4096;

enum class Form { kWord, kPort, kGroups, kUsers };

struct Question {
  std::string_view option;  // without dashes
  std::string_view key;
  Form form;
  std::string_view nothing;  // the word for an empty list or "false"
  std::string_view text;
  bool of_root;  // applies only to a daemon that serves all users
};
constexpr std::array kQuestions{
    Question{"users", "daemon.allow_groups", Form::kGroups, "everybody",
             "Who may submit tasks? everybody, or group names", true},
    Question{"admins", "daemon.admins", Form::kUsers, "nobody",
             "Which users besides root may manage tasks and drain GPUs? nobody, or user names",
             true},
    Question{"order", "policy.order", Form::kWord, "",
             "Queue order? fifo: first come, first served; fair: least usage first", true},
    Question{"sharing", "collocation.method", Form::kWord, "",
             "How should tasks share a GPU? auto (this server's best method), mps, streams, "
             "exclusive (no sharing)",
             false},
    Question{"http-port", "daemon.http_port", Form::kPort, "none",
             "Loopback port for the web page and /metrics? none, or a number", false},
};

struct Flags {
  std::string file;
  bool yes = false;
  std::array<std::optional<std::string>, kQuestions.size()> given;
};

std::string Quoted(std::string_view word) {
  return fmt::format("\"{}\"", word);
}

// A configuration value as a user would type it: ["ann", "bob"] → ann, bob.
std::string AsTyped(const Question& question, const std::string& value) {
  std::string typed;
  for (const char c : value) {
    if (c != '"' && c != '[' && c != ']') typed += c;
  }
  return typed.empty() || typed == "false" ? std::string(question.nothing) : typed;
}

Result<Unit> CheckName(const Question& question, const std::string& name) {
  if (question.form == Form::kGroups) {
    CARMA_TRY(base::FindGroup(name));
  } else if (!::getpwnam(name.c_str())) {
    return Invalid("no user '{}'", base::Printable(name, 60));
  }
  return Unit{};
}

// Converts an answer to configuration syntax. Returns kInvalid, or kNotFound for an unknown group.
Result<std::string> ValueOf(const Question& question, const std::string& answer) {
  const bool nothing = answer == question.nothing || answer.empty();
  if (question.form == Form::kWord) return Quoted(answer);
  if (question.form == Form::kPort) {
    if (nothing) return "false";
    return base::ParseInt(answer) ? answer : Quoted(answer);
  }
  if (nothing) return "[]";
  std::vector<std::string> names;
  std::string words = answer;
  std::replace(words.begin(), words.end(), ',', ' ');
  for (const std::string_view word : base::SplitWords(words)) {
    CARMA_TRY(CheckName(question, std::string(word)));
    names.push_back(Quoted(word));
  }
  return fmt::format("[{}]", base::Join(names, ", "));
}

// Like ValueOf, but also fails if the configuration does not accept the value.
Result<std::string> CheckedValue(const Question& question, const std::string& answer) {
  std::string value = CARMA_TRY(ValueOf(question, answer));
  const Result<std::string> text = WithValues("", {{std::string(question.key), value}});
  const Result<config::Loaded> loaded = config::LoadText("", *text, true);
  if (loaded) return value;
  // matches ":2: daemon.http_port: expected …"
  const std::string& message = loaded.error().message;
  const std::size_t expected = message.find("expected");
  return Invalid(expected == std::string::npos ? message : message.substr(expected));
}

// Reads a line; returns empty at the end of the input. Reads byte by byte to leave the rest of the
// input to other programs.
std::optional<std::string> ReadLine() {
  std::string line;
  char c = 0;
  while (line.size() < kMaxAnswerBytes && ::read(STDIN_FILENO, &c, 1) == 1) {
    if (c == '\n') return line;
    line += c;
  }
  return line.empty() ? std::nullopt : std::optional(line);
}

// Asks for a new value and returns it in configuration syntax. Repeats the question after an
// invalid answer. now: the current value, which is kept if the answer is empty.
std::string Ask(Context& context, const Question& question, const std::string& now) {
  for (;;) {
    Print(context, fmt::format("{}\n  [{}] ", question.text, AsTyped(question, now)));
    std::fflush(context.out);
    const std::optional<std::string> line = ReadLine();
    if (!line) Print(context, "\n");
    const std::string answer(base::Trim(line.value_or("")));
    if (answer.empty()) return now;
    const Result<std::string> value = CheckedValue(question, answer);
    if (value) return *value;
    Print(context, fmt::format("  {}\n", base::Printable(value.error().message, 400)));
  }
}

std::string DefaultFile(bool of_root) {
  if (of_root) return "/etc/carma/carma.toml";
  const std::string home = base::GetEnv("HOME", "/nonexistent");
  return base::GetEnv("XDG_CONFIG_HOME", home + "/.config") + "/carma/config.toml";
}

// Returns the settings that the user changes with an option or an answer. Returns kInvalid if an
// option's value is invalid.
Result<std::vector<ConfigValue>> Answers(Context& context, const Flags& flags,
                                         const config::Loaded& now, bool of_root) {
  std::vector<ConfigValue> changed;
  for (std::size_t i = 0; i < kQuestions.size(); ++i) {
    const Question& question = kQuestions[i];
    const std::string& value_now = now.origins.at(std::string(question.key)).value;
    std::string value = value_now;
    if (flags.given[i]) {
      Result<std::string> given = CheckedValue(question, *flags.given[i]);
      if (!given) return Invalid("--{}: {}", question.option, given.error().message);
      value = *std::move(given);
    } else if (!flags.yes && (of_root || !question.of_root)) {
      value = Ask(context, question, value_now);
    }
    if (value != value_now) changed.emplace_back(question.key, value);
  }
  return changed;
}

void Tell(Context& context, const std::string& path, const std::vector<ConfigValue>& changed,
          bool of_root, bool is_new) {
  if (context.json) {
    std::string set;
    for (const auto& [name, value] : changed)
      set += fmt::format("{}{}:{}", set.empty() ? "" : ",", JsonString(name), value);
    return Print(context, fmt::format("{{\"file\":{},\"set\":{{{}}}}}\n", JsonString(path), set));
  }
  std::string text = fmt::format("Wrote {}", path);
  for (const auto& [name, value] : changed) text += fmt::format("\n  {} = {}", name, value);
  text += changed.empty() ? (is_new ? ": the defaults\n" : ": no value changed\n") : "\n";
  const char* start =
      base::Exists("/run/systemd/system")
          ? (of_root ? "systemctl restart carmad" : "systemctl --user restart carmad")
          : "carmad --background";
  // A file outside the default location must be named with --config, or carmad and carma doctor
  // would not find it.
  const std::string option = path == DefaultFile(of_root) ? "" : " --config " + path;
  text += fmt::format("Next: {}{}, then carma doctor{}.{}\n",
                      option.empty() ? start : "carmad --background", option, option,
                      is_new ? " The file also lists all other keys as comments." : "");
  Print(context, text);
}

// The error for a file with inline tables, quoted names or a byte order mark. WithValues() does not
// recognise the keys in such a file and would set them a second time.
Result<Unit> OtherNotation(const std::string& path, const std::vector<ConfigValue>& changed) {
  std::string lines;
  for (const auto& [name, value] : changed)
    lines += fmt::format("{}{} = {}", lines.empty() ? "" : ", ", name, value);
  return Invalid("{}: carma init cannot edit keys in this file's notation; set these by hand: {}",
                 path, lines);
}

Result<Unit> RunInit(Context& context, const Flags& flags) {
  const bool of_root = ::geteuid() == 0;
  const std::string path = flags.file.empty() ? DefaultFile(of_root) : flags.file;
  std::string before(kConfigurationExample);
  const bool is_new = !base::Exists(path);
  std::error_code none;
  if (is_new && std::filesystem::is_symlink(std::filesystem::symlink_status(path, none)))
    return NotFound("{}: the link is broken; restore its target or remove the link", path);
  if (!is_new) before = CARMA_TRY(base::ReadFile(path, kMaxConfigurationBytes));
  const config::Loaded now = CARMA_TRY(config::LoadText(path, before, of_root));
  const auto changed = CARMA_TRY(Answers(context, flags, now, of_root));
  const std::string after = CARMA_TRY(base::Wrap(WithValues(before, changed), path));
  if (!config::ParseToml(path, after)) return OtherNotation(path, changed);
  CARMA_TRY(config::LoadText(path, after, of_root));
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (!folder.empty()) CARMA_TRY(base::MakeDirs(folder));
  CARMA_TRY(is_new ? base::WriteFileAtomic(path, after) : base::RewriteFileAtomic(path, after));
  Tell(context, path, changed, of_root, is_new);
  return Unit{};
}

}  // namespace

void AddInitCommand(Syntax app, Context& context) {
  const Syntax verb =
      app.AddVerb("init", "Ask a few questions and write the daemon's configuration");
  verb.Footer(
      "  carma init                                    # five questions; two for an ordinary user\n"
      "  carma init --yes --order fair --http-port 8080\n"
      "An empty answer keeps the value in brackets. An existing file is changed only where an\n"
      "answer differs. Every verb also takes --json.");
  auto flags = std::make_shared<Flags>();
  verb.AddOption("--file", "FILE", flags->file,
                 "write this file (default: /etc/carma/carma.toml, or the user's own)");
  verb.AddFlag("-y,--yes", flags->yes,
               "ask no questions; keep current values unless an option changes them");
  const auto add = [&](std::size_t i, const char* help, const char* type) {
    verb.AddOption("--" + std::string(kQuestions[i].option), type, flags->given[i], help);
  };
  add(0, "users who may submit tasks: everybody, or group names", "LIST");
  add(1, "users who may manage all tasks: nobody, or user names", "LIST");
  add(2, "queue order: fifo or fair", "WORD");
  add(3, "how tasks share a GPU: auto, mps, streams or exclusive", "WORD");
  add(4, "port for the web page and /metrics, or none", "PORT");
  verb.OnRun([&context, flags] { context.Report(RunInit(context, *flags)); });
}

}  // namespace carma::cli
