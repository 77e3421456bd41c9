#include "task/describe/script.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/suggest.h"
#include "base/text.h"
#include "base/try.h"
#include "task/describe/options.h"
#include "task/describe/script_body.h"
#include "task/describe/shell_words.h"

namespace carma::task {
namespace {

constexpr std::size_t kMaxDirectiveBytes = 8192;

std::string Dashed(std::string_view option) {
  return (option.size() == 1 ? "-" : "--") + base::Printable(option, 60);
}

// Returns true if FillHost, GpusOf or CARMA's srun reads this Slurm option.
bool MeansSomething(std::string_view option) {
  constexpr std::array<std::string_view, 10> kOptions{
      "ntasks",      "ntasks-per-node", "ntasks-per-gpu", "gpus-per-task",
      "gpu-bind",    "cpus-per-task",   "cpus-per-gpu",   "mem",
      "mem-per-cpu", "mem-per-gpu"};
  return std::ranges::find(kOptions, option) != kOptions.end();
}

std::string SimilarOption(const std::string& name) {
  std::vector<std::string> known;
  for (const OptionInfo& option : SubmitOptions()) known.emplace_back(option.name);
  // Never suggest the option itself: --memory, for example, is known but not valid after #SBATCH.
  std::erase(known, name);
  const std::optional<std::string> meant = base::DidYouMean(name, known, 2);
  return meant ? ", did you mean --" + *meant + "?" : "";
}

// "#CARMA" or "#SBATCH" if the line is a directive; otherwise empty.
std::string_view KeywordOf(std::string_view line) {
  for (const std::string_view word : {"#CARMA", "#SBATCH"}) {
    if (!line.starts_with(word)) continue;
    if (line.size() == word.size() || line[word.size()] == ' ' || line[word.size()] == '\t')
      return word;
  }
  return "";
}

// Recognises misspelt directives: "#carma -G 2", "#CARMA: -G 2", "#CARMA-G 2".
bool IsMisspelt(std::string_view line) {
  if (base::ToLower(line.substr(0, 6)) != "#carma") return false;
  const std::size_t option = line.find_first_not_of(": \t", 6);
  return option != line.npos && line[option] == '-';
}

// True for a directive of another program: "# GFLOW --gpus 1", "#PBS -q gpu".
bool IsOfOtherProgram(std::string_view line) {
  for (const std::string_view word : {"# GFLOW", "#GFLOW", "#PBS", "#BSUB", "#$"}) {
    if (!line.starts_with(word)) continue;
    const std::size_t option = line.find_first_not_of(" \t", word.size());
    if (option != line.npos && option > word.size() && line[option] == '-') return true;
  }
  return false;
}

class Reader {
 public:
  Reader(std::string_view text, std::string_view path)
      : text_(text), path_(base::Printable(path, 200)) {}

  Result<Directives> Run() {
    if (text_.size() > kMaxScriptBytes) {
      return Invalid(path_ + ": larger than " + std::to_string(kMaxScriptBytes) +
                     " bytes, the maximum size of a script");
    }
    if (text_.starts_with("\xEF\xBB\xBF"))
      return Invalid(path_ + ":1: begins with a byte order mark (BOM); save the file without one");
    if (!text_.starts_with("#!"))
      return Invalid(path_ + ":1: expected an interpreter line such as #!/bin/bash");
    CARMA_TRY(CheckBytes());
    line_ = 0;
    bool in_head = true;  // before the first command
    for (std::string_view line : base::Split(text_, '\n')) {
      ++line_;
      const std::string_view trimmed = base::Trim(line);
      if (trimmed.empty()) continue;
      in_head = in_head && trimmed.front() == '#';
      if (in_head) {
        CARMA_TRY(ReadComment(trimmed));
        continue;
      }
      const std::string_view late = KeywordOf(trimmed);
      if (!late.empty()) Warn(std::string(late) + " after the first command is ignored");
      // One warning is enough, and a here-document may contain another script.
      if (!late.empty() || trimmed.contains("<<")) break;
    }
    TellPassedOver("these #SBATCH options");
    return std::move(found_);
  }

  // Applies the words of an sbatch command line. Each word is an option together with its value.
  Result<Directives> RunWords(const std::vector<std::string>& words) {
    found_.sbatch = true;
    for (std::size_t i = 0; i < words.size();) CARMA_TRY(TakeOption(words, i, true));
    TellPassedOver("these options");
    return std::move(found_);
  }

