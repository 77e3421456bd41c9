// Finds commands in a batch script that behave differently in CARMA than on the system it was
// written for.
#include "task/describe/script_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <ranges>

#include "base/text.h"
#include "task/describe/slurm.h"

namespace carma::task {
namespace {

constexpr std::size_t kMostWarnings = 8;

constexpr std::array<std::string_view, 4> kStandIns{"srun", "sbatch", "scancel", "scontrol"};
constexpr std::array<std::string_view, 16> kMissing{
    "squeue",  "sacct",    "sstat",    "seff",  "sinfo",  "salloc", "sbcast", "sattach",
    "sreport", "sacctmgr", "strigger", "sprio", "sshare", "sdiag",  "sview",  "scrontab"};
constexpr std::array<std::string_view, 4> kWordsOfScontrol{"requeue", "hold", "release", "update"};

template <class List>
bool Has(const List& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

// Splits one line into words, accurately enough for this search. Quotes are removed, and each shell
// metacharacter becomes a separate word.
std::vector<std::string> WordsOf(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  const auto end = [&] {
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };
  for (const char c : line) {
    if (c == '#' && word.empty()) break;
    if (c == ' ' || c == '\t') {
      end();
    } else if (std::string_view(";|&()`{}").find(c) != std::string_view::npos) {
      if (!word.empty() && word.back() == '$') word.pop_back();
      end();
      words.emplace_back(1, c);
    } else if (c != '"' && c != '\'') {
      word += c;
    }
  }
  end();
  return words;
}

bool BeginsCommand(const std::vector<std::string>& words, std::size_t at) {
  constexpr std::array<std::string_view, 15> kBefore{";",  "|",     "&",    "(",    "`",
                                                     "{",  "then",  "do",   "!",    "else",
                                                     "if", "while", "exec", "time", "eval"};
  if (at == 0) return true;
  const std::string& before = words[at - 1];
  // The word follows an assignment, as in "NAME=value program".
  const bool assigns = before.contains('=') && before[0] != '-' && at == 1;
  return assigns || Has(kBefore, before);
}

std::string SrunMistake(const std::vector<std::string>& words, std::size_t at) {
  for (++at; at < words.size() && words[at].starts_with('-') && words[at] != "--"; ++at) {
    const std::optional<OptionWord> option = TakeApart(words[at]);
    if (!option) break;
    const SlurmOption* known = FindSrunOption(option->name);
    if (known == nullptr) return "CARMA's srun does not accept " + base::Printable(words[at], 60);
    if (known->name == "label") return "CARMA's srun does not label lines";
    std::string value = option->value.value_or("");
    if (known->takes_value && !option->value && at + 1 < words.size()) value = words[++at];
    if (value.contains("%s")) return "in CARMA, '%s' is the same for every srun";
    const auto nodes = base::ParseInt(value.substr(0, value.find('-')));
    if (known->name == "nodes" && nodes && *nodes > 1)
      return "srun on " + base::Printable(value, 20) + " nodes fails: this is a single server";
  }
  return "";
}

std::string ScontrolMistake(const std::vector<std::string>& words, std::size_t at) {
  for (++at; at < words.size() && words[at].starts_with('-');) ++at;
  if (at >= words.size() || Has(kWordsOfScontrol, words[at])) return "";
  const std::string what = at + 1 < words.size() && words[at] == "show" ? words[at + 1] : "";
  if (what.starts_with("hostname") || what == "job" || what == "jobs") return "";
  return fmt::format("'scontrol {}{}{}' fails in CARMA", base::Printable(words[at], 30),
                     what.empty() ? "" : " ", base::Printable(what, 30));
}

std::string Mistake(const std::vector<std::string>& words, std::size_t at) {
  const std::string& word = words[at];
  if (word == "srun") return SrunMistake(words, at);
  const auto singleton = [](const std::string& each) { return each.ends_with("singleton"); };
  if (word == "sbatch" && std::ranges::any_of(words, singleton))
    return "CARMA's sbatch does not accept --dependency=singleton";
  if (word == "scontrol") return ScontrolMistake(words, at);
  const auto itself = [](const std::string& each) {
    return each == "$0" || each.contains("BASH_SOURCE");
  };
  if (word == "dirname" &&
      std::ranges::any_of(words | std::views::drop(at) | std::views::take(4), itself))
    return "$0 is a copy of the script in another folder; use $PWD, the working directory";
  if (Has(kMissing, word))
    return fmt::format(
        "CARMA has no {}; tasks can call {}", word,
        base::Join(std::vector<std::string>(kStandIns.begin(), kStandIns.end()), ", "));
  return "";
}

// Recognises "export CUDA_VISIBLE_DEVICES=0,1" and "CUDA_VISIBLE_DEVICES=1 python …".
bool SetsGpus(const std::vector<std::string>& words, std::size_t at) {
  constexpr std::string_view kSets = "CUDA_VISIBLE_DEVICES=";
  return words[at].starts_with(kSets) &&
         words[at] != "CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES" &&
         (BeginsCommand(words, at) || words[at - 1] == "export" || words[at - 1] == "env");
}

}  // namespace

std::vector<std::string> BodyWarnings(std::string_view script, std::string_view path, bool slurm) {
  std::vector<std::string> warnings;
  std::vector<std::string> seen;
  int number = 0, first = 0;
  std::string line;
  for (const std::string_view part : base::Split(script, '\n')) {
    ++number;
    if (line.empty()) first = number;
    line += part;
    if (line.ends_with('\\')) {  // the command continues on the next line
      line.back() = ' ';
      continue;
    }
    const std::vector<std::string> words = WordsOf(line);
    const bool keeps = line.contains("scontrol requeue ") && !script.contains("--open-mode");
    line.clear();
    for (std::size_t at = 0; at < words.size() && warnings.size() < kMostWarnings; ++at) {
      std::string mistake;
      if (SetsGpus(words, at)) {
        mistake = "sets CUDA_VISIBLE_DEVICES, so the task may use GPUs that are not assigned to it";
      } else if (slurm && BeginsCommand(words, at)) {
        mistake = Mistake(words, at);
        if (keeps && mistake.empty()) mistake = "in CARMA, a requeued task keeps its output file";
      }
      if (mistake.empty() || Has(seen, mistake)) continue;
      seen.push_back(mistake);
      warnings.push_back(fmt::format("{}:{}: {}", path, first, mistake));
    }
  }
  return warnings;
}

}  // namespace carma::task
