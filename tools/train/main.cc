// Trains the networks of GPUMemNet on measured runs and writes their weights and model card.
#include <fmt/format.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "card.h"
#include "ensemble.h"
#include "estimate/gpumemnet.h"
#include "runs.h"

namespace carma::train {
namespace {

constexpr double kCoverage = 0.95;
// The memory of the GPU that the runs were measured on. A censored run needs at least about this.
constexpr double kCensoredMib = 38'000;

struct Flags {
  estimate::NetworkKind kind = estimate::NetworkKind::kMlp;
  model::Family family = model::Family::kMlp;
  RunFiles files;
  std::vector<std::string> data;
  std::string out = ".";
  int folds = 5;
  Recipe recipe;
  std::string command;
};

Trial TrialOf(const std::vector<Run>& runs, const Indices& train, const Indices* watch,
              const Indices& test, const Flags& flags) {
  const Ensemble ensemble = Ensemble::Train(runs, train, watch, flags.recipe);
  const auto probabilities = ensemble.Ask(runs, test);
  Trial trial;
  for (std::size_t i = 0; i < test.size(); ++i) {
    const Run& run = runs[test[i]];
    trial.outcomes.push_back(
        {.measured_mib = static_cast<std::int64_t>(run.measured_mib),
         .censored = run.censored,
         .answer = estimate::AnswerFromClasses(probabilities[i], ensemble.class_points(),
                                               flags.recipe.class_mib, flags.family, kCoverage)});
  }
  return trial;
}

std::vector<Trial> Folds(const std::vector<Run>& runs, const Flags& flags) {
  const auto part = Parts(runs, static_cast<std::size_t>(flags.folds), flags.recipe.seed);
  std::vector<Trial> trials;
  for (std::size_t fold = 0; fold < static_cast<std::size_t>(flags.folds); ++fold) {
    Indices train;
    Indices test;
    for (std::size_t i = 0; i < runs.size(); ++i) (part[i] == fold ? test : train).push_back(i);
    trials.push_back(TrialOf(runs, train, nullptr, test, flags));
    const auto scores = estimate::ClassScoresOf(trials.back().outcomes);
    fmt::print("fold {}: accuracy {:.4f} of {}\n", fold + 1, scores.at(0).accuracy,
               scores.at(0).runs);
    std::fflush(stdout);
  }
  return trials;
}

Trial HeldOut(const std::vector<Run>& runs, const Flags& flags) {
  const auto part = Parts(runs, 10, flags.recipe.seed);
  Indices train;
  Indices watch;
  Indices test;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    (part[i] == 0 ? test : part[i] <= 2 ? watch : train).push_back(i);
  }
  return TrialOf(runs, train, &watch, test, flags);
}

base::Result<base::Unit> TrainAndWrite(Flags flags) {
  CardFacts facts;
  const auto loaded = LoadRuns(flags.files, flags.family, facts.left_out);
  if (!loaded) return std::unexpected(loaded.error());
  const std::vector<Run>& runs = *loaded;
  double largest = 0;
  std::set<std::string> models;
  for (const Run& run : runs) {
    largest = std::max(largest, run.censored ? kCensoredMib : run.measured_mib);
    facts.censored += run.censored ? 1 : 0;
    models.insert(run.model);
  }
  flags.recipe.classes = static_cast<std::int64_t>(largest) / flags.recipe.class_mib + 1;
  const auto open_edge = static_cast<double>((flags.recipe.classes - 1) * flags.recipe.class_mib);
  if (models.size() < 20 || flags.recipe.classes < 2) {
    return base::Fail(
        base::ErrorCode::kInvalid,
        fmt::format("{} models in {} classes; expected at least 20 models in at least 2 classes",
                    models.size(), flags.recipe.classes));
  }
  if (facts.censored > 0 && open_edge > kCensoredMib) {
    return base::Fail(base::ErrorCode::kInvalid, "censored runs do not belong to the open class");
  }
  fmt::print("{} runs of {} models, {} censored, {} classes of {} MiB\n", runs.size(),
             models.size(), facts.censored, flags.recipe.classes, flags.recipe.class_mib);

  if (flags.folds > 1) facts.folds = Folds(runs, flags);
  fmt::print("{}", FoldLines(facts.folds));
  facts.held_out = HeldOut(runs, flags);
  for (const auto& score : estimate::ClassScoresOf(facts.held_out.outcomes)) {
    fmt::print("70/20/10: accuracy {:.4f} of {} in classes of {} MiB\n", score.accuracy, score.runs,
               score.width_mib);
  }

  Indices all(runs.size());
  std::iota(all.begin(), all.end(), 0);
  const auto began = std::chrono::steady_clock::now();
  const Ensemble shipped = Ensemble::Train(runs, all, nullptr, flags.recipe);
  facts.training_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  const estimate::TensorFile file =
      shipped.Export(runs, all, std::string(model::FamilyName(flags.family)));
  const std::string bytes = estimate::DumpTensors(file);
  facts.file = estimate::WeightsFileName(flags.kind, flags.family);
  // Weights that the daemon would reject, or with which its predictions would differ, are not
  // written.
  const auto read = estimate::ParseTensors(bytes, facts.file);
  if (!read) return std::unexpected(read.error());
  if (const auto network = estimate::Network::Load(*read, facts.file); !network) {
    return std::unexpected(network.error());
  }
  facts.bytes = bytes.size();
  facts.family = flags.family;
  facts.recipe = flags.recipe;
  facts.data = flags.data;
  facts.runs = runs.size();
  facts.models = models.size();
  facts.command = flags.command;
  const std::string path = flags.out + "/" + facts.file;
  if (const auto written = base::WriteFileAtomic(path, bytes); !written) return written;
  const std::string card = path.substr(0, path.rfind('.')) + ".md";
  if (const auto written = base::WriteFileAtomic(card, CardOf(facts)); !written) return written;
  fmt::print("{}: {} bytes, trained in {:.0f} s\n", path, bytes.size(), facts.training_s);
  return base::Unit{};
}

// Quotes a word for a shell.
std::string Quoted(const std::string& word) {
  const bool plain = word.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./") ==
                     std::string::npos;
  return plain ? word : "'" + word + "'";
}

// The command without options that do not change the weights: the output folder, and the card's
// words about the data.
std::string CommandOf(int argc, char** argv) {
  std::string command = "carma-train-gpumemnet";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--out" || word == "--data") {
      ++i;
    } else {
      command += " " + Quoted(word);
    }
  }
  return command;
}

