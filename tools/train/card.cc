#include "card.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>

namespace carma::train {
namespace {

using estimate::ClassScore;
using estimate::NetworkKind;
using estimate::Outcome;

constexpr std::int64_t kCardMib = 40'000;  // all runs were measured on an A100 40 GB

struct Spread {
  double mean = 0;
  double deviation = 0;  // of the sample
};

Spread SpreadOf(const std::vector<double>& values) {
  Spread spread;
  for (const double value : values) spread.mean += value / static_cast<double>(values.size());
  for (const double value : values) {
    spread.deviation += (value - spread.mean) * (value - spread.mean);
  }
  if (values.size() > 1) {
    spread.deviation = std::sqrt(spread.deviation / static_cast<double>(values.size() - 1));
  }
  return spread;
}

std::vector<Outcome> Together(std::span<const Trial> trials) {
  std::vector<Outcome> all;
  for (const Trial& each : trials) {
    all.insert(all.end(), each.outcomes.begin(), each.outcomes.end());
  }
  return all;
}

Spread AccuracyOver(std::span<const Trial> folds, std::size_t width_index) {
  std::vector<double> values;
  for (const Trial& fold : folds) {
    const auto scores = estimate::ClassScoresOf(fold.outcomes);
    if (width_index < scores.size()) values.push_back(scores[width_index].accuracy);
  }
  return SpreadOf(values);
}

std::string ConfusionTable(const ClassScore& score) {
  std::string text = "| measured \\ predicted |";
  std::string rule = "|---|";
  for (const int each : score.classes) {
    text += fmt::format(" {} |", each);
    rule += "---:|";
  }
  text += "\n" + rule + "\n";
  for (std::size_t i = 0; i < score.classes.size(); ++i) {
    text += fmt::format(
        "| {}: {} to {} MiB | {} |\n", score.classes[i], score.classes[i] * score.width_mib,
        (score.classes[i] + 1) * score.width_mib, fmt::join(score.confusion[i], " | "));
  }
  return text;
}

std::string Figures(const CardFacts& facts) {
  std::string text =
      "| split | classes | runs | accuracy | precision | recall | F1 "
      "|\n|---|---:|---:|---:|---:|---:|---:|\n";
  const std::vector<Outcome> all = Together(facts.folds);
  const auto folds = estimate::ClassScoresOf(all);
  for (std::size_t i = 0; i < folds.size(); ++i) {
    const Spread spread = AccuracyOver(facts.folds, i);
    text += fmt::format("| {}-fold | {} MiB | {} | {:.4f} ± {:.4f} | {:.4f} | {:.4f} | {:.4f} |\n",
                        facts.folds.size(), folds[i].width_mib, folds[i].runs, spread.mean,
                        spread.deviation, folds[i].precision, folds[i].recall, folds[i].f1);
  }
  for (const ClassScore& score : estimate::ClassScoresOf(facts.held_out.outcomes)) {
    text += fmt::format("| 70/20/10 | {} MiB | {} | {:.4f} | {:.4f} | {:.4f} | {:.4f} |\n",
                        score.width_mib, score.runs, score.accuracy, score.precision, score.recall,
                        score.f1);
  }
  text +=
      "\nAccuracy is the mean over the folds ± standard deviation. Precision, recall and F1 are "
      "means over the classes, for all\nfolds together. Censored runs are not counted.\n";
  if (!folds.empty()) {
    text += fmt::format("\nNumber of runs, for all folds together and classes of {} MiB:\n\n{}",
                        folds[0].width_mib, ConfusionTable(folds[0]));
  }
  const estimate::Score score = estimate::ScoreOf(all, kCardMib);
  text += fmt::format(
      "\nThe error of the point is {:.1f} % (median) and {:.1f} % (mean). The bound at 95 % covers "
      "{:.1f} % of the runs, with a mean\nover-provision of {:.0f} %.\n",
      100 * score.median_error, 100 * score.mean_error, 100 * score.covered,
      100 * score.bound_over);
  return text;
}

std::string Network(const CardFacts& facts) {
  const Recipe& recipe = facts.recipe;
  if (recipe.kind == NetworkKind::kMlp) {
    return fmt::format(
        "It averages the\nprobabilities of {} multilayer perceptrons (1 to 7 hidden layers of 48 "
        "neurons, 1 to 6 of 64, ReLU).",
        recipe.members);
  }
  const EncoderShape shape;
  return fmt::format(
      "It averages the\nprobabilities of {} Transformer encoders ({} blocks, width {}, {} heads, "
      "feed-forward {}, pre-norm). Their tokens are the\naggregates, then the layers as (type, "
      "activations, parameters).",
      recipe.members, shape.blocks, shape.width, shape.heads, shape.feedforward);
}

}  // namespace

std::string FoldLines(std::span<const Trial> folds) {
  const auto widths = estimate::ClassScoresOf(Together(folds));
  std::string text;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const Spread spread = AccuracyOver(folds, i);
    text += fmt::format("accuracy {:.4f} +- {:.4f} in classes of {} MiB, {} folds, {} runs\n",
                        spread.mean, spread.deviation, widths[i].width_mib, folds.size(),
                        widths[i].runs);
  }
  return text;
}

