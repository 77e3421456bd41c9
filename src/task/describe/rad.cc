#include "task/describe/rad.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "base/try.h"
#include "task/describe/description.h"
#include "task/describe/shell_words.h"
#include "task/describe/spec.h"

namespace carma::task {
namespace {

constexpr std::size_t kMaxRadBytes = 1 << 20;
constexpr std::size_t kPositionalLines = 12;

constexpr std::array<std::string_view, 5> kKeys{"model", "batch_size", "policy", "gpus", "memory"};

// The key of a line "key: value"; empty if the line has no key.
std::string_view KeyOf(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return {};
  const std::string_view key = base::Trim(line.substr(0, colon));
  const bool word = !key.empty() && std::ranges::all_of(key, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  });
  return word ? key : std::string_view();
}

bool IsKnownKey(std::string_view key) {
  return std::ranges::find(kKeys, key) != kKeys.end();
}

// The text up to a comment, which is a '#' at the start or after a blank.
std::string_view WithoutComment(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '#' && (i == 0 || text[i - 1] == ' ' || text[i - 1] == '\t'))
      return base::Trim(text.substr(0, i));
  }
  return base::Trim(text);
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view path)
      : text_(text), path_(base::Printable(path, 200)) {}

  Result<RadFile> Run() {
    if (text_.size() > kMaxRadBytes) {
      return Invalid(path_ + ": larger than " + std::to_string(kMaxRadBytes) +
                     " bytes, the maximum size of a .rad file");
    }
    if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
    lines_ = base::Split(text_, '\n');
    while (!lines_.empty() && base::Trim(lines_.back()).empty()) lines_.pop_back();
    CARMA_TRY(CheckBytes());
    CARMA_TRY(IsNamed() ? ReadNamed() : ReadPositional());
    return std::move(file_);
  }

 private:
  // `line` counts from 1, as in editors.
  std::unexpected<base::Error> Wrong(std::size_t line, std::string_view what) const {
    return Invalid(path_ + ":" + std::to_string(line) + ": " + std::string(what));
  }
  std::unexpected<base::Error> Expected(std::size_t line, std::string_view what,
                                        std::string_view value) const {
    return Wrong(line,
                 "expected " + std::string(what) + ", not '" + base::Printable(value, 60) + "'");
  }

  Result<Unit> CheckBytes() const {
    if (lines_.empty()) return Wrong(1, "the file is empty");
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      if (lines_[i].contains('\0')) return Wrong(i + 1, "contains a NUL byte");
      if (!base::IsUtf8(lines_[i])) return Wrong(i + 1, "not UTF-8 text");
    }
    return Unit{};
  }

  // A file has the named form if at least one line starts with a known "key:".
  bool IsNamed() const {
    return std::ranges::any_of(lines_,
                               [](std::string_view line) { return IsKnownKey(KeyOf(line)); });
  }

  Result<Unit> ReadNamed() {
    std::vector<std::string_view> seen;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const std::string_view raw = base::Trim(lines_[i]);
      const std::string_view line = WithoutComment(raw);
      if (line.empty()) continue;
      const std::string_view key = KeyOf(line);
      Result<Unit> read;
      if (IsCondaLine(line)) {
        read = ReadConda(i + 1, line);
      } else if (!key.empty()) {
        if (std::ranges::find(seen, key) != seen.end())
          return Wrong(i + 1, "'" + std::string(key) + ":' is specified twice");
        seen.push_back(key);
        read = ReadKey(i + 1, key, base::Trim(line.substr(line.find(':') + 1)));
      } else if (!file_.command.empty()) {
        read = Wrong(i + 1, "found a second command; put multiple commands into a script");
      } else {
        read = ReadCommand(i + 1, raw);
      }
      if (!read) return read;
    }
    if (file_.command.empty()) return Wrong(lines_.size(), "the file ends without a command");
    return Unit{};
  }

  Result<Unit> ReadKey(std::size_t line, std::string_view key, std::string_view value) {
    if (key == "model") {
      if (value.empty() || value.size() > kMaxPathBytes)
        return Expected(line, "a file name", value);
      file_.model = std::string(value);
      return Unit{};
    }
    if (key == "batch_size") return ReadBatchSize(line, value);
    if (key == "gpus") return ReadGpus(line, value);
    if (key == "memory") {
      const Result<std::int64_t> mib = base::ParseMemoryMib(value);
      if (!mib || *mib < 1 || *mib > core::kMaxMemoryMib)
        return Expected(line, "a memory size such as 800M or 12G", value);
      file_.memory.oracle = *mib;
      return Unit{};
    }
    if (key == "policy") {
      const std::string policy = base::ToLower(value);
      if (policy != "exclusive" && policy != "collocation")
        return Expected(line, "exclusive or collocation", value);
      file_.exclusive = policy == "exclusive";
      return Unit{};
    }
    return Wrong(line, "unknown key '" + base::Printable(key, 40) +
                           "'; known keys are model, batch_size, policy, gpus and memory");
  }

  Result<Unit> ReadPositional() {
    if (lines_.size() < kPositionalLines) {
      return Wrong(lines_.size(), "too few lines: expected " + std::to_string(kPositionalLines) +
                                      " (or the named form with model:, batch_size: …)");
    }
    for (std::size_t i = kPositionalLines; i < lines_.size(); ++i) {
      if (!WithoutComment(lines_[i]).empty()) return Expected(i + 1, "nothing more", lines_[i]);
    }
    const auto value = [&](std::size_t i) { return WithoutComment(base::Trim(lines_[i])); };
    // Line 1 is a comment.
    if (!value(1).empty()) CARMA_TRY(ReadConda(2, value(1)));
    CARMA_TRY(ReadCommand(3, lines_[2]));
    if (value(3).size() > kMaxPathBytes) return Expected(4, "a file name", value(3));
    if (!value(3).empty()) file_.model = std::string(value(3));
    // Line 5 is the data set name. Line 7 is a policy that the original system never read.
    if (!value(5).empty()) CARMA_TRY(ReadBatchSize(6, value(5)));
    CARMA_TRY(ReadGpus(8, value(7)));
    for (std::size_t i = 0; i < kRadColumns.size(); ++i) {
      std::optional<std::int64_t>& column = file_.memory.*kRadColumns[i].mib;
      CARMA_TRY(ReadColumn(9 + i, value(8 + i), column));
    }
    return Unit{};
  }

  static bool IsCondaLine(std::string_view line) {
    const std::vector<std::string_view> words = base::SplitWords(line);
    return words.size() >= 2 && words[1] == "activate" &&
           (words[0] == "conda" || words[0] == "source" || words[0] == "mamba");
  }

  Result<Unit> ReadConda(std::size_t line, std::string_view text) {
    const std::vector<std::string_view> words = base::SplitWords(text);
    if (!IsCondaLine(text) || words.size() != 3 || words[2].size() > kMaxPathBytes)
      return Expected(line, "'conda activate ENVIRONMENT'", text);
    file_.conda_env = std::string(words[2]);
    return Unit{};
  }

  Result<Unit> ReadCommand(std::size_t line, std::string_view text) {
    Result<std::vector<std::string>> command = SplitShellWords(text, WordRules::kCommand);
    if (!command) return Wrong(line, command.error().message);
    if (command->empty() || command->front().empty()) return Expected(line, "a command", text);
    file_.command = std::move(*command);
    return Unit{};
  }

  Result<Unit> ReadBatchSize(std::size_t line, std::string_view value) {
    const std::optional<std::int64_t> size = base::ParseInt(value);
    if (!size || *size < 1 || *size > kMaxBatchSize) return Expected(line, "a batch size", value);
    file_.batch_size = size;
    return Unit{};
  }

  Result<Unit> ReadGpus(std::size_t line, std::string_view value) {
    const std::optional<std::int64_t> gpus = base::ParseInt(value);
    if (!gpus || *gpus < 1 || *gpus > core::kMaxGpus)
      return Expected(line, "a number of GPUs", value);
    file_.gpus = static_cast<int>(*gpus);
    return Unit{};
  }

  Result<Unit> ReadColumn(std::size_t line, std::string_view value,
                          std::optional<std::int64_t>& column) {
    if (value.empty()) return Unit{};
    const std::optional<double> mib = base::ParseDouble(value);
    if (!mib || *mib <= 0 || *mib > static_cast<double>(core::kMaxMemoryMib))
      return Expected(line, "GPU memory in MiB", value);
    column = static_cast<std::int64_t>(std::ceil(*mib));
    return Unit{};
  }

  std::string_view text_;
  std::string path_;
  std::vector<std::string_view> lines_;
  RadFile file_;
};

}  // namespace

