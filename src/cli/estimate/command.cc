// `carma estimate`: shows every estimator's prediction for a model or a task.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/calls.h"
#include "cli/client/describe.h"
#include "cli/client/verbs.h"
#include "cli/command.h"
#include "cli/estimate/framework_file.h"
#include "cli/estimate/script_run.h"
#include "cli/estimate/text.h"
#include "cli/estimate/transformer.h"
#include "cli/shell_quote.h"
#include "estimate/activity_guess.h"
#include "estimate/asking.h"
#include "estimate/gpumemnet.h"
#include "estimate/history.h"
#include "model/summary.h"

namespace carma::cli {
namespace {

struct EstimateFlags {
  std::string file;
  TransformerFlags transformer;  // without the shared options, which are below
  // Options of task/describe/description.h. They apply to a summary, or override those of a script.
  std::string batch, optimizer, precision, gpus, memory;
  std::string gpu_type;
  std::string estimators;      // comma-separated; empty for all
  std::string weights;         // folder with gpumemnet weights (the shipped ones if empty); with
                               // --hf-config, how the model's weights are stored
  double coverage = 0;         // 0 for the daemon's value
  std::vector<double> beside;  // SM activities of neighbours
  bool explain = false;
  bool run = false;  // run the command's script up to its first step
  bool reset = false;
};

// The task that FILE describes, or a task without a command if FILE is only a summary.
struct Described {
  task::TaskSpec spec;
  bool has_command = false;
  std::vector<std::string> remarks;
};

void AddTrainingSettings(const EstimateFlags& flags, SubmitFlags& options) {
  const TransformerFlags& training = flags.transformer;
  if (!training.config.empty())
    options.settings.emplace_back("hf-config", ConfigFileOf(training.config));
  for (const task::PlanFile& file : training.plan_files) {
    const bool adapter = file.kind == task::PlanFile::Kind::kAdapter;
    options.settings.emplace_back(adapter ? "adapter-config" : "deepspeed", file.path);
  }
  if (!flags.weights.empty() && !base::IsFolder(flags.weights))
    options.settings.emplace_back("weights", flags.weights);
  for (const task::TrainingWord& word : training.words)
    options.settings.emplace_back(word.name, word.value == "on" ? "" : word.value);
}

// With `find`, searches the command and its files for the model if there is no summary.
Result<Described> DescribeTask(const Context& context, const EstimateFlags& flags, bool find) {
  const task::SubmitterContext caller = CARMA_TRY(CallerContext());
  const bool literal = context.literal;
  Described described{.has_command = literal || DescribesTask(flags.file)};
  SubmitFlags options;
  if (!described.has_command) options.settings.emplace_back("model-summary", flags.file);
  for (const auto& [name, value] :
       {std::pair("batch-size", &flags.batch), std::pair("optimizer", &flags.optimizer),
        std::pair("precision", &flags.precision), std::pair("gpus", &flags.gpus),
        std::pair("memory", &flags.memory)}) {
    if (!value->empty()) options.settings.emplace_back(name, *value);
  }
  AddTrainingSettings(flags, options);
  task::Description description;
  std::vector<std::string> words = context.words;
  if (!literal) words = {described.has_command ? flags.file : "summary"};
  CARMA_TRY(ApplyWords(words, literal || !described.has_command, description));
  CARMA_TRY(ApplyOptions(options, description));
  std::vector<task::TaskSpec> specs = CARMA_TRY(description.Finish(caller));
  described.spec = std::move(specs.front());
  if (!find) return described;
  CARMA_TRY(TrainingFinder().Add(description, described.spec, described.remarks));
  return described;
}

// ---- the server's knowledge ----

task::Observation Named(task::Observation run, std::string signature, std::string kin) {
  run.signature = std::move(signature);
  run.kin = std::move(kin);
  return run;
}

// The views are sorted newest first, but a history must begin with the oldest run.
void Remember(const api::KnowledgeView& view, const estimate::Question& question,
              estimate::History& history) {
  for (auto run = view.runs.rbegin(); run != view.runs.rend(); ++run)
    history.Add(Named(*run, question.signature, ""));
  for (auto run = view.kin_runs.rbegin(); run != view.kin_runs.rend(); ++run)
    history.Add(
        Named(*run, "similar to task " + std::to_string(core::Number(run->task)), question.kin));
}

estimate::Site SiteOf(const api::KnowledgeView& view, const std::string& gpu_type) {
  estimate::Site site;
  site.gpu_type = gpu_type;
  site.taught_by = view.taught_by;
  site.tasks = static_cast<std::size_t>(view.tasks);
  site.context_shift_mib = view.context_shift_mib;
  site.ratios = view.ratios;
  site.reason = view.calibration;
  std::ranges::sort(site.ratios);
  return site;
}

// ---- the estimators ----

// Returns the summary that --run produced. Otherwise reads the file that the user named or that was
// found.
estimate::Summary SummaryOf(const EstimateFlags& flags,
                            const std::optional<Result<std::string>>& ran,
                            const task::TaskSpec& spec) {
  if (ran && *ran) return estimate::ReadSummary(*ran, "--run");
  if (!spec.model_summary) return {};
  const std::string path = flags.file == "-" ? "-" : *spec.model_summary;
  return estimate::ReadSummary(ReadInput(path, model::kMaxSummaryBytes), InputName(path));
}

// Adds what the daemon has learned: its calibration, and earlier runs of the task.
void AddKnowledge(Context& context, estimate::Question& question, estimate::History& history,
                  EstimateSheet& sheet) {
  const Called<api::KnowledgeView> known =
      GetKnowledge(context.client(), question.signature, question.kin, question.gpu_type);
  if (!known) {
    sheet.remarks.push_back((known.error().code == ErrorCode::kUnavailable
                                 ? "no daemon responded"
                                 : known.error().message) +
                            ": using the shipped constants, without history");
    return;
  }
  sheet.knowledge = known->value;
  if (question.gpu_type.empty()) question.gpu_type = known->value.gpu_type;
  if (question.gpu_mib == 0) question.gpu_mib = known->value.gpu_mib;
  if (known->value.coverage > 0) question.coverage = known->value.coverage;
  Remember(known->value, question, history);
  sheet.site = SiteOf(known->value, question.gpu_type);
  question.history = &history;
}

Result<Unit> RunEstimate(Context& context, const EstimateFlags& flags) {
  const auto chosen =
      CARMA_TRY(base::Wrap(estimate::ChosenEstimators(flags.estimators), "--estimator"));
  std::optional<Result<std::string>> ran;
  if (flags.run) ran = RunScript(context.words, flags.gpus);
  if (ran && !*ran && ran->error().code == ErrorCode::kInvalid)
    return std::unexpected(ran->error());
  const Described described = CARMA_TRY(DescribeTask(context, flags, !ran || !*ran));
  const task::TaskSpec& spec = described.spec;
  const estimate::Summary summary = SummaryOf(flags, ran, spec);
  if (!summary.layers && !summary.transformer && !described.has_command)
    return Invalid(summary.trouble);

  EstimateSheet sheet;
  sheet.remarks = described.remarks;
  if (ran && !*ran) sheet.remarks.push_back("not run: " + ran->error().message);
  sheet.beside = flags.beside;
  sheet.file = context.literal ? base::Join(context.words, " ") : InputName(flags.file);
  estimate::Question question = estimate::QuestionOf(spec, ::geteuid(), summary, sheet.remarks);
  if (summary.transformer || question.share > 0) sheet.training = spec.training;
  sheet.optimizer = spec.optimizer;
  sheet.precision = spec.precision;
  if (summary.layers) {
    if (!sheet.optimizer) sheet.optimizer = summary.layers->optimizer;
    if (!sheet.precision) sheet.precision = summary.layers->precision;
  }
  if (!summary.trouble.empty()) sheet.remarks.push_back("no model summary: " + summary.trouble);
  if (!described.has_command) question.signature = question.kin = question.relation = "";
  question.gpu_type = flags.gpu_type;
  question.gpu_mib = flags.transformer.gpu_mib;
  estimate::History history;
  question.coverage = kUsualCoverage;
  AddKnowledge(context, question, history, sheet);
  if (flags.coverage > 0) question.coverage = flags.coverage;
  question.site = &sheet.site;
  sheet.layers = question.layers;
  sheet.question = &question;
  if (question.layers != nullptr) {
    sheet.work = {.grain = estimate::GrainOf(*question.layers, question.batch),
                  .guess = estimate::GuessActivity(*question.layers)};
  }
  bool answered = false;
  for (const estimate::EstimatorEntry* entry : chosen) {
    const auto estimator = CARMA_TRY(
        estimate::MakeWithWeights(*entry, base::IsFolder(flags.weights) ? flags.weights : ""));
    sheet.opinions.push_back({std::string(entry->name), estimator->Ask(question)});
    answered = answered || sheet.opinions.back().answer.has_value();
  }
  if (!answered && !flags.run && WordsOfRun(context.words, "", "1")) {
    std::string remark =
        "to read the model from the script's first step without a GPU, run carma estimate --run";
    for (const std::string& word : context.words) remark += " " + ShellQuote(word);
    sheet.remarks.push_back(std::move(remark));
  }
  Print(context, context.json ? EstimateJson(sheet)
                              : EstimateText(sheet, flags.explain, ScreenOf(context.out)));
  if (!answered) context.exit_code = kExitFailure;
  return Unit{};
}

Result<Unit> RunHfConfig(Context& context, const EstimateFlags& flags) {
  if (!flags.file.empty())
    return Invalid("estimate: expected either a file or --hf-config, not both");
  TransformerFlags asked = flags.transformer;
  for (const auto& [name, value] :
       {std::pair("batch", &flags.batch), std::pair("optimizer", &flags.optimizer),
        std::pair("precision", &flags.precision), std::pair("gpus", &flags.gpus),
        std::pair("weights", &flags.weights)}) {
    if (!value->empty()) asked.words.push_back({name, *value, ""});
  }
  asked.coverage = flags.coverage;
  if (const auto known = GetKnowledge(context.client(), "", "", flags.gpu_type)) {
    if (asked.coverage <= 0) asked.coverage = known->value.coverage;
    if (asked.gpu_mib == 0) asked.gpu_mib = known->value.gpu_mib;
  }
  return RunTransformer(context, asked);
}

// Replaces a training configuration or a Python script with the command that runs it.
Result<Unit> TakeTraining(Context& context, EstimateFlags& flags) {
  if (context.literal || !MayBeTraining(flags.file) || DescribesTask(flags.file)) return Unit{};
  const Result<std::string> text = base::ReadFile(flags.file, estimate::kMaxConfigBytes);
  if (!text) return Unit{};
  std::vector<std::string> command = CARMA_TRY(CommandOfFile(flags.file, *text));
  if (command.empty()) return Unit{};
  context.words = std::move(command);
  context.literal = true;
  flags.file.clear();
  return Unit{};
}

Result<Unit> RunReset(Context& context) {
  const std::string answer = CARMA_TRY(context.client().Call("POST", "/v1/estimate/reset"));
  Print(context,
        context.json ? answer + "\n" : "The calibration was reset; measured peaks are kept.\n");
  return Unit{};
}

Result<Unit> Run(Context& context, EstimateFlags& flags) {
  if (flags.reset) return RunReset(context);
  if (flags.run) return RunEstimate(context, flags);
  CARMA_TRY(TakeTraining(context, flags));
  const bool has_command = context.literal || DescribesTask(flags.file);
  if (!flags.transformer.config.empty() && !has_command) return RunHfConfig(context, flags);
  if (flags.file.empty() && !context.literal)
    return Invalid("estimate: expected a file or --hf-config (see --help)");
  return RunEstimate(context, flags);
}

}  // namespace

void AddEstimateCommand(Syntax app, Context& context) {
  const Syntax verb = app.AddVerb("estimate", "Predict a model's GPU memory with every estimator");
  verb.Footer(
      "  carma estimate resnet50.txt --batch 32 --optimizer adam --explain\n"
      "  carma estimate train.sh\n"
      "  carma estimate --run python train.py --batch-size 32\n"
      "  carma estimate -- torchrun --nproc_per_node 4 train.py --max_seq_length 2048\n"
      "  carma estimate --hf-config config.json --seq-len 4096 --batch 2 --method lora --amp \\\n"
      "      --gradient-checkpointing full\n"
      "FILE is a model summary (torchsummary, torchinfo, Keras, print(model), carma_summary.py),\n"
      "a script with #CARMA lines, a .rad file, a Python script or a configuration file for\n"
      "axolotl, LLaMA-Factory, torchtune, torchtitan or TRL. carmad, if running, adds its\n"
      "calibration and history. BOUND covers the share of tasks set with --coverage.\n"
      "Exit code: 0 estimated, 1 no estimate is possible, 2 the file cannot be read.\n"
      "Every verb also takes --json and --socket PATH.");
  auto flags = std::make_shared<EstimateFlags>();
  verb.AddOption("file", "FILE", flags->file,
                 "model summary (- for standard input), script or training configuration");
  const auto add = [&](const char* name, std::string& target, const char* help, const char* type) {
    verb.AddOption(name, type, target, help);
  };
  add("-b,--batch,--batch-size", flags->batch,
      "samples per GPU and step; with DataParallel, across all GPUs", "N");
  add("--optimizer", flags->optimizer, "sgd, sgd-momentum, adam, adamw …", "NAME");
  add("--precision", flags->precision, "fp32, amp, bf16 …", "NAME");
  add("-G,--gpus", flags->gpus, "number of GPUs", "N");
  add("--memory", flags->memory, "memory that the task would request", "SIZE");
  add("--gpu-type", flags->gpu_type, "GPU name reported by the driver (default: the server's)",
      "NAME");
  add("-e,--estimator", flags->estimators, "only these estimators (default: all)", "LIST");
  add("--weights", flags->weights,
      "folder with the gpumemnet weights (default: shipped); or how a transformer stores its "
      "weights: bf16, fp16, fp32, nf4, nf4-dq, gptq4, int8 (default: from config.json)",
      "DIR|NAME");
  verb.AddOption("--coverage", "SHARE", flags->coverage, "share of tasks the bound should cover")
      .Range(0.5, 0.999);
  verb.AddOption("--beside", "LIST", flags->beside,
                 "SM activity of neighbours, 0 to 1 each, to see how much they slow the task down")
      .List()
      .Values(1, 15)
      .OneWord()
      .Range(0.0, 1.0);
  verb.AddFlag("--explain", flags->explain, "break down each number; show notes and calibration");
  verb.AddFlag("--run", flags->run,
               "run the given Python command to the end of its first step, without a GPU");
  verb.AddFlag("--reset-calibration", flags->reset,
               "discard what the formula learned from finished tasks; administrators only");
  AddTransformerOptions(verb, flags->transformer);
  verb.OnRun([&context, flags, verb] {
    if (!verb.VerbGiven()) context.Report(Run(context, *flags));
  });
}

}  // namespace carma::cli
