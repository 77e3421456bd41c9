// Reads the progress lines of particular programs, such as XGBoost, timm and Keras. These lines do
// not name their counter, so they are recognised by their shape.
#include <algorithm>

#include "task/progress/reading.h"
#include "task/progress/scan.h"

namespace carma::task {
namespace {

using std::string_view;

// Reads lines from XGBoost and LightGBM ("[12] train-rmse:0.12"), clu ("[100] loss=0.5") and
// CatBoost ("100: learn: 0.5 … remaining: 10.8s").
std::optional<Reading> ReadBoosting(string_view line) {
  // The counter may follow a log prefix: "… writer.py:48] [1200] loss=2.4", "[10:00:00] [12]
  // train-rmse".
  const std::size_t head = line.find("] [");
  const string_view before = line.substr(0, head == string_view::npos ? 0 : head);
  const bool logged = !before.empty() && (IsLetter(before.front()) || before.contains(':'));
  Scan scan{line, logged ? head + 2 : 0};
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
      rest.contains(':');
  if (!boosting && !reading.loss) return std::nullopt;
  if (!boosting) reading.unit = "step";
  return reading;
}

// Reads timm lines: "Train: 3 [  50/1251 (  4%)]" and "Test: [ 10/196]".
std::optional<Reading> ReadTimm(string_view line) {
  if (!line.contains('[')) return std::nullopt;
  for (const string_view word : {"train", "test", "valid", "validation", "val"}) {
    std::optional<Scan> scan = AfterWord(line, word);
    if (!scan || !scan->Skip(":")) continue;
    scan->SkipAny(" ");
    Reading reading{.phase = word == "train" ? Phase::kTrain : Phase::kEval, .unit = "step"};
    if (const std::optional<Counter> epoch = ReadPair(*scan)) {
      reading.epoch = epoch;
    } else if (const std::optional<double> number = scan->Count()) {
      reading.epoch = Counter{*number, std::nullopt};
    }
    scan->SkipAny(" ");
    if (!scan->Skip("[")) continue;
    scan->SkipAny(" ");
    const std::optional<Counter> loop = ReadPair(*scan);
    if (!loop) continue;
    reading.loop = *loop;
    // "Train: [12/300][450/1251]" names the epoch first.
    Scan inner = *scan;
    if (!reading.epoch && inner.Skip("][")) {
      if (const std::optional<Counter> steps = ReadPair(inner)) {
        reading.epoch = *loop;
        reading.loop = *steps;
      }
    }
    AddMeasures(reading, line);
    return reading;
  }
  return std::nullopt;
}

// Reads lines from Keras without a bar ("391/391 - 14s - loss: 0.8 - 36ms/step"), MONAI ("12/41,
// train_loss: 0.5"), PyTorch's tutorials ("loss: 2.3  [ 6464/60000]" and "[1,  2000] loss: 2.2")
// and Detectron2's evaluation ("Inference done 11/5000. … ETA=0:05:53").
std::optional<Reading> ReadHead(string_view line) {
  if (std::optional<Scan> inference = AfterText(line, "Inference done ")) {
    const std::optional<Counter> loop = ReadPair(*inference);
    if (!loop) return std::nullopt;
    return Reading{.phase = Phase::kEval, .unit = "iter", .loop = *loop, .eta_s = ReadEta(line)};
  }
  Scan scan{line};
  scan.SkipAny(" ");
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
  if (!loop) return std::nullopt;
  const std::size_t end = scan.at;
  scan.SkipAny(" ,:");
  if (scan.at == end || IsDigit(scan.peek())) return std::nullopt;  // a date: "01/02 03:04:05"
  reading.loop = *loop;
  if (const std::optional<double> each = ReadStepTime(line)) reading.rate_per_s = 1 / *each;
  return reading;
}

// Reads an ESPnet line, "3epoch:train:451-500batch: …", which follows "3/100epoch started. …".
std::optional<Reading> ReadRange(string_view line) {
  if (const std::size_t begun = line.find("epoch started. "); begun != string_view::npos) {
    Scan pair{line, line.rfind(' ', begun) + 1};
    const std::optional<Counter> epoch = ReadPair(pair);
    if (epoch && pair.at == begun) return Reading{.unit = "epoch", .loop = *epoch};
  }
  const std::size_t key = line.find("epoch:train:");
  std::size_t first = key;
  while (key != string_view::npos && first > 0 && IsDigit(line[first - 1])) --first;
  if (first == key) return std::nullopt;
  Scan epoch{line, first};
  Scan range{line, key + 12};
  const std::optional<double> number = epoch.Count();
  const std::optional<double> from = range.Count();
  if (!number || !from || !range.Skip("-")) return std::nullopt;
  const std::optional<double> done = range.Count();
  if (!done || !range.Skip("batch")) return std::nullopt;
  Reading reading{
      .unit = "step", .loop = {*done, std::nullopt}, .epoch = Counter{*number, std::nullopt}};
  AddMeasures(reading, line);
  return reading;
}

// Reads a Marian line: "[2026-01-02 03:04:05] Ep. 2 : Up. 500 : Sen. 31,937 : Cost 4.2 : …".
std::optional<Reading> ReadMarian(string_view line) {
  std::optional<Scan> epoch = AfterText(line, "Ep. ");
  std::optional<Scan> update = AfterText(line, " : Up. ");
  if (!epoch || !update || update->at < epoch->at) return std::nullopt;
  const std::optional<double> number = epoch->Count();
  const std::optional<double> done = update->Count();
  if (!number || !done) return std::nullopt;
  Reading reading{
      .unit = "update", .loop = {*done, std::nullopt}, .epoch = Counter{*number, std::nullopt}};
  if (std::optional<Scan> cost = AfterText(line, ": Cost ")) reading.loss = cost->Number();
  return reading;
}

// Reads a Darknet line: " 1000: 0.51, 0.62 avg loss, 0.001 rate, 3.2 seconds, 64000 images, 12.5
// hours left".
std::optional<Reading> ReadDarknet(string_view line) {
  Scan scan{line};
  scan.SkipAny(" ");
  const std::optional<double> done = scan.Count();
  if (!done || !scan.Skip(": ") || !scan.Number() || !scan.Skip(", ")) return std::nullopt;
  const std::optional<double> loss = scan.Number();
  if (!loss || !scan.Skip(" avg")) return std::nullopt;
  (void)scan.Skip(" loss");
  if (!scan.Skip(", ") || !scan.Number() || !scan.Skip(" rate, ")) return std::nullopt;
  const std::optional<double> seconds = scan.Number();
  if (!seconds || !scan.Skip(" seconds, ")) return std::nullopt;
  Reading reading{.unit = "iter", .loop = {*done, std::nullopt}, .loss = loss, .whole_run = true};
  if (*seconds > 0) reading.rate_per_s = 1 / *seconds;
  if (scan.Count() && scan.Skip(" images, ")) {
    const std::optional<double> hours = scan.Number();
    if (hours && *hours >= 0 && scan.Skip(" hours left")) reading.eta_s = 3600 * *hours;
  }
  return reading;
}

// Reads a llama.cpp line: "train: [████      ] data=0000012/0000140 loss=2.31±0.1 … ETA=00:02:08".
std::optional<Reading> ReadLlama(string_view line) {
  std::optional<Scan> data = AfterText(line, "] data=");
  const std::optional<Counter> loop = data ? ReadPair(*data) : std::nullopt;
  if (!loop) return std::nullopt;
  Reading reading{.phase = PhaseOf(line.substr(0, line.find('['))), .unit = "step", .loop = *loop};
  AddMeasures(reading, line);
  return reading;
}

// Reads "INFO :      [ROUND 3]" from Flower, which prints the number of rounds when it starts.
std::optional<Reading> ReadFlower(string_view line) {
  std::optional<Scan> round = AfterText(line, "[ROUND ");
  const std::optional<double> number = round ? round->Count() : std::nullopt;
  if (!number || !round->Skip("]")) return std::nullopt;
  return Reading{.unit = "round", .loop = {*number, std::nullopt}};
}

// Reads an Ultralytics row that has no bar.
std::optional<Reading> ReadEpochRow(string_view line) {
  const std::optional<Counter> epoch = ReadUltralytics(line, 4);
  if (!epoch) return std::nullopt;
  return Reading{.unit = "epoch", .loop = *epoch, .row = 1};
}

// Reads a NAMD line: "TIMING: 5000  CPU: 61.2, 0.0121/step  Wall: 61.9, 0.0122/step, 1.6 hours
// remaining, …".
std::optional<Reading> ReadNamd(string_view line) {
  Scan scan{line};
  if (!scan.Skip("TIMING: ")) return std::nullopt;
  const std::size_t left = line.find(" hours remaining");
  if (left == string_view::npos) return std::nullopt;
  const std::optional<double> done = scan.Count();
  const std::optional<double> hours = Scan{line, line.rfind(' ', left - 1) + 1}.Number();
  if (!done || !hours || *hours < 0) return std::nullopt;
  return Reading{.unit = "step", .loop = {*done, {}}, .eta_s = 3600 * *hours, .whole_run = true};
}

// Reads "EPOCH 1 - PROGRESS: at 58.13% examples, 175758 words/s", "Training progress: 37.5%",
// "Train Epoch: 3 [45%]".
std::optional<Reading> ReadPercent(string_view line) {
  if (!line.contains('%')) return std::nullopt;
  const std::size_t word = FindWord(line, "progress");
  const bool named = word != string_view::npos;
  if (!named && !line.contains("%]")) return std::nullopt;
  std::size_t end = 0;
  const std::optional<Counter> epoch = ReadEpoch(line, &end);
  if (!named && (!epoch || epoch->total)) return std::nullopt;
  Scan scan{line, named ? word + 8 : end};
  scan.SkipAny(named ? " :" : " ", 4);
  if (named) (void)scan.Skip("at ");
  if (!named && !scan.Skip("[")) return std::nullopt;
  const std::optional<double> share = scan.Number();
  if (!share || *share < 0 || *share > 100 || !scan.Skip("%")) return std::nullopt;
  Reading reading{.phase = PhaseOf(line.substr(0, scan.at)),
                  .unit = "percent",
                  .loop = {*share, 100},
                  .epoch = epoch,
                  .whole_run = !epoch};
  AddMeasures(reading, line);
  const bool learns = epoch || reading.loss || HasWord(line, "train") ||
                      HasWord(line, "training") || HasWord(line, "words/s");
  return learns ? std::optional(reading) : std::nullopt;
}

}  // namespace

std::optional<Reading> ReadShape(string_view line) {
  for (const auto read : {ReadTimm, ReadMarian, ReadDarknet, ReadLlama, ReadFlower, ReadBoosting,
                          ReadHead, ReadRange, ReadEpochRow, ReadNamd, ReadPercent}) {
    if (std::optional<Reading> reading = read(line)) return reading;
  }
  return std::nullopt;
}

std::optional<Reading> ReadBrackets(string_view line) {
  if (!ReadLoss(line)) return std::nullopt;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] != '[' && line[at] != '(') continue;
    Scan scan{line, at + 1};
    scan.SkipAny(" ");
    const std::optional<Counter> loop = ReadPair(scan);
    scan.SkipAny(" ");
    if (!loop || (scan.peek() != ']' && scan.peek() != ')')) continue;
    Reading reading{.phase = PhaseOf(line.substr(0, at)), .unit = "step", .loop = *loop};
    AddMeasures(reading, line);
    return reading;
  }
  return std::nullopt;
}

}  // namespace carma::task
