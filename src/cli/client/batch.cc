// `carma submit --batch`: submits many tasks from one file, in as few requests as the daemon
// allows, because each request is a durable write.
#include <fmt/format.h>

#include <utility>

#include "api/task_pointer.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/calls.h"
#include "cli/client/checks.h"
#include "cli/client/describe.h"
#include "cli/client/verbs.h"
#include "cli/ids.h"
#include "task/describe/spec.h"

namespace carma::cli {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 30;
// Bounds memory usage: all descriptions and their environments are kept in memory until the first
// request is sent.
constexpr std::size_t kMaxDescribedBytes = std::size_t{2} << 30;
constexpr std::size_t kMaxBatchTasks = 1'000'000;
// Limits for one request. They are below the daemon's own limits (task.max_batch,
// api::kMaxBodyBytes).
constexpr std::size_t kMaxChunkTasks = 100'000;
constexpr std::size_t kMaxChunkBytes = 48 << 20;
constexpr std::size_t kMaxChunkMemory = 192 << 20;  // counts the shared fields for each task

struct Batch {
  std::string common;              // JSON object with the fields that the specs omit
  std::vector<std::string> specs;  // JSON texts
  std::vector<std::size_t> lines;  // line number of each task, from 1
};

class BatchReader {
 public:
  BatchReader(const SubmitFlags& flags, const task::SubmitterContext& caller, std::string name)
      : flags_(flags), caller_(caller), name_(std::move(name)) {
    common_.workdir = caller.cwd;
  }

  // Parses and checks all lines before anything is submitted.
  Result<Batch> Read(std::string_view text) {
    const std::vector<Line> lines = TaskLines(text);
    if (lines.empty()) return Invalid(name_ + ": contains no tasks");
    // Checked first, because describing too many tasks would take a long time.
    if (lines.size() > kMaxBatchTasks) {
      return Invalid("{}: {} tasks, expected at most {} in one batch", name_, lines.size(),
                     kMaxBatchTasks);
    }
    Batch batch{.common = CommonJson(caller_)};
    std::size_t bytes = 0;
    for (const Line& line : lines) {
      const std::string place = fmt::format("{}:{}", name_, line.number);
      std::string spec = CARMA_TRY(base::Wrap(
          flags_.lines ? FromCommand(std::string(line.text)) : FromJson(line.text), place));
      bytes += spec.size();
      if (bytes > kMaxDescribedBytes)
        return Invalid(place + ": expected at most 2 GiB of descriptions in one batch");
      batch.specs.push_back(std::move(spec));
      batch.lines.push_back(line.number);
    }
    return batch;
  }

 private:
  struct Line {
    std::size_t number;  // from 1
    std::string_view text;
  };

  // The lines that are neither blank nor a comment.
  std::vector<Line> TaskLines(std::string_view text) const {
    std::vector<Line> lines;
    for (std::size_t number = 1; !text.empty(); ++number) {
      const std::size_t end = text.find('\n');
      const std::string_view line = base::Trim(text.substr(0, end));
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      if (!line.empty() && !(flags_.lines && line[0] == '#')) lines.push_back({number, line});
    }
    return lines;
  }

  Result<std::string> FromJson(std::string_view line) const {
    CARMA_TRY(task::SpecFromJsonText(line, common_));
    return std::string(line);
  }

  Result<std::string> FromCommand(const std::string& line) {
    task::Description description;
    CARMA_TRY(ApplyOptions(flags_, description));
    CARMA_TRY(description.Set("wrap", line));
    if (description.array()) return Invalid("--array cannot be combined with --batch");
    if (!description.parameters().empty() || !description.sweep_file().empty())
      return Invalid("--param and --param-file cannot be combined with --batch");
    auto specs = CARMA_TRY(description.Finish(caller_));
    std::vector<std::string> notes;  // not printed, because a batch may be large
    CARMA_TRY(finder_.Add(description, specs.front(), notes));
    // The options are the same for all lines, so only the first line is checked.
    if (!flags_.no_check && !std::exchange(checked_, true) && specs[0].dependencies.empty())
      CARMA_TRY(base::Wrap(CheckItCanStart(specs[0]), "not submitted (--no-check submits anyway)"));
    return WithoutCommon(std::move(specs[0]));
  }

  // Omits the shared environment, because it is the largest part of a description and a batch would
  // contain thousands of copies of it.
  std::string WithoutCommon(task::TaskSpec spec) const {
    if (spec.environment.empty()) return "{\"environment\":{}," + task::ToJsonText(spec).substr(1);
    if (spec.environment == caller_.environment) spec.environment.clear();
    return task::ToJsonText(spec);
  }