 private:
  void TellPassedOver(std::string_view which) {
    if (passed_over_.empty()) return;
    found_.warnings.push_back(
        fmt::format("{}: {} have no effect in CARMA: {}", path_, which, passed_over_));
  }
  std::string Place() const { return line_ == 0 ? path_ : path_ + ":" + std::to_string(line_); }
  std::unexpected<base::Error> Wrong(std::string_view what) const {
    return Invalid(Place() + ": " + std::string(what));
  }

  Result<Unit> CheckBytes() {
    if (!text_.contains('\0') && base::IsUtf8(text_)) return Unit{};
    for (std::string_view line : base::Split(text_, '\n')) {
      ++line_;
      if (line.contains('\0')) return Wrong("contains a NUL byte; is this a script?");
      if (!base::IsUtf8(line)) return Wrong("not UTF-8 text");
    }
    return Unit{};
  }

  Result<Unit> ReadComment(std::string_view line) {
    const std::string_view keyword = KeywordOf(line);
    if (keyword.empty()) {
      if (IsMisspelt(line))
        Warn("line ignored; expected #CARMA followed by a space and the option");
      if (IsOfOtherProgram(line) && !std::exchange(told_foreign_, true))
        Warn("line ignored; only #CARMA and #SBATCH lines are read");
      return Unit{};
    }
    const bool sbatch = keyword == "#SBATCH";
    const std::string_view rest = line.substr(keyword.size());
    if (rest.size() > kMaxDirectiveBytes)
      return Wrong("the directive is longer than " + std::to_string(kMaxDirectiveBytes) + " bytes");
    const Result<std::vector<std::string>> words = SplitShellWords(rest, WordRules::kWords);
    if (!words) return Wrong(words.error().message);
    found_.sbatch |= sbatch;
    for (std::size_t i = 0; i < words->size();) CARMA_TRY(TakeOption(*words, i, sbatch));
    return Unit{};
  }

  // Takes the option at words[i] and its value, if it has one, and moves i past both.
  Result<Unit> TakeOption(const std::vector<std::string>& words, std::size_t& i, bool sbatch) {
    const std::string& word = words[i++];
    std::optional<OptionWord> option = TakeApart(word);
    if (!option) {
      const std::string what = "'" + base::Printable(word, 60) + "' is not an option";
      if (word == "hetjob") return Wrong("hetjob: jobs with several components are not supported");
      if (!sbatch) return Wrong(what);
      Warn("#SBATCH: " + what + ", ignored");
      return Unit{};
    }
    const OptionInfo* info = FindOption(option->name);
    if (info == nullptr || (sbatch && !info->sbatch)) return TakeForeign(*option, words, i, sbatch);
    if (info->name == "wrap" && line_ > 0)
      return Wrong("--wrap: not allowed in a script, which is itself the command");
    const bool is_switch = info->value.empty();
    if (is_switch && option->value && sbatch) {  // for example --exclusive=user
      Warn("#SBATCH " + Dashed(info->name) + ": '" + base::Printable(*option->value, 40) +
           "' is ignored");
      option->value.reset();
    }
    if (!is_switch && !option->value) {
      if (i == words.size()) return Wrong(Dashed(info->name) + ": expected a value");
      option->value = words[i++];
    }
    if (is_switch && option->value) return Wrong(Dashed(info->name) + ": takes no value");
    if (sbatch && info->name == "exclusive")
      Warn(
          "#SBATCH --exclusive: the task has its GPUs to itself, but other tasks may run on the "
          "server");
    if (sbatch) found_.slurm[std::string(info->name)] = option->value.value_or("");
    found_.settings.push_back({std::string(info->name), option->value.value_or(""), sbatch, line_});
    return Unit{};
  }

