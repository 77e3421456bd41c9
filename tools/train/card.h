// The model card beside a weights file: what it was trained on and how good it is.
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

// Answers to runs that their ensemble had not seen.
struct Trial {
  std::vector<estimate::Outcome> outcomes;
};

struct CardFacts {
  std::string file;       // name of the weights file
  std::size_t bytes = 0;  // its size
  model::Family family = model::Family::kMlp;
  Recipe recipe;
  std::vector<std::string> data;  // a line per data set: what, from whom, licence
  std::size_t runs = 0;           // trained on, censored ones too
  std::size_t censored = 0;
  std::size_t models = 0;
  LeftOut left_out;
  std::vector<Trial> folds;  // k-fold: together every run once
  Trial held_out;            // the 10 % of 70/20/10
  double training_s = 0;     // of the shipped ensemble
  std::string command;       // that makes this file again
};

// Markdown.
std::string CardOf(const CardFacts& facts);
// "accuracy 0.9805 +- 0.0040 in classes of 1024 MiB …": one line per width of classes.
std::string FoldLines(std::span<const Trial> folds);

}  // namespace carma::train
