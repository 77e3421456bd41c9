#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "task/progress/reading.h"
#include "task/progress/scan.h"

namespace carma::task {
namespace {

using std::string_view;

struct Key {
  string_view word;
  string_view unit;
  bool plain = false;  // also a word of installers: its small counters need a loss beside them
};
constexpr std::array<Key, 20> kKeys{
    Key{"current_steps", "step"},
    Key{"global_step", "step"},
    Key{"train_step", "step"},
    Key{"iteration", "iter"},
    Key{"iter", "iter"},
    Key{"iters", "iter"},
    Key{"step", "step", true},
    Key{"steps", "step", true},
    Key{"batch", "step", true},
    Key{"minibatch", "step", true},
    Key{"num_updates", "update", true},
    Key{"update", "update", true},
    Key{"episode", "episode"},
    Key{"training_iteration", "iter"},
    Key{"round", "round", true},
    Key{"boosting round", "round"},
    Key{"generation", "generation"},
    Key{"total_timesteps", "timestep"},
    Key{"timesteps", "timestep"},
    Key{"timestep", "timestep"},
};
constexpr double kPlainTotal = 50;

constexpr std::array<string_view, 33> kLossKeys{"loss",
                                                "lm_loss",
                                                "train_loss",
                                                "train/loss",
                                                "loss/train",
                                                "training_loss",
                                                "total_loss",
                                                "loss_total",
                                                "loss_step",
                                                "train_loss_step",
                                                "train_loss_epoch",
                                                "reduced_train_loss",
                                                "trainloss",
                                                "avg_loss",
                                                "avr_loss",
                                                "running_loss",
                                                "batch_loss",
                                                "step_loss",
                                                "mean_loss",
                                                "tr_loss",
                                                "loss_avg",
                                                "avg_train_loss",
                                                "train/loss_step",
                                                "train/loss_epoch",
                                                "train-loss",
                                                "train.loss",
                                                "train/total_loss",
                                                "loss/train/total",
                                                "train/crossentropyloss",
                                                "d_loss",
                                                "loss_d",
                                                "nll_loss",
                                                "losses/total_loss"};

std::size_t FindLoss(string_view line, std::size_t from) {
  for (std::size_t i = from; i + 4 <= line.size(); ++i) {
    if ((line[i] == 'l' || line[i] == 'L') && base::ToLower(line.substr(i, 4)) == "loss") return i;
  }
  return string_view::npos;
}

// True for "val loss" and "test loss": not the loss of the training data.
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
  const std::size_t at = FindWord(line, word);
  if (at == string_view::npos) return std::nullopt;
  Scan scan{line, at + word.size()};
  scan.SkipAny("\"':= ", 8);
  return scan.Span();
}

std::optional<double> ReadEta(string_view line) {
  for (const string_view word : {"eta", "remaining", "remaining_time", "remaining time"}) {
    if (const std::optional<double> span = SpanAfter(line, word)) return span;
  }
  return std::nullopt;
}

// Read from the time of each step, or from the steps per second.
std::optional<double> ReadStepRate(string_view line) {
  constexpr string_view kTimes[] = {
      "time", "elapsed time per iteration", "step_time", "iter_time", "ms/batch", "seconds"};
  for (const string_view word : kTimes) {
    const std::size_t at = FindWord(line, word);
    if (at == string_view::npos) continue;
    Scan scan{line, at + word.size()};
    scan.SkipAny("\"' ", 8);
    const bool in_ms = scan.Skip("(ms)") || word.starts_with("ms/");
    (void)scan.Skip("(s)");
    scan.SkipAny("\"':= ", 8);
    std::optional<double> seconds = scan.Number();
    if (!seconds || scan.peek() == ':') continue;
    if (in_ms || scan.Skip("ms") || scan.Skip(" ms")) *seconds /= 1000;
    if (*seconds > 1e-6 && *seconds < 1e5) return 1 / *seconds;
  }
  if (const std::size_t at = FindWord(line, "ups"); at != string_view::npos) {  // fairseq
    Scan scan{line, at + 3};
    scan.SkipAny("\"':= ", 4);
    const std::optional<double> rate = scan.Number();
    if (rate && *rate > 0) return rate;
  }
  return std::nullopt;
}

// "Step 3/12 : RUN apt-get …"
bool IsBuildStep(string_view rest) {
  Scan scan{rest};
  scan.SkipAny(" :");
  std::size_t capitals = 0;
  while (scan.peek() >= 'A' && scan.peek() <= 'Z') {
    ++scan.at;
    ++capitals;
  }
  return capitals >= 3 && (scan.peek() == ' ' || scan.done());
}

// The counter after a key: "3/10", "[ 50/160000]", "= 100", "': '0.97", "(train) [50/…]".
std::optional<Counter> CounterAfter(Scan& scan) {
  for (const string_view loop : {"(train)", "(val)", "(test)"}) (void)scan.Skip(loop);
  scan.SkipAny(" :=#([\"'", 12);
  const std::size_t first = scan.at;
  if (const std::optional<Counter> pair = ReadPair(scan)) return pair;
  scan.at = first;
  const std::optional<double> done = scan.Count();
  if (!done || IsLetter(scan.peek()) || scan.peek() == '%') return std::nullopt;
  return Counter{*done, std::nullopt};
}

// The counter of a loop that follows the counter of an epoch: "[50/5455]", ":    100 / 2500".
std::optional<Counter> LoopBehind(Scan& scan) {
  const std::size_t before = scan.at;
  scan.SkipAny(" :,|-])\"'");
  (void)scan.Skip("[");
  scan.SkipAny(" ");
  const std::optional<Counter> loop = ReadPair(scan);
  if (!loop) scan.at = before;
  return loop;
}

struct Found {
  Counter counter;
  string_view unit;
  bool plain = false;
  std::size_t first = 0;  // where its key begins
  std::size_t end = 0;
};

std::optional<Found> FindLoop(string_view line) {
  std::optional<Found> found;
  for (const Key& key : kKeys) {
    for (std::size_t at = FindWord(line, key.word); at != string_view::npos;
         at = FindWord(line, key.word, at + 1)) {
      Scan scan{line, at + key.word.size()};
      const std::optional<Counter> counter = CounterAfter(scan);
      if (!counter) continue;
      // A counter with a total says more.
      if (!found || (counter->total && !found->counter.total))
        found = Found{*counter, key.unit, key.plain, at, scan.at};
      break;
    }
    if (found && found->counter.total) break;
  }
  if (!found || found->counter.total) return found;
  for (const string_view word : {"total_steps", "max_steps", "total_iters", "max_iters"}) {
    const std::size_t at = FindWord(line, word);
    if (at == string_view::npos) continue;
    Scan scan{line, at + word.size()};
    scan.SkipAny("\"':= ", 8);
    const std::optional<double> total = scan.Count();
    if (total && *total >= 1 && *total >= found->counter.done) found->counter.total = total;
  }
  return found;
}

// "[12] train-rmse:0.12" of XGBoost and LightGBM, "[100] loss=0.5" of clu, "100: learn: 0.5 …
// remaining: 10.8s" of CatBoost.
std::optional<Reading> ReadBoosting(string_view line) {
  // After the head of a log line: "… writer.py:48] [1200] loss=2.4".
  const std::size_t head = line.find("] [");
  Scan scan{line, head == string_view::npos || !IsLetter(line.front()) ? 0 : head + 2};
  scan.SkipAny(" ");
  const bool bracket = scan.Skip("[");
  const std::size_t digits = scan.at;
  while (IsDigit(scan.peek())) ++scan.at;
  Scan number{line.substr(0, scan.at), digits};
  const std::optional<double> done = number.Count();
  if (!done || !scan.Skip(bracket ? "]" : ":")) return std::nullopt;
  scan.SkipAny(" ");
  const string_view rest = line.substr(std::min(scan.at, line.size()));
  Reading reading{.unit = "round", .loop = {*done, std::nullopt}};
  if (!bracket) {
    if (!rest.starts_with("learn:")) return std::nullopt;
    reading.eta_s = ReadEta(rest);
    Scan loss{rest, 6};
    loss.SkipAny(" ");
    reading.loss = loss.Number();
    return reading;
  }
  reading.loss = ReadLoss(rest);
  constexpr string_view kSets[] = {"train-",        "training's ", "valid_", "valid-", "eval-",
                                   "validation_0-", "validation-", "test-",  "dtrain-"};
  const bool boosting =
      std::ranges::any_of(kSets, [&](string_view set) { return rest.starts_with(set); }) &&
      rest.find(':') != string_view::npos;
  if (!boosting && !reading.loss) return std::nullopt;
  if (!boosting) reading.unit = "step";
  return reading;
}

// "Train: 3 [  50/1251 (  4%)]" and "Test: [ 10/196]".
std::optional<Reading> ReadTimm(string_view line) {
  for (const string_view word : {"train", "test", "valid", "validation", "val"}) {
    const std::size_t at = FindWord(line, word);
    if (at == string_view::npos) continue;
    Scan scan{line, at + word.size()};
    if (!scan.Skip(":")) continue;
    scan.SkipAny(" ");
    Reading reading{.phase = word == "train" ? Phase::kTrain : Phase::kEval, .unit = "step"};
    if (const std::optional<double> epoch = scan.Count())
      reading.epoch = Counter{*epoch, std::nullopt};
    scan.SkipAny(" ");
    if (!scan.Skip("[")) continue;
    scan.SkipAny(" ");
    const std::optional<Counter> loop = ReadPair(scan);
    if (!loop) continue;
    reading.loop = *loop;
    // "Train: [12/300][450/1251]" names the epoch first.
    Scan inner = scan;
    if (!reading.epoch && inner.Skip("][")) {
      if (const std::optional<Counter> steps = ReadPair(inner)) {
        reading.epoch = *loop;
        reading.loop = *steps;
      }
    }
    return reading;
  }
  return std::nullopt;
}

// "391/391 - 14s - loss: 0.8 - 36ms/step" of Keras without a bar, "12/41, train_loss: 0.5" of
// MONAI, "loss: 2.3  [ 6464/60000]" and "[1,  2000] loss: 2.2" of
// PyTorch's tutorials, and "Inference done 11/5000. … ETA=0:05:53" of Detectron2, which evaluates.
std::optional<Reading> ReadHead(string_view line) {
  Scan scan{line};
  scan.SkipAny(" ");
  if (const std::size_t at = line.find("Inference done "); at != string_view::npos) {
    scan.at = at + 15;
    const std::optional<Counter> loop = ReadPair(scan);
    if (!loop) return std::nullopt;
    return Reading{.phase = Phase::kEval, .unit = "iter", .loop = *loop, .eta_s = ReadEta(line)};
  }
  Reading reading{.unit = "step", .loss = ReadLoss(line)};
  if (!reading.loss) return std::nullopt;
  if (const std::size_t at = line.rfind('['); at != string_view::npos && line.ends_with(']')) {
    Scan last{line, at + 1};
    last.SkipAny(" ");
    if (const std::optional<Counter> samples = ReadPair(last); samples && last.peek() == ']') {
      reading.unit = "sample";
      reading.loop = *samples;
      return reading;
    }
  }
  if (scan.Skip("[")) {
    const std::optional<double> epoch = scan.Count();
    if (!epoch || !scan.Skip(",")) return std::nullopt;
    scan.SkipAny(" ");
    const std::optional<double> step = scan.Count();
    if (!step || !scan.Skip("]")) return std::nullopt;
    reading.epoch = Counter{*epoch, std::nullopt};
    reading.loop = {*step, std::nullopt};
    return reading;
  }
  const std::optional<Counter> loop = ReadPair(scan);
  if (!loop || !(scan.Skip(" - ") || scan.Skip(", "))) return std::nullopt;
  reading.loop = *loop;
  if (const std::size_t step = line.find("s/step"); step != string_view::npos) {
    scan.at = step;
    while (scan.at > 0 && line[scan.at - 1] != ' ') --scan.at;
    const std::optional<double> each = scan.Span();
    if (each && *each > 0) reading.rate_per_s = 1 / *each;
  }
  return reading;
}

void AddMeasures(Reading& reading, string_view line) {
  if (reading.phase == Phase::kTrain && !reading.loss) reading.loss = ReadLoss(line);
  if (!reading.eta_s) reading.eta_s = ReadEta(line);
  if (reading.unit != "epoch" && !reading.rate_per_s) reading.rate_per_s = ReadStepRate(line);
}

// True for lines of reinforcement learning, which shows no loss, and of TensorFlow's object
// detection.
bool HasReward(string_view line) {
  return HasWord(line, "episodic_return") || HasWord(line, "reward") ||
         HasWord(line, "per-step time");
}

bool HasRate(string_view line) {
  return HasWord(line, "lr") || HasWord(line, "learning_rate") || HasWord(line, "learning rate");
}

// True for ",000" that no further digit follows.
bool ThousandsAt(string_view text, std::size_t at) {
  if (at + 4 > text.size() || text[at] != ',') return false;
  const bool digits = IsDigit(text[at + 1]) && IsDigit(text[at + 2]) && IsDigit(text[at + 3]);
  return digits && (at + 4 == text.size() || !IsDigit(text[at + 4]));
}

}  // namespace

