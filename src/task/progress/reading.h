// The state of a loop as one line of output shows it.
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
  std::string_view unit;  // a constant
  Counter loop;
  std::optional<double> rate_per_s;
  std::optional<double> eta_s;
  std::optional<double> loss;
  std::optional<Counter> epoch;  // beside the loop; of Ultralytics' rows it is the loop, and `row`
  std::optional<double> row;     // finished share of the current epoch, 0..1
  bool bar = false;
  bool weak = false;       // a count of batches alone, used only within training
  bool named = false;      // the bar has a description
  bool result = false;     // of a dictionary of results, "{'eval_loss': 0.7, 'epoch': 1.0}"
  bool whole_run = false;  // eta_s is for the run, not the loop
  bool finished = false;   // "epoch 3/10 done": that epoch is over
};

// A bar of tqdm, Keras, rich, Ultralytics, fastprogress or mmcv, anywhere in the line.
std::optional<Reading> ReadBar(std::string_view line);
// "      1/100      1.18G      1.287 …  640:" of Ultralytics: the row of an epoch, with at least
// this number of figures after the memory.
std::optional<Counter> ReadUltralytics(std::string_view row, int figures = 0);
// Counters in words: "Epoch 3/10", "Epoch: [0]  [ 10/1251]", "iteration 10/ 1000 | …",
// "step 500 | loss 2.3". A counter without a total counts only beside a loss or an end time.
std::optional<Reading> ReadCounters(std::string_view line);
// The part of ReadCounters without a word before the counter: "Train: 3 [50/1251 (4%)]",
// "[12] train-rmse:0.12", "391/391 - 14s - loss: 0.8".
std::optional<Reading> ReadShape(std::string_view line);
// "[120/1000] loss: 0.5", "Training  [ 1200/125000]  eta: … loss: 9.1": any pair in brackets beside
// a loss.
std::optional<Reading> ReadBrackets(std::string_view line);

// The training loss: "loss: 0.5", "'train_loss': '0.5'", "lm loss: 1.07E+01", "| loss | -0.04 |".
// Not validation losses, parts ("loss_bbox") or "loss scale".
std::optional<double> ReadLoss(std::string_view line);
// Remaining seconds: "eta: 1:02:03", "remaining: 10.8s".
std::optional<double> ReadEta(std::string_view line);
// Seconds of a step: "35ms/step".
std::optional<double> ReadStepTime(std::string_view line);
// Adds loss, remaining time and rate where the reading has none.
void AddMeasures(Reading& reading, std::string_view line);
// The epoch in any text: "Epoch 3/10", "[Epoch 3]", "Epoch: [0]". `end`: where it ends.
std::optional<Counter> ReadEpoch(std::string_view text, std::size_t* end = nullptr);
// Reads "d/t", "d / t" or "d of t", where d and t are digits, and moves past it.
struct Scan;
std::optional<Counter> ReadPair(Scan& scan);

// The line with words for epoch, loss and the like translated to English; empty: it has no such
// words in another language.
std::optional<std::string> InEnglish(std::string_view line);

// The phase by the description of a bar or the beginning of a line.
Phase PhaseOf(std::string_view label);

}  // namespace carma::task
