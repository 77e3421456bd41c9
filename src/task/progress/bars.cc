#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "task/progress/reading.h"
#include "task/progress/scan.h"

namespace carma::task {
namespace {

using std::string_view;

// Steps per second. No training loop is faster; a higher rate means a download that counts bytes.
constexpr double kMostRate = 50'000;

// A bar whose description starts with one of these words is not for training, unless it shows a
// loss.
constexpr std::array<string_view, 58> kPreparations{
    "download", "fetch",      "load",    "map",     "filter", "token",   "generat", "extract",
    "cach",     "scan",       "read",    "writ",    "sav",    "upload",  "unpack",  "decompress",
    "resolv",   "preprocess", "process", "collect", "build",  "compil",  "captur",  "comput",
    "convert",  "copy",       "verify",  "check",   "index",  "creat",   "prepar",  "flatten",
    "shuffl",   "pack",       "concat",  "dropp",   "add",    "apply",   "truncat", "quantiz",
    "merg",     "import",     "install", "push",    "pull",   "clon",    "receiv",  "count",
    "compress", "updat",      "warm",    "profil",  "init",   "process", "casting", "group",
    "pars",     "render"};
// Words that indicate preparation work anywhere in the description.
constexpr std::array<string_view, 20> kPreparationWords{
    "download", "downloading",   "shards",     "tokenizing", "tokenizer", "scanning", "caching",
    "dataset",  "safetensors",   "cuda graph", "split",      "examples",  "prompts",  "files",
    "weights",  "chat template", "extracting", "loading",    "apply",     "awq"};
constexpr std::array<string_view, 22> kStepUnits{
    "it",        "its",    "step",    "steps",  "batch",   "batches", "iter",  "iters",
    "iteration", "update", "updates", "round",  "rounds",  "trial",   "epoch", "epochs",
    "img",       "image",  "images",  "sample", "samples", "ep"};

bool IsStepUnit(string_view unit) {
  return std::ranges::find(kStepUnits, unit) != kStepUnits.end();
}

bool IsHeavyLine(string_view text) {
  return text.starts_with("\xe2\x94\x81");
}  // ━
// Returns true if the text begins with a character of a thin bar: ━ ─ ╸ ╺.
bool IsThinBar(string_view text) {
  return IsHeavyLine(text) || text.starts_with("\xe2\x94\x80") ||
         text.starts_with("\xe2\x95\xb8") || text.starts_with("\xe2\x95\xba");
}

// Removes the prefix of a label such as "(Worker pid=7) Capturing".
string_view WithoutHead(string_view label) {
  label = base::Trim(label);
  if (label.empty() || (label.front() != '(' && label.front() != '[')) return label;
  const std::size_t end = label.find(label.front() == '(' ? ')' : ']');
  const string_view rest = end == string_view::npos ? "" : base::Trim(label.substr(end + 1));
  return rest.empty() ? label : rest;
}

bool IsPreparation(string_view label) {
  const auto letter = std::ranges::find_if(label, IsLetter);
  const string_view first(letter, label.end());
  const std::string lower = base::ToLower(first.substr(0, 12));
  if (std::ranges::any_of(kPreparations, [&](string_view word) { return lower.starts_with(word); }))
    return true;
  if (std::ranges::any_of(kPreparationWords,
                          [&](string_view word) { return HasWord(label, word); }))
    return true;
  // A bar labelled with a file name also shows preparation: "foo.safetensors",
  // "model-00001-of-00003.bin", "train-00000-of-00001.parquet".
  constexpr string_view kFiles[] = {".bin",     ".json", ".zip", ".gz",  ".tar",
                                    ".parquet", ".pt",   ".pth", ".txt", ".model"};
  return std::ranges::any_of(kFiles, [&](string_view file) { return label.ends_with(file); });
}

// The unit of a loop ("step", "epoch", …), from the unit of its rate ("it", "epoch", …).
string_view UnitOf(string_view printed, string_view label, const std::optional<Counter>& epoch) {
  if (printed.starts_with("epoch")) return "epoch";
  if (printed.starts_with("im") || printed.starts_with("sample")) return "sample";
  const bool names_epoch = HasWord(label, "epoch") && !HasWord(label, "train") && !epoch;
  const bool epochs = HasWord(label, "epochs") || names_epoch;
  return epochs ? "epoch" : "step";
}

// A rate such as "12.35it/s", "1.75s/it", "2.1kB/s", "?it/s" or "2.31": its unit, and its value if
// it has one.
struct Rate {
  string_view unit;
  std::optional<double> per_s;
};
std::optional<Rate> ReadRate(Scan& scan) {
  const std::size_t before = scan.at;
  const bool unknown = scan.Skip("?");
  const std::optional<double> number = unknown ? std::nullopt : scan.Number();
  if (!unknown && (!number || *number < 0)) {
    scan.at = before;
    return std::nullopt;
  }
  scan.SkipAny(" ", 1);
  string_view unit = scan.While(IsLetter);
  if (!scan.Skip("/")) {
    scan.at = before;
    return std::nullopt;
  }
  double scale = 1;
  if (unit.size() > 1 && (unit[0] == 'k' || unit[0] == 'M') && IsStepUnit(unit.substr(1))) {
    scale = unit[0] == 'k' ? 1e3 : 1e6;
    unit.remove_prefix(1);
  }
  if (unit == "s") {  // seconds per item; TensorFlow Datasets prints "10.1s/ url"
    scan.SkipAny(" ", 1);
    const string_view each = scan.While(IsLetter);
    return Rate{each, number && *number > 0 ? std::optional(1 / *number) : std::nullopt};
  }
  // The "s" of "it/s" must follow, unless the line was cut off.
  if (!scan.Skip("s") && !scan.done()) {
    scan.at = before;
    return std::nullopt;
  }
  return Rate{unit, number ? std::optional(*number * scale) : std::nullopt};
}

// Decides what the bar counts.
std::optional<Reading> Judge(Reading bar, string_view label, string_view unit, string_view rest) {
  label = base::Trim(label);
  while (!label.empty() && (label.back() == ':' || label.back() == ' ')) label.remove_suffix(1);
  bar.bar = true;
  bar.named = std::ranges::any_of(label, IsLetter);
  bar.loss = ReadLoss(rest);
  if (!bar.loss) bar.loss = ReadLoss(label);
  if (!bar.epoch) bar.epoch = ReadEpoch(label);
  bar.phase = PhaseOf(label);
  if (unit.ends_with('B')) bar.phase = Phase::kDownload;
  if (bar.phase == Phase::kDownload) return bar;
  const bool learns =
      bar.loss || bar.epoch || HasWord(label, "train") || HasWord(label, "training");
  const bool counts = unit.empty() || IsStepUnit(unit);
  const bool sanity = HasWord(label, "sanity");
  if (!bar.loss && !sanity && IsPreparation(WithoutHead(label))) bar.phase = Phase::kOther;
  const bool video = rest.contains("now=None");  // MoviePy
  if ((!learns && !counts) || video) bar.phase = Phase::kOther;
  if (!bar.loss && bar.rate_per_s.value_or(0) > kMostRate) bar.phase = Phase::kDownload;
  const string_view about = WithoutHead(label);
  const string_view first = about.substr(0, about.find(' '));
  if (!learns && bar.phase == Phase::kTrain && bar.named &&
      (first.ends_with("ing") || first.ends_with("ed")) && !HasWord(first, "finetuning") &&
      !HasWord(first, "tuning") && !HasWord(first, "optimizing") && !HasWord(first, "fitting") &&
      !HasWord(first, "learning"))
    bar.phase = Phase::kOther;
  if (bar.unit.empty()) bar.unit = UnitOf(unit, label, bar.epoch);
  if (bar.unit == "epoch") bar.epoch.reset();
  return bar;
}

// The description of a tqdm bar: the text before its counter, without "  53%|###  | ".
string_view LabelBefore(string_view text) {
  text = text.substr(0, text.find_last_not_of(' ') + 1);
  if (text.ends_with('|')) {
    text.remove_suffix(1);
    const std::size_t bar = text.rfind('|');
    if (bar != string_view::npos && text.size() - bar < 600) text = text.substr(0, bar);
    text = text.substr(0, text.find_last_not_of(' ') + 1);
  }
  if (text.ends_with('%')) {
    text.remove_suffix(1);
    while (!text.empty() && (IsDigit(text.back()) || text.back() == '.')) text.remove_suffix(1);
  }
  return text;
}

std::optional<Reading> WithLabel(Reading bar, string_view before, string_view unit,
                                 string_view rest) {
  const string_view label = LabelBefore(before);
  if (const std::optional<Counter> epoch = ReadUltralytics(label)) {
    if (bar.loop.total) bar.row = bar.loop.done / *bar.loop.total;
    bar.loop = *epoch;
    bar.unit = "epoch";
    bar.bar = bar.named = true;
    bar.rate_per_s.reset();
    bar.eta_s.reset();
    return bar;
  }
  return Judge(bar, label.substr(label.size() > 200 ? label.size() - 200 : 0), unit, rest);
}

// A counter at the end of the text: "58130/250000", "2/?", "25it".
struct CounterBefore {
  Counter counter;
  std::size_t at;  // where the counter begins
};
std::optional<CounterBefore> CounterAtEnd(string_view text) {
  std::size_t end = text.find_last_not_of(' ') + 1;
  std::size_t first = end;
  const auto counts = [](char c) {
    return IsDigit(c) || IsLetter(c) || c == '.' || c == '/' || c == '?';
  };
  while (first > 0 && counts(text[first - 1]) && end - first < 60) --first;
  Scan scan{text.substr(0, end), first};
  const std::optional<double> done = scan.Count();
  if (!done) return std::nullopt;
  if (!scan.Skip("/")) {
    // In "25it" the unit follows the number directly.
    if (!IsLetter(scan.peek())) return std::nullopt;
    return CounterBefore{{*done, std::nullopt}, first};
  }
  if (scan.Skip("?") && scan.done()) return CounterBefore{{*done, std::nullopt}, first};
  const std::optional<double> total = scan.Count();
  if (!total || *total < 1 || *done > *total || !scan.done()) return std::nullopt;
  return CounterBefore{{*done, *total}, first};
}

// Reads a tqdm bar: "… 45/100 [00:10<00:12,  4.5it/s, loss=0.3]".
std::optional<Reading> TqdmAt(string_view line, std::size_t bracket) {
  Scan scan{line, bracket + 1};
  if (!scan.Span()) return std::nullopt;
  Reading bar;
  if (scan.Skip("<")) {
    if (!scan.Skip("?")) bar.eta_s = scan.Span();
  } else if (scan.peek() != ',' && scan.peek() != ']') {
    return std::nullopt;
  }
  const std::optional<CounterBefore> counter = CounterAtEnd(line.substr(0, bracket));
  if (!counter) return std::nullopt;
  bar.loop = counter->counter;
  if (!bar.loop.total) bar.eta_s.reset();  // with an unknown total, tqdm prints "<00:00"
  scan.SkipAny(", ");
  const std::optional<Rate> rate = ReadRate(scan);
  if (rate) bar.rate_per_s = rate->per_s;
  if (bar.loop.total && bar.loop.done == *bar.loop.total && !bar.eta_s) bar.eta_s = 0;
  return WithLabel(bar, line.substr(0, counter->at), rate ? rate->unit : "", line.substr(scan.at));
}

// Reads fastprogress bars ("[10/100 00:05<00:45 2.31]") and Hugging Face bars in a notebook ("[
// 500/1000 05:00 < 05:00, 1.7 it/s, Epoch 1/2]").
std::optional<Reading> FastProgressAt(string_view line, std::size_t bracket) {
  Scan scan{line, bracket + 1};
  scan.SkipAny(" ");
  const std::optional<Counter> counter = ReadPair(scan);
  if (!counter) return std::nullopt;
  scan.SkipAny(" ");
  if (!scan.Span()) return std::nullopt;
  scan.SkipAny(" ");
  if (!scan.Skip("<")) return std::nullopt;
  scan.SkipAny(" ");
  Reading bar{.loop = *counter, .eta_s = scan.Span()};
  scan.SkipAny(" ,");
  if (const std::optional<Rate> rate = ReadRate(scan)) bar.rate_per_s = rate->per_s;
  bar.epoch = ReadEpoch(line.substr(scan.at));
  return WithLabel(bar, line.substr(0, bracket), "", line.substr(scan.at));
}

// Reads a Keras 2 bar: "448/450 [====>.] - ETA: 0s - loss: 0.9".
std::optional<Reading> KerasAt(string_view line, std::size_t bracket) {
  Scan scan{line, bracket + 1};
  scan.SkipAny("=>.");
  if (scan.at < bracket + 4 || !scan.Skip("]")) return std::nullopt;
  const std::optional<CounterBefore> counter = CounterAtEnd(line.substr(0, bracket));
  if (!counter || !counter->counter.total) return std::nullopt;
  Reading bar{.loop = counter->counter, .bar = true};
  // Before TensorFlow 2.2, Keras counted samples instead of steps when it trained on arrays.
  const double total = *bar.loop.total;
  const auto done = static_cast<std::int64_t>(bar.loop.done);
  bar.unit = total > 2000 && done > 0 && (done % 32 == 0 || done == total) ? "sample" : "step";
  const string_view rest = line.substr(scan.at);
  bar.eta_s = ReadEta(rest);
  if (const std::optional<double> each = ReadStepTime(rest)) bar.rate_per_s = 1 / *each;
  bar.loss = ReadLoss(rest);
  return bar;
}

// Reads a Torch bar: "[====>......... 27008/50000 ......]  ETA: 1m12s | Step: 3ms".
std::optional<Reading> XluaAt(string_view line, std::size_t bracket) {
  Scan scan{line, bracket + 1};
  scan.SkipAny("=>.");
  if (scan.at == bracket + 1) return std::nullopt;
  scan.SkipAny(" ");
  const std::optional<Counter> loop = ReadPair(scan);
  scan.SkipAny("=>. ");
  if (!loop || !scan.Skip("]") || !HasWord(line.substr(scan.at), "step")) return std::nullopt;
  return Reading{.unit = "sample", .loop = *loop, .eta_s = ReadEta(line), .bar = true};
}

// Reads an mmcv evaluation: "300/500, 15.2 task/s, elapsed: 20s, ETA: 13s" after "[>>>   ] ".
std::optional<Reading> MmcvAt(string_view line, std::size_t bracket) {
  Scan scan{line, bracket + 1};
  scan.SkipAny("> ");
  if (scan.at < bracket + 4 || !scan.Skip("] ")) return std::nullopt;
  const std::optional<Counter> counter = ReadPair(scan);
  if (!counter || !scan.Skip(", ")) return std::nullopt;
  const std::optional<Rate> rate = ReadRate(scan);
  if (!rate || rate->unit != "task") return std::nullopt;
  return Reading{.phase = Phase::kEval,
                 .unit = "sample",
                 .loop = *counter,
                 .rate_per_s = rate->per_s,
                 .eta_s = ReadEta(line.substr(scan.at)),
                 .bar = true};
}

// Reads thin bars: Keras 3 ("37/391 ━━━━ 12s 35ms/step - loss: 2.3"), Ultralytics ("100% ━━━━ 12/12
// 3.5it/s 3.5s"), rich ("Epoch 0/9  ━━━━ 400/1875 0:00:04 • 0:00:17 87.50it/s").
std::optional<Reading> ThinBarAt(string_view line, std::size_t first) {
  std::size_t end = first;
  while (end < line.size() && (IsThinBar(line.substr(end)) || line[end] == ' '))
    end += line[end] == ' ' ? 1 : 3;
  const string_view before = line.substr(0, first);
  Scan scan{line, end};
  const std::optional<Counter> behind = ReadPair(scan);
  if (!behind) {
    const std::optional<CounterBefore> counter = CounterAtEnd(before);
    if (!counter || !counter->counter.total) return std::nullopt;
    Reading bar{.unit = "step", .loop = counter->counter, .bar = true};
    const std::optional<double> span = scan.Span();
    const bool over = bar.loop.done == *bar.loop.total;
    if (!over) bar.eta_s = span;
    // Span() may have consumed the step time as well: "12s 35ms".
    if (const std::optional<double> each = ReadStepTime(line.substr(end))) {
      bar.rate_per_s = 1 / *each;
      if (!over && span) bar.eta_s = std::max(0.0, *span - *each);
    }
    bar.loss = ReadLoss(line.substr(end));
    return bar;
  }
  // pip and other programs that count bytes print "12.3/45.6 MB".
  scan.SkipAny(" ");
  if (IsLetter(scan.peek()) || scan.peek() == '.') return std::nullopt;
  // pip prints "2/3 [torch]", while a training run prints "30,720/102,400 [ 0:00:20 < 0:00:47 ,
  // 1540 it/s ]".
  if (scan.Skip("[")) scan.SkipAny(" ");
  if (IsLetter(scan.peek())) return std::nullopt;
  Reading bar{.loop = *behind};
  std::string_view unit;
  const auto clock = [&]() -> std::optional<double> {
    if (scan.Skip("-:--:--")) return std::nullopt;
    return scan.Span();
  };
  if (std::optional<Rate> rate = ReadRate(scan)) {  // Ultralytics prints the rate here
    unit = rate->unit;
    bar.rate_per_s = rate->per_s;
    scan.SkipAny(" ");
    (void)scan.Span();
    if (scan.Skip("<")) bar.eta_s = scan.Span();
  } else {
    (void)clock();
    scan.SkipAny(" ");
    if (!scan.Skip("\xe2\x80\xa2")) (void)scan.Skip("<");  // •
    scan.SkipAny(" ");
    bar.eta_s = clock();
    scan.SkipAny(" ,");
    if (std::optional<Rate> last = ReadRate(scan)) {
      unit = last->unit;
      bar.rate_per_s = last->per_s;
    }
  }
  return WithLabel(bar, before, unit, line.substr(scan.at));
}

// Reads a tqdm bar without times: "train:  45%|####     | 45/100".
std::optional<Reading> PercentBarAt(string_view line, std::size_t percent) {
  const std::size_t end = line.find('|', percent + 2);
  if (end == string_view::npos) return std::nullopt;
  Scan scan{line, end + 1};
  scan.SkipAny(" ");
  const std::optional<Counter> loop = ReadPair(scan);
  scan.SkipAny(" ");
  if (!loop || IsLetter(scan.peek())) return std::nullopt;
  std::size_t first = percent;
  while (first > 0 && (IsDigit(line[first - 1]) || line[first - 1] == '.')) --first;
  Scan share{line.substr(0, percent), first};
  const std::optional<double> printed = share.Number();
  if (!printed || std::abs(*printed - 100 * loop->done / *loop->total) > 1) return std::nullopt;
  return WithLabel({.loop = *loop}, line.substr(0, first), "", line.substr(scan.at));
}

// Reads a tqdm-loggable line: "Progress on:train 500it/10.0kit rate:1.2it/s remaining:2:12:00 …".
std::optional<Reading> LoggedBar(string_view line) {
  constexpr string_view kHead = "Progress on:";
  const std::size_t head = line.find(kHead);
  const std::size_t rates = line.find(" rate:");
  if (head == string_view::npos || rates == string_view::npos || rates < head) return std::nullopt;
  const string_view counted = line.substr(0, rates);
  const std::size_t slash = counted.rfind('/');
  const std::size_t first = counted.rfind(' ') + 1;
  if (slash == string_view::npos || slash < first) return std::nullopt;
  const auto count = [](string_view text) -> std::optional<double> {
    if (text.ends_with("it")) text.remove_suffix(2);
    Scan scan{text};
    const std::optional<double> value = scan.Count();
    return scan.done() ? value : std::nullopt;
  };
  const std::optional<double> done = count(counted.substr(first, slash - first));
  const std::optional<double> total = count(counted.substr(slash + 1));
  if (!done || !total || *total < 1 || *done > *total) return std::nullopt;
  Reading bar{.loop = {*done, total}};
  Scan scan{line, rates + 6};
  const std::optional<Rate> rate = ReadRate(scan);
  if (rate) bar.rate_per_s = rate->per_s;
  if (scan.Skip(" remaining:")) bar.eta_s = scan.Span();
  return WithLabel(bar, line.substr(head + kHead.size(), first - head - kHead.size()),
                   rate ? rate->unit : "", line.substr(scan.at));
}

// Returns true if a metric's value follows: in a list of metrics, "val: 0.61" is a result, not the
// phase.
bool IsFigure(string_view label, std::size_t behind) {
  Scan scan{label, behind};
  scan.SkipAny(" ");
  if (!scan.Skip(":") && !scan.Skip("=")) return false;
  scan.SkipAny(" ");
  const std::optional<double> figure = scan.Number();
  return figure && scan.peek() != '/' && (!scan.done() || std::floor(*figure) != *figure);
}

}  // namespace

std::optional<Counter> ReadUltralytics(string_view row, int figures) {
  Scan scan{row};
  scan.SkipAny(" ");
  std::optional<Counter> epoch = ReadPair(scan);
  if (!epoch) return std::nullopt;
  scan.SkipAny(" ");
  if (!scan.Number() || (!scan.Skip("G") && !scan.Skip("M"))) return std::nullopt;
  while (figures-- > 0) {
    scan.SkipAny(" ");
    if (!scan.Number()) return std::nullopt;
  }
  return epoch;
}

std::optional<Reading> ReadBar(string_view line) {
  for (std::size_t at = line.find('['); at != string_view::npos; at = line.find('[', at + 1)) {
    for (const auto read : {TqdmAt, FastProgressAt, KerasAt, XluaAt, MmcvAt}) {
      std::optional<Reading> bar = read(line, at);
      if (!bar) continue;
      // If a line has several bars, the last one is used.
      const std::size_t end = line.find(']', at);
      const std::optional<Reading> next =
          end == string_view::npos ? std::nullopt : ReadBar(line.substr(end + 1));
      return next ? next : bar;
    }
  }
  if (const std::size_t at = line.find("%|"); at != string_view::npos) {
    if (std::optional<Reading> bar = PercentBarAt(line, at)) return bar;
  }
  if (std::optional<Reading> bar = LoggedBar(line)) return bar;
  constexpr string_view kHeavy = "\xe2\x94\x81";
  const std::size_t thin = line.find(kHeavy);
  return thin == string_view::npos ? std::nullopt : ThinBarAt(line, thin);
}

Phase PhaseOf(string_view label) {
  constexpr string_view kDownloads[] = {"download", "downloading", "fetching"};
  constexpr string_view kEvals[] = {
      "sanity",  "valid",      "val",        "validation", "validating", "validate",
      "eval",    "evaluation", "evaluating", "evaluate",   "test",       "testing",
      "predict", "predicting", "prediction", "inference",  "map50"};
  if (std::ranges::any_of(kDownloads, [&](string_view word) { return HasWord(label, word); }))
    return Phase::kDownload;
  const std::size_t train = std::min(FindWord(label, "train"), FindWord(label, "training"));
  for (const string_view word : kEvals) {
    const std::size_t at = FindWord(label, word);
    if (at < train && !IsFigure(label, at + word.size())) return Phase::kEval;
  }
  const bool table = HasWord(label, "class") && HasWord(label, "images");
  return table ? Phase::kEval : Phase::kTrain;
}

}  // namespace carma::task
