#include "task/progress/reader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "task/progress/scan.h"

namespace carma::task {
namespace {

using std::string_view;

constexpr string_view kExact = "carma: progress ";

// The number that follows `text` anywhere in the line: "Num Epochs = 3".
std::optional<double> NumberAfter(string_view line, string_view text) {
  const std::size_t at = line.find(text);
  if (at == string_view::npos) return std::nullopt;
  std::string digits;
  for (const char c : line.substr(at + text.size())) {
    if (IsDigit(c)) digits.push_back(c);
    if ((!IsDigit(c) && c != ',' && c != ' ' && c != '=' && c != ':') || digits.size() > 15) break;
  }
  Scan scan{digits};
  const std::optional<double> number = scan.Count();
  return number && *number >= 1 ? number : std::nullopt;
}

// Returns true if a log line's prefix names another rank: "[Rank 3] step 10", "(rank 3) step 10",
// "rank3: step 10" or "INFO:root:Rank 3, step 10".
bool NamesOtherRank(string_view line) {
  constexpr std::size_t kHead = 100;
  for (std::size_t at = 0; at + 5 < std::min(line.size(), kHead); ++at) {
    if ((line[at] | 0x20) != 'r' || base::ToLower(line.substr(at, 4)) != "rank") continue;
    if (at > 0 && string_view("[(:").find(line[at - 1]) == string_view::npos) continue;
    Scan scan{line, at + 4};
    scan.SkipAny(" =:#", 3);
    const string_view rank = scan.While(IsDigit);
    const char end = scan.peek();
    if (rank.empty() || string_view("]):|,").find(end) == string_view::npos) continue;
    return rank.find_first_not_of('0') != string_view::npos;
  }
  return false;
}

// The line without "[rank0]: " or "[default0]:". Empty if the line is from another rank.
std::optional<string_view> OfRankZero(string_view line) {
  if (NamesOtherRank(line)) return std::nullopt;
  Scan scan{line};
  if (!scan.Skip("[rank") && !scan.Skip("[default") && !scan.Skip("[1,") && !scan.Skip("["))
    return line;
  const string_view rank = scan.While(IsDigit);
  if (rank.empty() || !scan.Skip("]")) return line;
  if (!scan.Skip(":") && !scan.Skip("<stderr>:") && !scan.Skip("<stdout>:")) return line;
  if (rank.find_first_not_of('0') != string_view::npos) return std::nullopt;
  return line.substr(scan.at);
}

// Splits a line of `srun --label`, such as "3: Epoch 1/10 …", into the rank and the text after it.
// Requires an epoch counter in that text, because otherwise the number itself could be the epoch.
std::optional<std::pair<double, string_view>> LabelOfRank(string_view line) {
  Scan scan{line};
  scan.SkipAny(" ", 8);
  const std::optional<double> rank = scan.Count();
  if (!rank || !scan.Skip(": ")) return std::nullopt;
  const string_view rest = line.substr(scan.at);
  if (!ReadEpoch(rest)) return std::nullopt;
  return std::pair(*rank, rest);
}

bool SameLoop(const Reading& a, const Reading& b) {
  return a.loop.total == b.loop.total;
}
bool Over(const Reading& reading) {
  return reading.loop.total && reading.loop.done >= *reading.loop.total;
}
double Share(const Counter& counter) {
  return std::min(1.0, counter.done / *counter.total);
}

// Reads the cell that follows the cell with this name, as in "|    loss   | -0.0404   |".
std::optional<double> Cell(string_view line, string_view name) {
  std::optional<Scan> scan = AfterWord(line, name);
  if (!scan) return std::nullopt;
  scan->SkipAny(" ");
  if (!scan->Skip("|")) return std::nullopt;
  scan->SkipAny(" ");
  return scan->Number();
}

}  // namespace

string_view ToText(Phase phase) {
  constexpr string_view kWords[] = {"other", "download", "train", "eval"};
  return kWords[static_cast<std::size_t>(phase)];
}

std::optional<double> Progress::fraction() const {
  if (!done || !total) return std::nullopt;
  return std::min(1.0, *done / *total);
}

void ProgressReader::Feed(int stream, string_view bytes) {
  streams_[static_cast<std::size_t>(stream)].Feed(bytes, [this](string_view line) { Take(line); });
}

void ProgressReader::Take(string_view whole) {
  std::optional<string_view> line = OfRankZero(whole);
  if (const auto labelled = line ? LabelOfRank(*line) : std::nullopt) {
    labelled_ |= labelled->first == 0;
    if (labelled_ && labelled->first > 0) return;
    line = labelled->second;
  }
  if (!line || std::ranges::none_of(*line, IsDigit)) {
    if (line) TakeContext(*line);
    return;
  }
  if (line->starts_with("wandb: ")) return;  // these lines repeat earlier values
  if (line->starts_with(kExact)) return TakeExact(line->substr(kExact.size()));
  if (exact_) return;
  const std::optional<std::string> english = InEnglish(*line);
  if (english) line = *english;
  if (const std::optional<Reading> bar = ReadBar(*line)) return TakeBar(*bar);
  TakeContext(*line);
  if (const std::optional<Reading> counters = ReadCounters(*line)) return TakeCounters(*counters);
  // The line has no counter, but it may contain a loss.
  const bool heading = epoch_ && (!train_ || (train_->unit == "epoch" && !train_->loop.total));
  if ((!train_ && !heading) || PhaseOf(line->substr(0, 40)) == Phase::kEval) return;
  if (line->find("train_runtime") != string_view::npos) return;
  const std::optional<double> loss = ReadLoss(*line);
  if (!loss) return;
  loss_ = loss;
  if (heading) TakeTraining({.unit = "epoch", .loop = *epoch_, .loss = loss});
}

// Reads "120/1000", optionally followed by " loss 0.5".
void ProgressReader::TakeExact(string_view line) {
  Scan scan{line};
  const std::optional<double> done = scan.Count();
  if (!done || !scan.Skip("/")) return;
  const std::optional<double> total = scan.Count();
  if (!total || *total < 1 || *done > *total) return;
  exact_ = true;
  epoch_.reset();
  evaluating_ = restarted_ = false;
  train_ = Reading{.unit = "step", .loop = {*done, total}};
  loss_ = ReadLoss(line);
}

void ProgressReader::TakeBar(Reading bar) {
  constexpr double kLeastBytes = 10'000;
  if (downloads_ && !bar.named && !bar.loss && bar.loop.total.value_or(0) >= kLeastBytes)
    bar.phase = Phase::kDownload;
  if (bar.phase == Phase::kDownload) download_ = true;
  if (prepares_ && !bar.named && !bar.loss) bar.phase = Phase::kOther;
  if (bar.phase == Phase::kOther || bar.phase == Phase::kDownload) return;
  if (bar.phase == Phase::kTrain && !bar.named && IsEvaluationBar(bar)) bar.phase = Phase::kEval;
  if (bar.phase == Phase::kEval) return TakeEvaluation(bar);
  TakeTraining(bar);
}

bool ProgressReader::IsEvaluationBar(const Reading& bar) {
  if (!train_ || bar.loss || !bar.loop.total || !bar.unit.starts_with("step"))
    return announced_ && !bar.loss;
  const bool main = train_->bar && train_->loop.total.has_value();
  if (!main || SameLoop(bar, *train_)) {
    if (main) announced_ = false;
    return announced_;
  }
  if (outer_ && SameLoop(bar, *outer_) && bar.loop.done >= outer_->loop.done) {
    outer_ = bar;
    SetEpoch(bar.loop, true);
    return false;
  }
  const bool slower =
      bar.rate_per_s && train_->rate_per_s && *train_->rate_per_s > 20 * *bar.rate_per_s;
  if (announced_) return true;
  if (slower || train_->named) return false;
  if (*bar.loop.total < *train_->loop.total) return true;
  if (!Over(*train_)) outer_ = *train_;
  return false;
}

void ProgressReader::TakeCounters(Reading reading) {
  if (reading.weak && !epoch_ && !train_) return;
  if (reading.unit == "percent" && train_ && train_->loop.total && train_->unit != "percent")
    return;  // less exact than the current counter
  if (reading.phase == Phase::kEval) {
    if (reading.loop.total) TakeEvaluation(reading);
    return;
  }
  if (!reading.loop.total && loops_total_ && *loops_total_ >= reading.loop.done &&
      reading.unit != "epoch")
    reading.loop.total = loops_total_;
  const bool heading = reading.unit == "epoch" && !reading.loss && !reading.loop.total &&
                       !reading.eta_s && !reading.result && !reading.named;
  if (!reading.loop.total && !heading && train_ && train_->loop.total) {
    // This counter is less precise than the current one, so only its loss is used.
    if (reading.loss) loss_ = reading.loss;
    return;
  }
  if (heading) return SetEpoch(reading.loop, false, reading.finished);
  if (reading.result && !reading.loss) return;
  TakeTraining(reading);
}

void ProgressReader::TakeEvaluation(const Reading& reading) {
  eval_ = reading;
  evaluating_ = !Over(reading) || !train_;
}

void ProgressReader::TakeTraining(Reading reading) {
  evaluating_ = announced_ = false;
  if (reading.loss) loss_ = reading.loss;
  if (reading.unit == "epoch") {
    SetEpoch(reading.loop, reading.bar && !reading.row, reading.finished);
    reading = FromOne(reading);
  } else if (reading.epoch) {
    SetEpoch(*reading.epoch, false);
  }
  if (reading.bar && train_ && train_->bar && SameLoop(reading, *train_) &&
      reading.unit == train_->unit && reading.loop.done < train_->loop.done)
    restarted_ = true;
  train_ = reading;
}

void ProgressReader::SetEpoch(Counter epoch, bool completed, bool finished) {
  // If the total is one less than a multiple of ten, as in "29/299", counting began at 0.
  const auto of_tens = [](double total) { return std::fmod(total + 1, 10) == 0; };
  if (!completed && (epoch.done == 0 || (epoch.total && of_tens(*epoch.total)))) from_zero_ = true;
  if (completed) from_zero_ = false;
  if (epoch.total && from_zero_ && *epoch.total < epoch.done + 1e9) ++*epoch.total;
  for (const auto& total : {epochs_total_, epoch_ ? epoch_->total : std::nullopt}) {
    if (!epoch.total && total && *total >= epoch.done) epoch.total = total;
  }
  epoch_ = epoch;
  completed_ = completed || epoch.done != std::floor(epoch.done);
  finished_ = finished && !completed_;
}

// Makes the epoch counter start at 1.
Reading ProgressReader::FromOne(Reading reading) const {
  if (from_zero_) {
    ++reading.loop.done;
    if (reading.loop.total) ++*reading.loop.total;
  }
  if (!reading.loop.total && epoch_) reading.loop.total = epoch_->total;
  return reading;
}

void ProgressReader::TakeContext(string_view line) {
  constexpr string_view kPreparing[] = {"preprocessing", "tokenizing", "building contexts",
                                        "extracting", "converting"};
  const std::string head = base::ToLower(base::Trim(line).substr(0, 20));
  prepares_ =
      std::ranges::any_of(kPreparing, [&](string_view word) { return head.starts_with(word); });
  downloads_ = head.starts_with("downloading");
  if (const auto total = NumberAfter(line, "Num Epochs =")) epochs_total_ = total;
  if (const auto total = NumberAfter(line, "Scheduled epochs:")) epochs_total_ = total;
  for (const string_view name : {"max_iters =", "num_rounds=", "Starting training..., iters:"}) {
    if (const auto total = NumberAfter(line, name)) loops_total_ = total;
  }
  if (line.contains("otal optimization steps") || line.contains("Total steps")) {
    const std::size_t last = line.find_last_of("=:");
    if (last != string_view::npos)
      run_loops_ = NumberAfter(line.substr(last), line.substr(last, 1));
  }
  if (line.contains("***** Running Evaluation") || line.contains("***** Running Prediction") ||
      HasWord(line.substr(0, 80), "start evaluating"))
    announced_ = true;
  constexpr string_view kDownloads[] = {
      "Downloading ",       "% Total    % Received", "Saving to:",
      "Receiving objects:", "Extracting ../",        "Length: ",
      "Cloning into",       "Collecting ",           " .......... .......... "};
  if (std::ranges::any_of(kDownloads, [&](string_view text) { return line.contains(text); }))
    download_ = true;
  if (train_ && train_->whole_run && head.starts_with("eta:")) train_->eta_s = ReadEta(line);
  if (line.contains('|')) return TakeTable(line);
  if (TakeChainer(line)) return;
  TakeColumns(line);
  TakeRow(line);
}

// Parses rows that follow a heading line, such as "3000 (10.00%)  24.4 ms  …",
// "10.2%,51000,-512301.7,…,1:00:58" and "  100  0.757  -5.76 …".
void ProgressReader::TakeColumns(string_view line) {
  const string_view head = base::Trim(line);
  if (head.starts_with("Step (% Done)") || head.starts_with("#\"Progress (%)\"") ||
      (head.starts_with("Step ") && HasWord(head, "temp"))) {
    columns_ = true;
    return;
  }
  Scan scan{head};
  const std::optional<double> first = columns_ ? scan.Count() : std::nullopt;
  if (!first) {
    if (head.find_first_not_of('-') != string_view::npos) columns_ = false;
    return;
  }
  const bool counts = scan.peek() == ' ';
  const std::optional<double> share = counts && scan.Skip(" (") ? scan.Number() : first;
  const bool percent = scan.Skip("%") && share && *share >= 0 && *share <= 100;
  scan.SkipAny(" ");
  if (percent)
    TakeTraining({.unit = "percent",
                  .loop = {*share, 100},
                  .eta_s = Scan{head, head.rfind(',') + 1}.Span(),
                  .whole_run = true});
  else if (counts && scan.Number())
    TakeTraining({.unit = "step", .loop = {*first, {}}});
  else
    columns_ = false;
}

void ProgressReader::TakeRow(string_view line) {
  const std::vector<string_view> words = base::SplitWords(line.substr(0, 300));
  if (words.size() < 3) return;
  if (words[0] == "epoch" || (words[0] == "E" && words[1] == "#")) {
    const auto loss = std::ranges::find_if(
        words, [](string_view name) { return name == "train_loss" || name == "main/loss"; });
    steps_at_ = words[0] == "E" ? 1 : 0;
    losses_at_ = loss == words.end() ? 0 : static_cast<std::size_t>(loss - words.begin());
    return;
  }
  const std::size_t column = std::max(losses_at_, steps_at_);
  if (column == 0 || words[0][0] == '-') return;
  Scan epoch{words[0]};
  Scan cell{words[std::min(column, words.size() - 1)]};
  Scan time{words.back()};
  const std::optional<double> done = epoch.Count();
  const std::optional<double> value = cell.Number();
  if (!done || !value || !epoch.done() || !cell.done() || (!time.Span() && !time.Number())) {
    losses_at_ = steps_at_ = 0;
    return;
  }
  if (losses_at_ > 0) loss_ = value;
  if (train_ && train_->bar && train_->loop.total) return;
  if (losses_at_ > 0) return TakeTraining({.unit = "epoch", .loop = {*done, {}}, .loss = value});
  TakeTraining({.unit = "step", .loop = {*value, {}}, .epoch = Counter{*done, {}}});
}

// Reads "     total [###....]  6.40%", then "      1000 iter, 1 epoch / 20 epochs" and "     126.4
// iters/sec. Estimated time to finish: 0:01:55."
bool ProgressReader::TakeChainer(string_view line) {
  Scan scan{line};
  scan.SkipAny(" ");
  if (scan.Skip("this epoch [")) return true;
  if (scan.Skip("total [")) {
    scan.SkipAny("#.");
    (void)scan.Skip("]");
    scan.SkipAny(" ");
    share_ = scan.Number();
    return share_.has_value();
  }
  const std::optional<double> number = scan.Number();  // "inf" at the beginning
  if (number && scan.Skip(" iter, ") && scan.Count() && scan.Skip(" epoch / ")) {
    const std::optional<double> total = scan.Count();
    const bool epochs = scan.Skip(" epochs");
    const double done = epochs ? share_.value_or(0) / 100 * total.value_or(0) : *number;
    if (!total || *total < 1 || done > *total || (!epochs && !scan.Skip(" iterations")))
      return false;
    TakeTraining(
        {.unit = epochs ? "epoch" : "iter", .loop = {done, total}, .bar = true, .whole_run = true});
    return true;
  }
  if (number && scan.Skip(" iters/sec. ") && scan.Skip("Estimated time to finish: ") && train_) {
    train_->eta_s = scan.Span();
    if (train_->unit == "iter") train_->rate_per_s = number;
    return true;
  }
  return line.contains("inf iters/sec. Estimated");
}

void ProgressReader::TakeTable(string_view line) {
  if (const auto rate = Cell(line, "fps")) {
    rate_ = rate;
    if (train_ && train_->unit == "timestep") train_->rate_per_s = rate;
  }
  auto done = Cell(line, "total_timesteps");
  if (!done) done = Cell(line, "totalenvinteracts");  // Spinning Up's name for the counter
  if (done && *done >= 0 && !(train_ && train_->loop.total))
    TakeTraining({.unit = "timestep", .loop = {*done, std::nullopt}, .rate_per_s = rate_});
}

double ProgressReader::EpochsDone() const {
  return std::max(0.0, epoch_->done - (completed_ || from_zero_ ? 0 : 1) + (finished_ ? 1 : 0));
}

// Returns true if the loop spans the whole run even though the program also prints epochs.
bool ProgressReader::SpansEpochs() const {
  return run_loops_ && train_ && train_->unit != "epoch" && train_->loop.total == run_loops_;
}

std::optional<double> ProgressReader::RunFraction() const {
  if (!train_ || !train_->loop.total) return std::nullopt;
  const Counter& loop = train_->loop;
  if (train_->unit == "epoch") {
    if (train_->row) return std::clamp((loop.done - 1 + *train_->row) / *loop.total, 0.0, 1.0);
    const bool finished = completed_ || train_->loss || train_->finished;
    return std::clamp((loop.done - (finished ? 0 : 1)) / *loop.total, 0.0, 1.0);
  }
  if (SpansEpochs()) return Share(loop);
  if (epoch_ && epoch_->total)
    return std::clamp((EpochsDone() + Share(loop)) / *epoch_->total, 0.0, 1.0);
  if (epoch_ || restarted_) return std::nullopt;
  return Share(loop);
}

std::optional<double> ProgressReader::RunLeft() const {
  if (!train_) return std::nullopt;
  const Reading& train = *train_;
  const bool run = train.whole_run || SpansEpochs() ||
                   (train.unit == "epoch" ? completed_ : !epoch_ && !restarted_);
  if (run && train.eta_s) return train.eta_s;
  if (!train.loop.total || !train.rate_per_s || *train.rate_per_s <= 0 || train.unit == "epoch")
    return std::nullopt;
  const double total = *train.loop.total;
  if ((!epoch_ && !restarted_) || SpansEpochs())
    return (total - train.loop.done) / *train.rate_per_s;
  if (!epoch_ || !epoch_->total) return std::nullopt;
  const double loops = std::max(0.0, *epoch_->total - EpochsDone());
  return std::max(0.0, loops * total - train.loop.done) / *train.rate_per_s;
}

Progress ProgressReader::Now() {
  for (const OutputLines& stream : streams_) {
    if (!stream.pending().empty()) Take(std::string(stream.pending()));
  }
  Progress progress;
  const std::optional<Reading>& shown = evaluating_ || !train_ ? eval_ : train_;
  if (!shown) {
    if (download_) progress.phase = Phase::kDownload;
    return progress;
  }
  progress.phase = shown->phase;
  progress.unit = shown->unit;
  progress.done = shown->loop.done;
  progress.total = shown->loop.total;
  progress.rate_per_s = shown->rate_per_s;
  progress.eta_s = shown->eta_s;
  if (train_) progress.loss = loss_;
  progress.run_fraction = RunFraction();
  progress.run_left_s = RunLeft();
  if (epoch_) progress.epoch = std::floor(EpochsDone()) + 1;
  if (epoch_ && epoch_->total && finished_)
    progress.epoch = std::min(*progress.epoch, *epoch_->total);
  return progress;
}

}  // namespace carma::task
