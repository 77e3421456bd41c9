#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "task/progress/reading.h"
#include "task/progress/scan.h"

namespace carma::task {
namespace {

using std::string_view;

struct Key {
  string_view word;
  string_view unit;
  // Installers print this word too, so a small counter is accepted only if its line also has a
  // measurement, such as a loss.
  bool plain = false;
};
constexpr std::array<Key, 21> kKeys{
    Key{"current_steps", "step"},
    Key{"global_step", "step"},
    Key{"train_step", "step"},
    Key{"iteration", "iter", true},
    Key{"iter", "iter"},
    Key{"iters", "iter"},
    Key{"step", "step", true},
    Key{"steps", "step", true},
    Key{"batch", "step", true},
    Key{"minibatch", "step", true},
    Key{"num_updates", "update", true},
    Key{"update", "update", true},
    Key{"episode", "episode"},
    Key{"trial", "trial", true},
    Key{"training_iteration", "iter"},
    Key{"round", "round", true},
    Key{"boosting round", "round"},
    Key{"generation", "generation"},
    Key{"total_timesteps", "timestep"},
    Key{"timesteps", "timestep"},
    Key{"timestep", "timestep"},
};
constexpr double kPlainTotal = 50;

// Recognises "Step 3/12 : RUN apt-get …".
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

// Reads the counter after a key: "3/10", "[ 50/160000]", "= 100", "': '0.97", "(train) [50/…]".
std::optional<Counter> CounterAfter(Scan& scan) {
  for (const string_view loop : {"(train)", "(val)", "(test)"}) (void)scan.Skip(loop);
  // Skips the second key in "global_step/max_steps': '120/1000'".
  if (scan.peek() == '/' && scan.at + 1 < scan.text.size() && IsLetter(scan.text[scan.at + 1])) {
    ++scan.at;
    while (IsNameChar(scan.peek())) ++scan.at;
  }
  scan.SkipAny(" :=#([\"'", 12);
  const std::size_t first = scan.at;
  if (const std::optional<Counter> pair = ReadPair(scan)) return pair;
  scan.at = first;
  const std::optional<double> done = scan.Count();
  if (!done || IsLetter(scan.peek()) || scan.peek() == '%') return std::nullopt;
  return Counter{*done, std::nullopt};
}

// Reads the loop counter that follows an epoch counter: "[50/5455]", ":    100 / 2500".
std::optional<Counter> LoopBehind(Scan& scan) {
  const std::size_t before = scan.at;
  scan.SkipAny(" :,|->])\"'");
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
  std::size_t first = 0;  // position of its key
  std::size_t end = 0;
};

// Most of the time per line is spent here, so a single pass over the line looks for all keys.
std::optional<Found> FindLoop(string_view line) {
  std::array<std::optional<Found>, kKeys.size()> by_key;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (!IsLetter(line[at]) || (at > 0 && IsNameChar(line[at - 1]))) continue;
    for (std::size_t i = 0; i < kKeys.size(); ++i) {
      const Key& key = kKeys[i];
      if ((line[at] | ' ') != key.word.front() || by_key[i] || !IsWordAt(line, key.word, at))
        continue;
      Scan scan{line, at + key.word.size()};
      if (const std::optional<Counter> counter = CounterAfter(scan))
        by_key[i] = Found{*counter, key.unit, key.plain, at, scan.at};
    }
  }
  std::optional<Found> found;
  for (const std::optional<Found>& each : by_key) {
    // A counter with a total is more informative.
    if (each && (!found || (each->counter.total && !found->counter.total))) found = each;
  }
  if (!found || found->counter.total) return found;
  for (const string_view word : {"total_steps", "max_steps", "total_iters", "max_iters"}) {
    std::optional<Scan> scan = AfterWord(line, word);
    if (!scan) continue;
    scan->SkipAny("\"':= ", 8);
    const std::optional<double> total = scan->Count();
    if (total && *total >= 1 && *total >= found->counter.done) found->counter.total = total;
  }
  return found;
}

// Returns true if a keyword or a unit of speed in the line shows that it comes from a training
// loop. Needed for programs that print no loss: MXNet, Tesseract, DI-engine, rsl_rl, RLlib and
// RELION.
bool Trains(string_view line) {
  return HasWord(line, "samples/sec") || HasWord(line, "images/sec") || HasWord(line, "img/s") ||
         HasWord(line, "mean rms") || HasWord(line, "training iteration") ||
         HasWord(line, "learning iteration") || HasWord(line, "training_iteration") ||
         HasWord(line, "expectation iteration");
}

// Recognises lines printed by reinforcement-learning programs, which print no loss, and by
// TensorFlow's object detection.
bool HasReward(string_view line) {
  return HasWord(line, "episodic_return") || HasWord(line, "reward") ||
         HasWord(line, "per-step time");
}

bool HasRate(string_view line) {
  return HasWord(line, "lr") || HasWord(line, "learning_rate") || HasWord(line, "learning rate");
}

// Returns true if a comma and exactly three digits are at this position, as in "12,000".
bool ThousandsAt(string_view text, std::size_t at) {
  if (at + 4 > text.size() || text[at] != ',') return false;
  const bool digits = IsDigit(text[at + 1]) && IsDigit(text[at + 2]) && IsDigit(text[at + 3]);
  return digits && (at + 4 == text.size() || !IsDigit(text[at + 4]));
}

// Reads the loop counter that follows an epoch counter. `end` is where the epoch counter ends; it
// is moved past the loop counter.
void TakeLoopOfEpoch(string_view line, Reading& reading, std::size_t& end) {
  Scan scan{line, end};
  if (const std::optional<Counter> loop = LoopBehind(scan)) {
    const bool brackets = line.contains("Epoch [") || line.contains("Epoch(");
    const bool samples = HasWord(line, "train epoch") && !reading.epoch->total;
    reading.loop = *loop;
    reading.unit = brackets ? "iter" : samples ? "sample" : "step";
    reading.whole_run = brackets;
    end = scan.at;
  } else if (reading.epoch->total && line.contains("Epoch(test)")) {
    // In test lines, MMEngine counts iterations, not epochs.
    reading.unit = "iter";
    reading.loop = *std::exchange(reading.epoch, std::nullopt);
  }
}

// Returns true if the epoch counter is followed by " done" or "] finished in 12 s".
bool SaysFinished(string_view line, std::size_t at) {
  Scan scan{line, at};
  scan.SkipAny(" :,|->])[");
  return std::ranges::any_of(
      std::array<string_view, 4>{"done", "finished", "completed", "complete"},
      [&](string_view word) { return IsWordAt(line, word, scan.at); });
}

}  // namespace

