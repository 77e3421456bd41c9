#include "lab/verbs/profile/workloads.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "base/try.h"
#include "estimate/asking.h"
#include "estimate/signature.h"
#include "lab/trace/workloads.h"
#include "model/summary.h"
#include "profile/profiles.h"
#include "task/describe/spec.h"

namespace carma::cli {
namespace {

using base::Json;
using base::JsonReader;

constexpr double kMostWorkloadSeconds = 1e9;
constexpr double kMostSteps = 1e15;
constexpr std::array<std::string_view, 4> kUsualSimulated{"resnet34-cifar-b128", "mobilenet-b64",
                                                          "resnet50-b64", "bert-base-b32"};
constexpr std::array<std::string_view, 4> kUsualTrained{"resnet34-cifar-b128", "mobilenet-b64",
                                                        "resnet50-b32", "bert-base-b32"};

std::vector<std::string> NamesOr(std::span<const std::string> names,
                                 std::span<const std::string_view> usual) {
  if (names.empty()) return {usual.begin(), usual.end()};
  return {names.begin(), names.end()};
}

// Reads a command: a list of words, or a string for the shell such as "python train.py".
void ReadCommand(JsonReader& in, const char* key, std::vector<std::string>& command) {
  const Json* raw = in.Raw(key);
  if (!raw) return;
  if (raw->is_string()) {
    std::string line;
    in.Get(key, line, 131'072);
    command = {"/bin/sh", "-c", line};
  } else {
    in.Get(key, command, 10'000);
  }
  if (command.empty() || command.front().empty() ||
      std::ranges::any_of(command, [](const std::string& word) { return word.contains('\0'); })) {
    in.Complain(key, "a string or a list of words");
  }
}

Result<task::TaskSpec> SpecOf(const ProfiledWorkload& workload, const std::string& folder) {
  Json json = workload.task.empty() ? Json::object() : Json::parse(workload.task, nullptr, false);
  json["command"] = workload.command;
  json["workdir"] = workload.workdir.empty() ? folder : workload.workdir;
  return task::SpecFromJsonText(base::DumpJson(json));
}

void ReadTask(JsonReader& in, ProfiledWorkload& workload) {
  const Json* const raw = in.Raw("task");
  if (!raw) return;
  if (!raw->is_object() || raw->contains("command") || raw->contains("workdir"))
    return in.Complain("task", "an object without command and workdir");
  workload.task = base::DumpJson(*raw);
}

Result<ProfiledWorkload> ReadWorkload(const Json& json) {
  JsonReader in(json, "");
  ProfiledWorkload workload;
  if (!in.Get("name", workload.name)) in.Complain("name", "a string");
  ReadCommand(in, "command", workload.command);
  if (!in.Has("command")) in.Complain("command", "a string or a list of words");
  ReadCommand(in, "calibrate", workload.calibrate);
  in.Get("workdir", workload.workdir);
  in.Get("iterations", workload.iterations, 1e-6, kMostSteps);
  in.Get("load_s", workload.load_s, 0, kMostWorkloadSeconds);
  in.Get("seconds", workload.seconds, 1e-3, kMostWorkloadSeconds);
  ReadTask(in, workload);
  in.NoOthers();
  if (!in.error() && !profile::IsName(workload.name)) in.Complain("name", profile::kNameRule);
  if (!workload.workdir.empty() && !workload.workdir.starts_with('/'))
    in.Complain("workdir", "an absolute path");
  const bool has_steps = std::ranges::any_of(
      workload.command, [](const std::string& word) { return word.contains(kStepsWord); });
  if (has_steps == workload.calibrate.empty())
    in.Complain("calibrate", "both calibrate and {steps} in the command, or neither");
  if (in.error()) return std::unexpected(*in.error());
  if (const auto spec = SpecOf(workload, "/"); !spec) return base::Wrap(spec.error(), "/task");
  return workload;
}

}  // namespace

Result<std::vector<ProfiledWorkload>> ParseProfiledWorkloads(std::string_view text,
                                                             std::string_view where) {
  std::vector<ProfiledWorkload> workloads;
  std::set<std::string> names;
  int line = 0;
  const auto wrong = [&](const std::string& what) {
    return Invalid("{}:{}: {}", where, line, what);
  };
  for (const std::string_view raw : base::Split(text, '\n')) {
    ++line;
    const std::string_view piece = base::Trim(raw);
    if (piece.empty() || piece.starts_with('#')) continue;
    const Result<Json> json = base::ParseJson(piece);
    if (!json) return wrong(json.error().message);
    Result<ProfiledWorkload> workload = ReadWorkload(*json);
    if (!workload) return wrong(workload.error().message);
    if (!names.insert(workload->name).second)
      return wrong("'" + workload->name + "' is already listed above");
    if (workloads.size() == kMaxProfiledWorkloads)
      return wrong(fmt::format("more than {} workloads", kMaxProfiledWorkloads));
    workloads.push_back(std::move(*workload));
  }
  if (workloads.empty()) return Invalid("{}: no workload", where);
  return workloads;
}

std::string ProfiledWorkloadJson(const ProfiledWorkload& workload) {
  Json json = {{"name", workload.name}, {"command", workload.command}};
  if (!workload.calibrate.empty()) json["calibrate"] = workload.calibrate;
  if (!workload.workdir.empty()) json["workdir"] = workload.workdir;
  if (workload.iterations) json["iterations"] = *workload.iterations;
  if (workload.load_s) json["load_s"] = *workload.load_s;
  if (workload.seconds) json["seconds"] = *workload.seconds;
  if (!workload.task.empty()) json["task"] = Json::parse(workload.task, nullptr, false);
  return base::DumpJson(json);
}

Result<std::vector<ProfiledWorkload>> SimulatedWorkloads(std::span<const std::string> names,
                                                         const std::string& simtask,
                                                         double seconds) {
  const trace::Catalogue catalogue = CARMA_TRY(trace::Catalogue::BuiltIn());
  std::vector<ProfiledWorkload> workloads;
  for (const std::string& name : NamesOr(names, kUsualSimulated)) {
    trace::Workload played = *CARMA_TRY(catalogue.Find(name));
    if (played.gpus != 1)
      return Invalid("'" + name +
                     "' needs several GPUs, but only single-GPU workloads can be measured");
    played.solo_s = seconds;
    std::vector<std::string> command = trace::SimTaskArguments(played);
    command.insert(command.begin(), simtask);
    workloads.push_back({.name = name, .command = std::move(command), .seconds = seconds});
  }
  return workloads;
}

Result<std::vector<ProfiledWorkload>> TrainedWorkloads(std::span<const std::string> names,
                                                       const std::string& python,
                                                       const std::string& script, double seconds) {
  std::vector<ProfiledWorkload> workloads;
  for (const std::string& name : NamesOr(names, kUsualTrained)) {
    const std::size_t at = name.rfind("-b");
    const auto batch = at == std::string::npos
                           ? std::nullopt
                           : base::ParseInt(std::string_view(name).substr(at + 2));
    if (at == 0 || !batch || *batch < 1)
      return Invalid("'" + name + "': expected NETWORK-bBATCH, such as resnet50-b32");
    const std::vector<std::string> train{
        python, script, "train", name.substr(0, at), "--batch", std::to_string(*batch)};
    ProfiledWorkload workload{
        .name = name, .command = train, .calibrate = train, .seconds = seconds};
    workload.command.insert(workload.command.end(), {"--steps", std::string(kStepsWord)});
    workload.calibrate.insert(workload.calibrate.end(), {"--seconds", fmt::format("{}", seconds)});
    workloads.push_back(std::move(workload));
  }
  return workloads;
}

Result<std::string> SignatureOf(const ProfiledWorkload& workload, const std::string& folder,
                                std::uint32_t uid) {
  const task::TaskSpec spec = CARMA_TRY(SpecOf(workload, folder));
  std::string fingerprint;
  if (spec.model_summary) {
    fingerprint =
        estimate::ReadSummary(base::ReadFile(*spec.model_summary, model::kMaxSummaryBytes),
                              *spec.model_summary)
            .fingerprint;
  }
  return estimate::Signature(spec, uid, fingerprint);
}

Result<double> StepsTold(std::string_view output) {
  std::optional<double> told;
  for (const std::string_view line : base::Split(output, '\n')) {
    if (!base::Trim(line).starts_with('{')) continue;
    const Result<Json> json = base::ParseJson(base::Trim(line));
    if (!json || !json->is_object() || !json->contains("steps")) continue;
    const Json& steps = (*json)["steps"];
    if (steps.is_number()) told = steps.get<double>();
  }
  if (!told) return Invalid("its output contains no \"steps\"");
  if (!(*told >= 1 && *told <= kMostSteps))
    return Invalid("{} steps: expected 1 to {}", *told, kMostSteps);
  return *told;
}

ProfiledWorkload WithSteps(const ProfiledWorkload& workload, double steps) {
  ProfiledWorkload with = workload;
  const std::string number = fmt::format("{}", std::llround(steps));
  for (std::string& word : with.command) {
    for (std::size_t at = 0; (at = word.find(kStepsWord, at)) != std::string::npos;
         at += number.size()) {
      word.replace(at, kStepsWord.size(), number);
    }
  }
  with.calibrate.clear();
  with.iterations = std::round(steps);
  return with;
}

}  // namespace carma::cli