std::string CardOf(const CardFacts& facts) {
  const Recipe& recipe = facts.recipe;
  std::string text = fmt::format("# {}\n\n", facts.file);
  text += fmt::format(
      "Predicts the class of GPU memory that training a model of the family `{}` needs. There are "
      "{} classes of {} MiB; the\nlast one has no upper limit. {}\n\nFormat and inputs: "
      "`src/estimate/gpumemnet_network.h`. "
      "{} bytes, float32.\n",
      model::FamilyName(facts.family), recipe.classes, recipe.class_mib, Network(facts),
      facts.bytes);
  text += "\n## Data\n\n";
  for (const std::string& line : facts.data) text += fmt::format("- {}\n", line);
  text += fmt::format(
      "\n{} runs of {} models. {} of the runs needed more memory than the GPU has; they count as "
      "the last class, in training only.\nLeft out: {} runs of models whose layers belong to "
      "another family, and {} runs that failed for other reasons.\n",
      facts.runs, facts.models, facts.censored, facts.left_out.other_family,
      facts.left_out.incomplete);
  text += "\n## Accuracy\n\n";
  text += Figures(facts);
  text += fmt::format(
      "\nA model is on only one side of a split. In the folds and for the shipped weights, each "
      "member uses a different eighth of\nits models for early stopping; in 70/20/10 all members "
      "use the 20 %. The shipped weights were trained on all runs, in {:.0f} s on one core.\n",
      facts.training_s);
  text += fmt::format(
      "\n## Use and limits\n\n"
      "Use it for placing training tasks on GPUs, next to the `structural` estimator, and for "
      "comparison with published figures.\nDo not use it for models unlike the data: CARMA warns "
      "if an input is outside the range of the training data. The runs used\nfloat32 and Adam on "
      "one A100 40 GB, and their memory includes the CUDA context. The inputs do not distinguish "
      "optimizers,\nprecisions or checkpointing. Needs above {} MiB all fall into the last "
      "class.\n",
      (recipe.classes - 1) * recipe.class_mib);
  text += fmt::format(
      "\n## Training\n\n"
      "AdamW, peak rate {}, weight decay {}, {} runs per step, at most {} epochs (patience {}), "
      "classes weighted by one over the\nroot of their size, targets blurred by {:.0f} % of the "
      "measurement, seed {}, libtorch {}. To train the network again, run\n`./dev train DATA`, "
      "which runs this command in the folder of the data:\n\n```\n{}\n```\n",
      recipe.rate, recipe.weight_decay, recipe.batch, recipe.epochs, recipe.patience,
      100 * recipe.blur, recipe.seed, TORCH_VERSION, facts.command);
  return text;
}

}  // namespace carma::train