std::optional<Counter> ReadPair(Scan& scan) {
  const std::size_t before = scan.at;
  const auto whole = [&scan]() -> std::optional<double> {
    const std::size_t first = scan.at;
    std::string digits;
    while (IsDigit(scan.peek())) digits.push_back(scan.text[scan.at++]);
    // Reads a number such as "12,000".
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
      if (!epoch || (word == "epochs" && !epoch->total && epoch->done == std::floor(epoch->done)))
        continue;
      if (end != nullptr) *end = scan.at;
      return epoch;
    }
  }
  return std::nullopt;
}

std::optional<Reading> ReadCounters(string_view line) {
  if (std::ranges::none_of(line, IsDigit) || line.contains("train_runtime")) return std::nullopt;
  if (std::optional<Reading> reading = ReadShape(line)) return reading;
  Reading reading;
  std::size_t end = 0;
  reading.epoch = ReadEpoch(line, &end);
  if (reading.epoch) TakeLoopOfEpoch(line, reading, end);
  std::size_t before = end;  // end of the part that describes the line
  bool plain = false, setting = false, batches = false;
  if (reading.unit.empty()) {
    const std::optional<Found> found = FindLoop(line);
    // An epoch with a known total is more informative than a step without one.
    if (found && (found->counter.total || !reading.epoch || !reading.epoch->total)) {
      reading.loop = found->counter;
      reading.unit = found->unit;
      before = std::max(before, found->first);
      end = found->end;
      plain = found->plain && found->counter.total.value_or(kPlainTotal) < kPlainTotal;
      batches = IsWordAt(line, "batch", found->first) &&
                (found->first == 0 || line[found->first - 1] != '[');
      const bool leads =
          found->first == line.find_first_not_of(' ') && IsWordAt(line, "step", found->first);
      setting = found->plain && !found->counter.total && !leads && found->unit != "iter";
      reading.whole_run = !reading.epoch;
      if (HasWord(line, "training epoch") && reading.loop.total) {  // NeMo counts from 0
        ++reading.loop.done;
        ++*reading.loop.total;
      }
    }
  }
  if (reading.unit.empty()) {
    if (!reading.epoch) return ReadBrackets(line);
    reading.unit = "epoch";
    reading.loop = *reading.epoch;
    reading.named = HasWord(line, "train epoch");  // so that the line does not count as a heading
    reading.finished = SaysFinished(line, end);
    reading.epoch.reset();
  }
  reading.phase = PhaseOf(line.substr(0, before));
  reading.result = line.contains('{');
  AddMeasures(reading, line);
  const bool works = reading.loss || reading.eta_s || HasReward(line) || Trains(line);
  // A line such as "batch: 64, lr: 0.1" could just list the program's settings.
  const bool measured = works || (HasRate(line) && !setting);
  reading.weak = batches && !measured && !reading.epoch && reading.phase == Phase::kTrain;
  if (plain && !measured && !reading.epoch && reading.phase != Phase::kEval) return std::nullopt;
  if (!reading.loop.total && !measured && reading.unit != "epoch") return std::nullopt;
  if (!measured && IsBuildStep(line.substr(end))) return std::nullopt;
  return reading;
}

}  // namespace carma::task