std::optional<Counter> ReadPair(Scan& scan) {
  const std::size_t before = scan.at;
  const auto whole = [&scan]() -> std::optional<double> {
    const std::size_t first = scan.at;
    std::string digits;
    while (IsDigit(scan.peek())) digits.push_back(scan.text[scan.at++]);
    // "12,000".
    while (scan.at > first && scan.at - first <= 12 && ThousandsAt(scan.text, scan.at)) {
      digits.append(scan.text.substr(scan.at + 1, 3));
      scan.at += 4;
    }
    return Scan{digits}.Count();
  };
  const std::optional<double> done = whole();
  if (done) {
    scan.SkipAny(" ", 1);
    const bool slash = scan.Skip("/") || scan.Skip("of ");
    scan.SkipAny(" ", 12);
    const std::optional<double> total = slash ? whole() : std::nullopt;
    const bool ends =
        scan.peek() != '.' || scan.at + 1 >= scan.text.size() || !IsDigit(scan.text[scan.at + 1]);
    const bool path = scan.peek() == '/' || scan.peek() == '-';
    if (total && *total >= 1 && *done <= *total && ends && !path) return Counter{*done, total};
  }
  scan.at = before;
  return std::nullopt;
}

std::optional<Counter> ReadEpoch(string_view text, std::size_t* end) {
  for (const string_view word : {"epoch", "epochs", "ep"}) {
    for (std::size_t at = FindWord(text, word); at != string_view::npos;
         at = FindWord(text, word, at + 1)) {
      Scan scan{text, at + word.size()};
      const std::optional<Counter> epoch = CounterAfter(scan);
      if (!epoch || (word == "epochs" && !epoch->total)) continue;
      if (end != nullptr) *end = scan.at;
      return epoch;
    }
  }
  return std::nullopt;
}

