#include "cli/client/describe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "base/try.h"
#include "base/unique_fd.h"
#include "cli/client/checks.h"
#include "estimate/estimator.h"
#include "estimate/recipe/find.h"
#include "estimate/recipe/plan_files.h"
#include "estimate/training_words.h"
#include "task/describe/script.h"
#include "task/describe/sweep.h"

namespace carma::cli {
namespace {

constexpr std::size_t kMaxRadBytes = 1 << 20;

// True if the word is a script rather than a command. A name such as train.sh always counts as a
// script, so that the user gets a clear error if the file is missing or has no "#!" line.
bool IsScript(const std::string& path) {
  for (const char* ending : {".sh", ".bash", ".sbatch", ".slurm"}) {
    if (path.ends_with(ending)) return true;
  }
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  char start[5] = {};
  const ssize_t n = fd ? ::read(fd.get(), start, sizeof start) : 0;
  const std::string_view text(start, n > 0 ? static_cast<std::size_t>(n) : 0);
  return text.starts_with("#!") || text == "\xEF\xBB\xBF#!";  // a byte order mark is refused later
}

// Refuses training settings that no estimator recognises.
Result<Unit> CheckKnown(const task::TaskSpec& spec) {
  const auto refuse = [](const char* option, const std::string& word, const char* expected) {
    return Invalid(std::string(option) + ": '" + base::Printable(word, 40) + "': expected " +
                   expected);
  };
  if (spec.optimizer && !estimate::ParseOptimizer(*spec.optimizer) &&
      !estimate::CheckWords(std::vector<task::TrainingWord>{{"optimizer", *spec.optimizer, ""}}))
    return refuse("--optimizer", *spec.optimizer, "sgd, sgd-momentum, adam, adamw, adamw-8bit …");
  if (spec.precision && !estimate::ParsePrecision(*spec.precision))
    return refuse("--precision", *spec.precision, "fp32, tf32, amp, fp16 or bf16");
  return Unit{};
}

// Warns if the command starts processes for more GPUs than the task gets.
void NoteProcesses(const estimate::TrainingWords& words, const task::TaskSpec& spec,
                   std::vector<std::string>& notes) {
  for (const task::TrainingWord& word : words) {
    if (word.name != "gpus" || word.value == std::to_string(spec.gpus)) continue;
    notes.push_back(fmt::format("{}: the training uses {} GPU{}, but the task requests {} (--gpus)",
                                word.from, word.value, word.value == "1" ? "" : "s", spec.gpus));
  }
}

// Sets the defaults of a task that runs in the caller's terminal. Its script and the options
// override them.
Result<Unit> ApplyHere(const SubmitFlags::Here& here, task::Description& description) {
  description.SetAttach(here.name, here.terminal);
  CARMA_TRY(description.Set("output", "/dev/null"));
  return here.once ? description.Set("retries", "0") : Unit{};
}

// Largest size of a parameter table, in bytes.
constexpr std::size_t kMaxSweepBytes = 4 << 20;

Result<Unit> Sweep(const task::Description& description, const task::TaskSpec& spec,
                   Described& described) {
  if (description.parameters().empty() && description.sweep_file().empty()) return Unit{};
  std::vector<task::Parameters> table;
  if (const std::string& file = description.sweep_file(); !file.empty()) {
    const auto text = CARMA_TRY(ReadNamed(file, kMaxSweepBytes));
    table = CARMA_TRY(task::ParseSweepTable(text, file));
  }
  const auto all =
      CARMA_TRY(base::Wrap(task::Combinations(description.parameters(), table), "--param"));
  described.common = base::DumpJson({{"environment", spec.environment}});
  task::TaskSpec bare = spec;
  bare.environment.clear();
  for (std::size_t i = 0; i < all.size(); ++i) {
    task::TaskSpec each = bare;
    each.array_index = static_cast<std::int64_t>(i);
    task::ApplyParameters(all[i], each);
    described.specs.push_back(task::ToJsonText(each));
    if (i > 0) continue;
    described.first = std::move(each);
    described.first.environment = spec.environment;
  }
  return Unit{};
}

}  // namespace

Result<task::SubmitterContext> CallerContext() {
  task::SubmitterContext caller;
  char folder[4096];
  if (::getcwd(folder, sizeof folder)) {
    caller.cwd = folder;
  } else if (errno != ENOENT) {
    return FailErrno(errno, "current folder");
  }
  caller.home = base::GetEnv("HOME", "/");
  caller.user = base::GetEnv("USER");
  caller.now = base::SystemClock().Now();
  const mode_t umask = ::umask(0);  // setting the mask is the only way to read it
  ::umask(umask);
  caller.umask = task::UmaskText(umask);
  caller.environment = base::OwnEnvironment();
  return caller;
}

Result<Unit> ApplyOptions(const SubmitFlags& flags, task::Description& description) {
  for (const auto& [option, value] : flags.settings) CARMA_TRY(description.Set(option, value));
  return Unit{};
}

bool DescribesTask(const std::string& path) {
  return path.ends_with(".rad") || IsScript(path);
}

Result<Unit> ApplyWords(const std::vector<std::string>& words, bool literal,
                        task::Description& description) {
  if (words.empty()) return Unit{};
  const std::string& first = words[0];
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (!literal && first == "-") {
    const std::string text = CARMA_TRY(
        base::Wrap(base::ReadAll(STDIN_FILENO, task::kMaxScriptBytes), "script on standard input"));
    return task::ApplyScript(text, "stdin", rest, description);
  }
  if (!literal && first.ends_with(".rad")) {
    if (!rest.empty()) return Invalid(first + ": a .rad file takes no arguments");
    const auto text = CARMA_TRY(ReadNamed(first, kMaxRadBytes));
    return task::ApplyRad(text, first, description);
  }
  if (!literal && IsScript(first)) {
    const auto text = ReadNamed(first, task::kMaxScriptBytes);
    if (!text) {
      base::Error error = text.error();
      if (::access(first.c_str(), F_OK) != 0) error.message += SimilarFile(first);
      return std::unexpected(std::move(error));
    }
    return task::ApplyScript(*text, first, rest, description);
  }
  description.SetCommand(words);
  return Unit{};
}

Result<std::vector<task::TrainingWord>> ReadPlanFiles(const std::vector<task::PlanFile>& files) {
  std::vector<task::TrainingWord> words;
  for (const task::PlanFile& file : files) {
    const std::string text = CARMA_TRY(ReadNamed(file.path, estimate::kMaxConfigBytes));
    const bool adapter = file.kind == task::PlanFile::Kind::kAdapter;
    estimate::TrainingWords read = CARMA_TRY(adapter ? estimate::ReadAdapterConfig(text, file.path)
                                                     : estimate::ReadDeepSpeed(text, file.path));
    for (task::TrainingWord& word : read) words.push_back(std::move(word));
  }
  return words;
}

Result<Unit> TrainingFinder::Add(const task::Description& description, task::TaskSpec& spec,
                                 std::vector<std::string>& notes) {
  CARMA_TRY(CheckKnown(spec));
  CARMA_TRY(estimate::CheckWords(spec.training));
  std::vector<task::TrainingWord> words = CARMA_TRY(ReadPlanFiles(description.plan_files()));
  if (description.reads_training() && !spec.memory_mib && spec.gpus > 0) {
    estimate::TrainingFound found = estimate::FindTraining(
        spec,
        [this](const std::string& path, std::size_t max_bytes) { return Read(path, max_bytes); });
    if (!spec.model_summary && !found.config.empty()) spec.model_summary = found.config;
    words.insert(words.begin(), found.words.begin(), found.words.end());
    notes.insert(notes.end(), found.notes.begin(), found.notes.end());
    NoteProcesses(found.words, spec, notes);
  }
  spec.training.insert(spec.training.begin(), words.begin(), words.end());
  if (spec.training.size() > task::kMaxTrainingWords)
    spec.training.erase(spec.training.begin(), spec.training.end() - task::kMaxTrainingWords);
  return Unit{};
}

Result<std::string> TrainingFinder::Read(const std::string& path, std::size_t max_bytes) {
  constexpr std::size_t kMostFiles = 256;
  const auto known = files_.find(path);
  if (known != files_.end()) return known->second;
  Result<std::string> text = base::ReadFile(path, max_bytes);
  if (files_.size() < kMostFiles) files_.emplace(path, text);
  return text;
}

Result<Described> Describe(const SubmitFlags& flags, const std::vector<std::string>& words,
                           bool literal, const task::SubmitterContext& caller) {
  task::Description description;
  if (flags.here) CARMA_TRY(ApplyHere(*flags.here, description));
  CARMA_TRY(ApplyWords(words, literal, description));
  if (!flags.sbatch.empty()) CARMA_TRY(task::ApplySbatch(flags.sbatch, description));
  CARMA_TRY(ApplyOptions(flags, description));
  if (flags.here && description.array())
    return Invalid("--array: only a single task can run in a terminal");
  auto specs = CARMA_TRY(description.Finish(caller));
  Described described;
  CARMA_TRY(TrainingFinder().Add(description, specs.front(), described.notes));
  described.spec = task::ToJsonText(specs.front());
  described.warnings = description.warnings();
  CARMA_TRY(Sweep(description, specs.front(), described));
  if (described.specs.empty()) described.first = specs.front();
  if (!description.array()) return described;
  for (const task::TaskSpec& spec : specs) described.indices.push_back(*spec.array_index);
  return described;
}

}  // namespace carma::cli