  const SubmitFlags& flags_;
  const task::SubmitterContext& caller_;
  std::string name_;
  TrainingFinder finder_;
  bool checked_ = false;   // a line has passed CheckItCanStart()
  task::TaskSpec common_;  // for checking lines; the daemon checks the environment
};

// Adds a line number to the daemon's error, which identifies a task only by its index.
base::Error WithLine(base::Error error, const Batch& batch, std::size_t first,
                     const std::string& name) {
  const std::optional<std::size_t> index = api::TaskNamedBy(error.message);
  if (!index || first + *index >= batch.lines.size()) return error;
  error.message = fmt::format("{}:{}: {}", name, batch.lines[first + *index], error.message);
  return error;
}

// One past the last task of the chunk that starts at `first`.
std::size_t ChunkEnd(const Batch& batch, std::size_t first) {
  constexpr std::size_t kTaskBytes = 1024;  // approximate size of a task without its texts
  const std::vector<std::string>& specs = batch.specs;
  std::size_t bytes = 0;
  std::size_t memory = 0;
  std::size_t end = first;
  while (end < specs.size() && end - first < kMaxChunkTasks) {
    bytes += specs[end].size() + 1;
    memory += specs[end].size() + batch.common.size() + kTaskBytes;
    if ((bytes > kMaxChunkBytes || memory > kMaxChunkMemory) && end > first) break;
    ++end;
  }
  return end;
}

// Reports the submitted tasks. If a request fails, the tasks of earlier requests stay submitted.
class Receipt {
 public:
  void Add(Answer<Submission> answer) {
    ranges_.push_back(RangeText(answer.value.first, answer.value.count));
    count_ += answer.value.count;
    texts_.push_back(std::move(answer.text));
  }
  bool empty() const { return texts_.empty(); }
  void PrintTo(const Context& context, bool parsable) const {
    const std::string ranges = base::Join(ranges_, ",");
    if (context.json) {
      Print(context, "{\"submissions\":" + JsonList(texts_) + "}\n");
    } else if (parsable) {
      Print(context, ranges + "\n");
    } else {
      Print(context,
            fmt::format("Submitted task{} {} ({})\n", count_ == 1 ? "" : "s", ranges, count_));
    }
  }

 private:
  std::vector<std::string> ranges_;
  std::vector<std::string> texts_;
  std::uint64_t count_ = 0;
};

Result<Unit> Send(Context& context, const SubmitFlags& flags, const Batch& batch,
                  const std::string& name) {
  Receipt receipt;
  for (std::size_t first = 0; first < batch.specs.size();) {
    const std::size_t end = ChunkEnd(batch, first);
    const std::vector<std::string> chunk(batch.specs.begin() + static_cast<std::ptrdiff_t>(first),
                                         batch.specs.begin() + static_cast<std::ptrdiff_t>(end));
    auto answer = SubmitTasks(context.client(), chunk, batch.common);
    if (!answer) {
      if (!receipt.empty()) {
        receipt.PrintTo(context, flags.parsable);
        Warn(context,
             fmt::format("the tasks from line {} onwards were not submitted", batch.lines[first]));
      }
      return std::unexpected(WithLine(answer.error(), batch, first, name));
    }
    for (const std::string& warning : answer->value.warnings) Warn(context, warning);
    receipt.Add(std::move(*answer));
    first = end;
  }
  receipt.PrintTo(context, flags.parsable);
  return Unit{};
}

Result<Unit> Check(Context& context, const Batch& batch, const std::string& name) {
  std::size_t checked = 0;
  while (checked < batch.specs.size()) {
    const std::size_t end = ChunkEnd(batch, checked);
    const auto first = batch.specs.begin() + static_cast<std::ptrdiff_t>(checked);
    const auto last = batch.specs.begin() + static_cast<std::ptrdiff_t>(end);
    const auto answer = CheckTasks(context.client(), {first, last}, batch.common);
    if (!answer && answer.error().code == ErrorCode::kUnavailable) {
      Warn(context, answer.error().message + "; checked without it");
      break;
    }
    if (!answer) return std::unexpected(WithLine(answer.error(), batch, checked, name));
    checked = end;
  }
  const std::size_t count = batch.specs.size();
  Print(context, context.json
                     ? fmt::format("{{\"count\":{}}}\n", count)
                     : fmt::format("Nothing was submitted; {} {} valid.\n",
                                   base::Counted(count, "task"), count == 1 ? "is" : "are"));
  return Unit{};
}

}  // namespace

Result<Unit> RunBatch(Context& context, const SubmitFlags& flags) {
  if (flags.batch.empty()) return Invalid("--lines requires --batch");
  if (!context.words.empty() || flags.wait)
    return Invalid("--batch cannot be combined with a command, a script or --wait");
  if (!flags.lines && !flags.settings.empty())
    return Invalid("--{} cannot be combined with --batch unless --lines is given",
                   flags.settings[0].first);
  const std::string name = flags.batch == "-" ? "stdin" : flags.batch;
  const auto text = CARMA_TRY(ReadInput(flags.batch, kMaxFileBytes));
  std::string_view lines = text;
  if (lines.starts_with("\xEF\xBB\xBF")) lines.remove_prefix(3);  // a byte order mark
  const auto caller = CARMA_TRY(CallerContext(context, flags.settings));
  SubmitFlags meant = flags;
  meant.settings = CARMA_TRY(WithTasksResolved(context, flags.settings));
  const auto batch = CARMA_TRY(BatchReader(meant, caller, name).Read(lines));
  return flags.check ? Check(context, batch, name) : Send(context, flags, batch, name);
}

}  // namespace carma::cli