std::optional<double> ReadLoss(string_view line) {
  for (std::size_t at = FindLoss(line, 0); at != string_view::npos; at = FindLoss(line, at + 4)) {
    std::size_t first = at;
    const auto in_key = [](char c) { return IsNameChar(c) || c == '/' || c == '.' || c == '-'; };
    while (first > 0 && in_key(line[first - 1])) --first;
    Scan scan{line, at + 4};
    while (IsNameChar(scan.peek()) || scan.peek() == '/') ++scan.at;
    const std::string key = base::ToLower(line.substr(first, scan.at - first));
    if (std::ranges::find(kLossKeys, key) == kLossKeys.end() || OfOtherData(line.substr(0, first)))
      continue;
    const std::size_t value = scan.at;
    scan.SkipAny("\"' ", 40);
    (void)scan.Skip("train");
    scan.SkipAny(":=|", 1);
    scan.SkipAny("\"' ", 40);
    (void)scan.Skip("tensor(");
    if (scan.at == value) continue;
    if (const std::optional<double> loss = scan.Number()) return loss;
  }
  return std::nullopt;
}

std::optional<Reading> ReadCounters(string_view line) {
  if (std::ranges::none_of(line, IsDigit) || line.find("train_runtime") != string_view::npos)
    return std::nullopt;
  if (std::optional<Reading> timm = ReadTimm(line)) {
    AddMeasures(*timm, line);
    return timm;
  }
  if (std::optional<Reading> boosting = ReadBoosting(line)) return boosting;
  if (std::optional<Reading> head = ReadHead(line)) return head;
  Reading reading;
  std::size_t end = 0;
  reading.epoch = ReadEpoch(line, &end);
  std::size_t before = end;  // up to where the line says what it is about
  bool plain = false;
  if (reading.epoch) {
    Scan scan{line, end};
    const bool brackets =
        line.find("Epoch [") != string_view::npos || line.find("Epoch(") != string_view::npos;
    if (const std::optional<Counter> loop = LoopBehind(scan)) {
      reading.loop = *loop;
      const bool samples = HasWord(line, "train epoch") && !reading.epoch->total;
      reading.unit = brackets ? "iter" : samples ? "sample" : "step";
      reading.whole_run = brackets;
      end = before = scan.at;
    }
  }
  if (reading.unit.empty() && reading.epoch && reading.epoch->total &&
      line.find("Epoch(test)") != string_view::npos) {  // MMEngine counts no epochs there
    reading.unit = "iter";
    reading.loop = *std::exchange(reading.epoch, std::nullopt);
  }
  if (reading.unit.empty()) {
    const std::optional<Found> found = FindLoop(line);
    // An epoch with a known total says more than a step without one.
    if (found && (found->counter.total || !reading.epoch || !reading.epoch->total)) {
      reading.loop = found->counter;
      reading.unit = found->unit;
      before = std::max(before, found->first);
      end = found->end;
      plain = found->plain && found->counter.total.value_or(kPlainTotal) < kPlainTotal;
      reading.whole_run = !reading.epoch;
      if (HasWord(line, "training epoch") && reading.loop.total) {  // NeMo counts from 0
        ++reading.loop.done;
        ++*reading.loop.total;
      }
    }
  }
  if (reading.unit.empty()) {
    if (!reading.epoch) return std::nullopt;
    reading.unit = "epoch";
    reading.loop = *reading.epoch;
    reading.epoch.reset();
  }
  reading.phase = PhaseOf(line.substr(0, before));
  reading.result = line.find('{') != string_view::npos;
  AddMeasures(reading, line);
  const bool measured = reading.loss || reading.eta_s || HasRate(line) || HasReward(line);
  if (plain && !measured && !reading.epoch) return std::nullopt;
  if (!reading.loop.total && !measured && reading.unit != "epoch") return std::nullopt;
  if (!measured && IsBuildStep(line.substr(end))) return std::nullopt;
  return reading;
}

}  // namespace carma::task
