// Reads the values that a line prints in addition to its counter: losses, remaining time, speed.
#include <algorithm>
#include <string>

#include "base/text.h"
#include "task/progress/reading.h"
#include "task/progress/scan.h"

namespace carma::task {
namespace {

using std::string_view;

// Names of the training loss, with a space before and after each.
constexpr string_view kLossKeys =
    " loss lm_loss train_loss train/loss loss/train training_loss total_loss loss_total"
    " loss_step train_loss_step train_loss_epoch reduced_train_loss trainloss avg_loss avr_loss"
    " running_loss batch_loss step_loss mean_loss tr_loss loss_avg avg_train_loss"
    " train/loss_step train/loss_epoch train-loss train.loss train/total_loss loss/train/total"
    " train/crossentropyloss d_loss loss_d nll_loss losses/total_loss ";

std::size_t FindLoss(string_view line, std::size_t from) {
  for (std::size_t i = from; i + 4 <= line.size(); ++i) {
    if ((line[i] == 'l' || line[i] == 'L') && base::ToLower(line.substr(i, 4)) == "loss") return i;
  }
  return string_view::npos;
}

// Returns true if the text ends with a word such as "val" or "test", which means that the loss
// after it is not a training loss.
bool OfOtherData(string_view before) {
  before = before.substr(0, before.find_last_not_of(' ') + 1);
  std::size_t first = before.size();
  while (first > 0 && IsNameChar(before[first - 1])) --first;
  const std::string word = base::ToLower(before.substr(first));
  constexpr string_view kOthers[] = {"val",        "valid", "validation", "test", "eval",
                                     "evaluation", "best",  "min",        "dev"};
  return std::ranges::find(kOthers, word) != std::end(kOthers);
}

std::optional<double> SpanAfter(string_view line, string_view word) {
  std::optional<Scan> scan = AfterWord(line, word);
  if (!scan) return std::nullopt;
  scan->SkipAny("\"':= ", 8);
  return scan->Span();
}

// Reads the steps per second, or computes them from the time per step.
std::optional<double> ReadStepRate(string_view line) {
  constexpr string_view kTimes[] = {
      "time", "elapsed time per iteration", "step_time", "iter_time", "ms/batch", "seconds"};
  for (const string_view word : kTimes) {
    std::optional<Scan> scan = AfterWord(line, word);
    if (!scan) continue;
    scan->SkipAny("\"' ", 8);
    const bool in_ms = scan->Skip("(ms)") || word.starts_with("ms/");
    (void)scan->Skip("(s)");
    scan->SkipAny("\"':= ", 8);
    std::optional<double> seconds = scan->Number();
    if (!seconds || scan->peek() == ':') continue;
    if (in_ms || scan->Skip("ms") || scan->Skip(" ms")) *seconds /= 1000;
    if (*seconds > 1e-6 && *seconds < 1e5) return 1 / *seconds;
  }
  // Fairseq prints its updates per second as "ups".
  if (std::optional<Scan> scan = AfterWord(line, "ups")) {
    scan->SkipAny("\"':= ", 4);
    const std::optional<double> rate = scan->Number();
    if (rate && *rate > 0) return rate;
  }
  return std::nullopt;
}

}  // namespace

std::optional<double> ReadEta(string_view line) {
  for (const string_view word : {"eta", "remaining", "remaining_time", "remaining time",
                                 "remaining wall clock time", "time_left"}) {
    if (const std::optional<double> span = SpanAfter(line, word)) return span;
  }
  return std::nullopt;
}

std::optional<double> ReadStepTime(string_view line) {
  const std::size_t end = line.find("s/step");
  if (end == string_view::npos) return std::nullopt;
  const std::optional<double> seconds = Scan{line, line.rfind(' ', end) + 1}.Span();
  return seconds && *seconds > 0 ? seconds : std::nullopt;
}

void AddMeasures(Reading& reading, string_view line) {
  if (reading.phase == Phase::kTrain && !reading.loss) reading.loss = ReadLoss(line);
  if (!reading.eta_s) reading.eta_s = ReadEta(line);
  if (reading.unit != "epoch" && !reading.rate_per_s) reading.rate_per_s = ReadStepRate(line);
}

std::optional<double> ReadLoss(string_view line) {
  for (std::size_t at = FindLoss(line, 0); at != string_view::npos; at = FindLoss(line, at + 4)) {
    std::size_t first = at;
    const auto in_key = [](char c) { return IsNameChar(c) || c == '/' || c == '.' || c == '-'; };
    while (first > 0 && in_key(line[first - 1])) --first;
    Scan scan{line, at + 4};
    while (IsNameChar(scan.peek()) || scan.peek() == '/') ++scan.at;
    const std::string key = " " + base::ToLower(line.substr(first, scan.at - first)) + " ";
    if (!kLossKeys.contains(key) || OfOtherData(line.substr(0, first))) continue;
    const std::size_t value = scan.at;
    scan.SkipAny("\"' ", 40);
    (void)scan.Skip("train");
    (void)scan.Skip("is ");  // MindSpore prints "is" here
    scan.SkipAny(":=|", 1);
    scan.SkipAny("\"' ", 40);
    (void)scan.Skip("tensor(");
    if (scan.at == value) continue;
    if (const std::optional<double> loss = scan.Number()) return loss;
  }
  return std::nullopt;
}

}  // namespace carma::task