int Main(int argc, char** argv) {
  Flags flags;
  int epochs = 0;
  int members = 0;
  double blur = -1;
  CLI::App app("Trains GPUMemNet's networks and writes weights (safetensors) with a model card.");
  app.add_option("--kind", flags.kind, "mlp (ensemble of perceptrons) or transformer")
      ->required()
      ->transform(CLI::CheckedTransformer(std::map<std::string, estimate::NetworkKind>{
          {"mlp", estimate::NetworkKind::kMlp},
          {"transformer", estimate::NetworkKind::kTransformer}}));
  app.add_option("--family", flags.family, "model family: mlp, cnn, transformer")
      ->required()
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, model::Family>{{"mlp", model::Family::kMlp},
                                               {"cnn", model::Family::kCnn},
                                               {"transformer", model::Family::kTransformer}}));
  app.add_option("--layers", flags.files.layers,
                 "layer lists, one JSON object per line, optionally gzipped")
      ->required();
  app.add_option("--measured", flags.files.measured, "CSV: model, batch, measured_mib, censored")
      ->required();
  app.add_option("--data", flags.data,
                 "content and authors of the data, for the model card; may be repeated");
  app.add_option("--out", flags.out, "folder for the weights and the card");
  app.add_option("--class-mib", flags.recipe.class_mib,
                 "class width (default: 1024 for mlp models, otherwise 8192)")
      ->check(CLI::Range(64, 65'536));
  app.add_option("--folds", flags.folds, "number of cross-validation folds; 0: none")
      ->check(CLI::Range(0, 20));
  app.add_option("--seed", flags.recipe.seed, "of everything random");
  app.add_option("--epochs", epochs, "at most")->check(CLI::Range(1, 10'000));
  app.add_option("--members", members, "number of ensemble members")->check(CLI::Range(1, 32));
  app.add_option("--blur", blur, "relative width to which each measurement is blurred as a target")
      ->check(CLI::Range(0.0, 0.5));
  CLI11_PARSE(app, argc, argv);

  Recipe& recipe = flags.recipe;
  recipe.kind = flags.kind;
  const bool mlp_models = flags.family == model::Family::kMlp;
  if (app.count("--class-mib") == 0) recipe.class_mib = mlp_models ? 1024 : 8192;
  // The sizes of MLPs determine their memory to within one percent. The features of other networks
  // are less informative.
  recipe.blur = blur >= 0 ? blur : mlp_models ? 0.02 : 0.06;
  if (flags.kind == estimate::NetworkKind::kTransformer) {
    recipe.members = 2;
    recipe.batch = 32;
    recipe.rate = 4e-3;
    recipe.weight_decay = 2e-2;
    recipe.epochs = 40;
    recipe.patience = 15;
  }
  if (epochs > 0) recipe.epochs = epochs;
  if (members > 0) recipe.members = members;
  flags.command = CommandOf(argc, argv);

  // More threads would change the order of sums and so the weights. The networks are small.
  torch::set_num_threads(1);
  if (const auto done = TrainAndWrite(flags); !done) {
    fmt::print(stderr, "carma-train-gpumemnet: {}\n", done.error().message);
    return done.error().code == base::ErrorCode::kInvalid ? 2 : 1;
  }
  return 0;
}

}  // namespace
}  // namespace carma::train

int main(int argc, char** argv) {
  return carma::train::Main(argc, argv);
}
