// The model card that accompanies a weights file: training data and accuracy.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ensemble.h"
#include "estimate/evaluate.h"
#include "model/features.h"
#include "runs.h"

namespace carma::train {

// An ensemble's predictions for runs that it was not trained on.
struct Trial {
  std::vector<estimate::Outcome> outcomes;
};

struct CardFacts {
  std::string file;       // name of the weights file
  std::size_t bytes = 0;  // its size
  model::Family family = model::Family::kMlp;
  Recipe recipe;
  std::vector<std::string> data;  // one line per data set: content, author, licence
  std::size_t runs = 0;           // number of training runs, including censored runs
  std::size_t censored = 0;
  std::size_t models = 0;
  LeftOut left_out;
  std::vector<Trial> folds;  // k-fold: every run occurs in exactly one of them
  Trial held_out;            // the 10 % of 70/20/10
  double training_s = 0;     // for the shipped ensemble
  std::string command;       // recreates this file
};

// Markdown.
std::string CardOf(const CardFacts& facts);
// Formats lines such as "accuracy 0.9805 +- 0.0040 in classes of 1024 MiB …", one per class width.
std::string FoldLines(std::span<const Trial> folds);

}  // namespace carma::train
