// `carma progress`: shows the progress that CARMA reads from a program's output.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/unique_fd.h"
#include "cli/client/verbs.h"
#include "cli/command.h"
#include "task/progress/reader.h"

namespace carma::cli {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 16;

Result<task::Progress> ReadFileProgress(const std::string& path) {
  base::UniqueFd file;
  if (path != "-") {
    file.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return std::unexpected(NamedWrongly(FailErrno(errno, path).error()));
  }
  task::ProgressReader reader;
  std::string piece(kPieceBytes, '\0');
  while (true) {
    const ssize_t n = ::read(file ? file.get() : STDIN_FILENO, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FailErrno(errno, InputName(path));
    if (n == 0) return reader.Now();
    reader.Feed(0, std::string_view(piece.data(), static_cast<std::size_t>(n)));
  }
}

std::string JsonOf(const task::Progress& progress) {
  nlohmann::ordered_json json;
  const auto add = [&json](const char* name, const auto& value) {
    json[name] = nullptr;
    if (value) json[name] = *value;
  };
  add("fraction", progress.fraction());
  add("unit", progress.unit.empty() ? std::nullopt : std::optional(progress.unit));
  add("done", progress.done);
  add("total", progress.total);
  add("rate_per_s", progress.rate_per_s);
  add("eta_s", progress.eta_s);
  add("loss", progress.loss);
  json["phase"] = ToText(progress.phase);
  add("epoch", progress.epoch);
  add("run_fraction", progress.run_fraction);
  add("run_left_s", progress.run_left_s);
  return json.dump() + "\n";
}

std::string LengthText(double seconds) {
  return base::FormatSpan(base::Duration(static_cast<std::int64_t>(seconds * 1000)));
}

std::string TextOf(const task::Progress& progress) {
  if (!progress.found()) return "no progress found\n";
  std::string text = progress.phase == task::Phase::kEval ? "evaluation, " : "training, ";
  if (progress.epoch && progress.unit != "epoch")
    text += fmt::format("epoch {}, ", *progress.epoch);
  text += fmt::format("{} {}", progress.unit, *progress.done);
  if (progress.total) text += fmt::format(" of {}", *progress.total);
  // Omits the percentage of epochs if the fraction of the run is known. The current epoch may be
  // unfinished, and the line below shows the exact fraction.
  if (progress.total && !(progress.unit == "epoch" && progress.run_fraction))
    text += fmt::format(" ({:.1f} %)", *progress.fraction() * 100);
  if (progress.rate_per_s) text += fmt::format(", {:.3g} per second", *progress.rate_per_s);
  if (progress.eta_s) text += ", " + LengthText(*progress.eta_s) + " left (as printed)";
  if (progress.loss) text += fmt::format(", loss {:.4g}", *progress.loss);
  text += "\n";
  if (progress.run_fraction)
    text += fmt::format("whole run: {:.1f} %", *progress.run_fraction * 100);
  if (progress.run_fraction && progress.run_left_s)
    text += ", " + LengthText(*progress.run_left_s) + " left";
  if (progress.run_fraction) text += "\n";
  return text;
}

}  // namespace

void AddProgressCommand(Syntax app, Context& context) {
  const Syntax verb =
      app.AddVerb("progress", "Show the progress that CARMA reads from a program's output");
  verb.Footer(
      "  carma progress train.log\n"
      "  python train.py 2>&1 | carma progress - --json\n"
      "--json prints one object. It describes the innermost loop (fraction, unit, done, total,\n"
      "rate_per_s, eta_s, loss and phase) and the whole run (epoch, run_fraction and run_left_s).\n"
      "A value that was not found is null.\n"
      "Every verb also takes --json and --socket PATH.");
  auto path = std::make_shared<std::string>();
  verb.AddOption("file", "FILE", *path, "output of a training program, or - for standard input")
      .Required();
  verb.OnRun([&context, path] {
    const Result<task::Progress> progress = ReadFileProgress(*path);
    if (!progress) return context.Fail(progress.error());
    Print(context, context.json ? JsonOf(*progress) : TextOf(*progress));
  });
}

}  // namespace carma::cli
