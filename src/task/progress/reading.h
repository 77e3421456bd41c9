// A loop's progress as shown by one line of output.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "task/progress/progress.h"

namespace carma::task {

// A counter as printed: "3/10", "[1]", "0/299".
struct Counter {
  double done = 0;
  std::optional<double> total;
};

struct Reading {
  Phase phase = Phase::kTrain;
  std::string_view unit;  // a string constant
  Counter loop;
  std::optional<double> rate_per_s;
  std::optional<double> eta_s;
  std::optional<double> loss;
  // The epoch counter, if the line has one in addition to `loop`. In Ultralytics rows, `loop`
  // counts epochs, and `row` is set.
  std::optional<Counter> epoch;
  std::optional<double> row;  // finished share of the current epoch, 0..1
  bool bar = false;
  bool weak = false;       // a bare count of batches, used only within training
  bool named = false;      // the bar has a description
  bool result = false;     // from a dictionary of results, "{'eval_loss': 0.7, 'epoch': 1.0}"
  bool whole_run = false;  // eta_s is for the whole run instead of the loop
  bool finished = false;   // the line reports that this epoch is over: "epoch 3/10 done"
};

// Reads a tqdm, Keras, rich, Ultralytics, fastprogress or mmcv bar anywhere in the line.
std::optional<Reading> ReadBar(std::string_view line);
// Reads the Ultralytics row for an epoch, "      1/100      1.18G      1.287 …  640:", with at
// least `figures` numbers after the memory.
std::optional<Counter> ReadUltralytics(std::string_view row, int figures = 0);
// Reads counters with words: "Epoch 3/10", "Epoch: [0]  [ 10/1251]", "iteration 10/ 1000 | …",
// "step 500 | loss 2.3". A counter without a total counts only if the line also has a loss or an
// end time.
std::optional<Reading> ReadCounters(std::string_view line);
// Used by ReadCounters for lines that do not name their counter: "Train: 3 [50/1251 (4%)]", "[12]
// train-rmse:0.12", "391/391 - 14s - loss: 0.8".
std::optional<Reading> ReadShape(std::string_view line);
// Reads any pair in brackets in a line with a loss: "[120/1000] loss: 0.5", "Training  [
// 1200/125000]  eta: … loss: 9.1".
std::optional<Reading> ReadBrackets(std::string_view line);

// Reads the training loss: "loss: 0.5", "'train_loss': '0.5'", "lm loss: 1.07E+01", "| loss | -0.04
// |". Ignores validation losses, parts of a loss ("loss_bbox") and "loss scale".
std::optional<double> ReadLoss(std::string_view line);
// Reads the remaining time in seconds: "eta: 1:02:03", "remaining: 10.8s".
std::optional<double> ReadEta(std::string_view line);
// Reads the step time in seconds: "35ms/step".
std::optional<double> ReadStepTime(std::string_view line);
// Adds the line's loss, remaining time and rate if the reading lacks them.
void AddMeasures(Reading& reading, std::string_view line);
// Reads the epoch anywhere in the text: "Epoch 3/10", "[Epoch 3]", "Epoch: [0]". Sets `end` to the
// position after it.
std::optional<Counter> ReadEpoch(std::string_view text, std::size_t* end = nullptr);
// Reads "d/t", "d / t" or "d of t", where d and t are numbers, and moves the scan past it.
struct Scan;
std::optional<Counter> ReadPair(Scan& scan);

// The line with its words for epoch, loss and the like translated to English. Empty if there is
// nothing to translate.
std::optional<std::string> InEnglish(std::string_view line);

// The phase according to a bar's description or the beginning of a line.
Phase PhaseOf(std::string_view label);

}  // namespace carma::task