  // An unknown option is an error after #CARMA but only a warning after #SBATCH.
  Result<Unit> TakeForeign(const OptionWord& option, const std::vector<std::string>& words,
                           std::size_t& i, bool sbatch) {
    if (!sbatch) return Wrong("unknown option " + Dashed(option.name) + SimilarOption(option.name));
    const SlurmOption* known = FindSlurmOption(option.name);
    const bool next_is_value = i < words.size() && !words[i].starts_with('-');
    std::string value = option.value.value_or("");
    if (!option.value && next_is_value && (known == nullptr || known->takes_value))
      value = words[i++];
    if (known == nullptr) {
      Warn("#SBATCH " + Dashed(option.name) + ": unknown option, ignored" +
           SimilarOption(option.name));
      return Unit{};
    }
    found_.slurm[std::string(known->name)] = value;
    if (known->name == "nodes") return CheckNodes(value);
    if (MeansSomething(known->name)) return Unit{};
    if (!passed_over_.empty()) passed_over_ += ", ";
    passed_over_ += Dashed(known->name);
    return Unit{};
  }

  // Parses "1", "2" or "1-4". The first number is the minimum number of nodes.
  Result<Unit> CheckNodes(std::string_view value) {
    const std::optional<std::int64_t> least = base::ParseInt(value.substr(0, value.find('-')));
    if (least && *least > 1)
      return Wrong("--nodes: this is a single server; expected 1, not " +
                   base::Printable(value, 20));
    return Unit{};
  }

  void Warn(const std::string& text) { found_.warnings.push_back(Place() + ": " + text); }

  std::string_view text_;
  std::string path_;
  int line_ = 0;
  bool told_foreign_ = false;
  std::string passed_over_;  // Slurm options that have no effect in CARMA
  Directives found_;
};

// Converts DOS line endings to Unix ones. Returns true if the text had any.
bool RemoveCarriageReturns(std::string& text) {
  const std::size_t first_end = text.find('\n');
  if (first_end == std::string::npos || first_end == 0 || text[first_end - 1] != '\r') return false;
  std::string unix_text;
  unix_text.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    unix_text += text[i];
  }
  text = std::move(unix_text);
  return true;
}

}  // namespace

Result<Directives> ReadDirectives(std::string_view text, std::string_view path) {
  return Reader(text, path).Run();
}

namespace {

// directives.sbatch: the directives come from a script or command line written for Slurm. place:
// for example "train.sh"; messages append the line number if it is known.
Result<Unit> ApplyDirectives(Directives directives, const std::string& place,
                             Description& description) {
  for (std::string& warning : directives.warnings) description.Warn(std::move(warning));
  if (directives.sbatch) {
    description.AddSlurm(directives.slurm);
    // Set first, so that a directive can override it.
    if (const std::optional<int> gpus = GpusOf(*description.slurm()))
      CARMA_TRY(description.Set("gpus", std::to_string(*gpus), place));
  }
  std::optional<Directive> awaits;  // the --dependency directives so far
  for (Directive& directive : directives.settings) {
    const std::string where =
        directive.line == 0 ? place : place + ":" + std::to_string(directive.line);
    if (directive.option == "dependency") {
      // In Slurm, only the last --dependency counts.
      const bool all_count = awaits && !awaits->sbatch && !directive.sbatch;
      if (all_count) directive.value = awaits->value + "," + directive.value;
      if (awaits && !all_count)
        description.Warn(where + ": --dependency replaces the earlier --dependency " +
                         base::Printable(awaits->value, 60));
      awaits = directive;
    }
    CARMA_TRY(description.Set(directive.option, directive.value, where));
  }
  return Unit{};
}

}  // namespace

Result<Unit> ApplyScript(std::string_view text, std::string_view path,
                         std::vector<std::string> args, Description& description) {
  Directives directives = CARMA_TRY(ReadDirectives(text, path));
  const std::string shown = base::Printable(path, 200);
  std::string script(text);
  // Otherwise the kernel would look for an interpreter whose name ends in a carriage return.
  if (RemoveCarriageReturns(script))
    description.Warn(shown + ": DOS line endings are converted to Unix ones");
  for (std::string& warning : BodyWarnings(script, shown, directives.sbatch))
    description.Warn(std::move(warning));
  description.SetScript(std::move(script), std::string(path), std::move(args));
  return ApplyDirectives(std::move(directives), shown, description);
}

Result<Unit> ApplySbatch(const std::vector<std::string>& words, Description& description) {
  Directives directives = CARMA_TRY(Reader("", "sbatch").RunWords(words));
  return ApplyDirectives(std::move(directives), "sbatch", description);
}

}  // namespace carma::task