Result<RadFile> ParseRad(std::string_view text, std::string_view path) {
  return Parser(text, path).Run();
}

Result<Unit> ApplyRad(std::string_view text, std::string_view path, Description& description) {
  RadFile file = CARMA_TRY(ParseRad(text, path));
  const std::string where = base::Printable(path, 200);
  std::vector<std::pair<std::string_view, std::string>> settings{
      {"gpus", std::to_string(file.gpus)}};
  std::string_view name = base::BaseName(path);
  if (name.ends_with(".rad")) name.remove_suffix(4);
  if (!name.empty()) settings.emplace_back("job-name", base::Printable(name, 200));
  if (file.conda_env) settings.emplace_back("conda-env", *file.conda_env);
  if (file.batch_size) settings.emplace_back("batch-size", std::to_string(*file.batch_size));
  if (file.exclusive) settings.emplace_back(*file.exclusive ? "exclusive" : "collocated", "");
  if (file.model) {
    const bool absolute = file.model->starts_with('/') || file.model->starts_with('~');
    const std::string folder(absolute ? "" : path.substr(0, path.rfind('/') + 1));
    settings.emplace_back("model-summary", folder + *file.model);
  }
  for (const auto& [option, value] : settings) CARMA_TRY(description.Set(option, value, where));
  description.SetCommand(std::move(file.command));
  description.SetRadMemory(file.memory);
  return Unit{};
}

}  // namespace carma::task
