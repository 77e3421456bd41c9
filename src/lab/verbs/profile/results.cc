#include "lab/verbs/profile/results.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "base/file.h"
#include "base/json.h"
#include "base/try.h"
#include "profile/profiles.h"

namespace carma::cli {
namespace {

using base::Json;
using base::JsonReader;

constexpr const char* kRunsFile = "/runs.jsonl";
constexpr double kMostSeconds = 1e9;
constexpr std::int64_t kMostMib = std::int64_t{1} << 40;
constexpr std::size_t kMostInstances = 10'000;

template <base::HasWords Enum>
std::optional<Enum> ReadWord(JsonReader& in, const char* key) {
  std::string word;
  if (!in.Get(key, word, 64)) return std::nullopt;
  const std::optional<Enum> value = base::FromWord<Enum>(word);
  if (!value) in.Complain(key, "expected " + base::AllWords<Enum>());
  return value;
}

RunInstance ReadInstance(const Json& json, const std::string& pointer, JsonReader& of,
                         std::size_t members) {
  JsonReader in(json, pointer);
  RunInstance instance;
  in.Get("member", instance.member, 0, static_cast<int>(members) - 1);
  in.Get("begin_s", instance.begin_s, 0, kMostSeconds);
  in.Get("end_s", instance.end_s, 0, kMostSeconds);
  in.Get("code", instance.code, -1, 255);
  in.Get("stopped", instance.stopped);
  in.NoOthers();
  if (instance.end_s < instance.begin_s) in.Complain("end_s", "expected no less than begin_s");
  if (in.error()) of.Take(*in.error());
  return instance;
}

void ReadPlanned(JsonReader& in, PlannedRun& run) {
  run.method = ReadWord<ProfileMethod>(in, "method").value_or(ProfileMethod::kStreams);
  if (!in.Get("gpu_type", run.gpu_type, profile::kMaxNameBytes) || !profile::IsName(run.gpu_type))
    in.Complain("gpu_type", profile::kNameRule);
  in.Get("members", run.members, kMostProfileDegree, profile::kMaxNameBytes);
  if (run.members.empty()) in.Complain("members", "expected at least one name");
  for (const std::string& member : run.members) {
    if (!profile::IsName(member)) in.Complain("members", profile::kNameRule);
  }
  in.Get("repeat", run.repeat, 1, 1'000);
  run.cost_of = ReadWord<Watcher>(in, "cost_of");
}

}  // namespace

std::string MeasuredRunJson(const MeasuredRun& run) {
  Json instances = Json::array();
  for (const RunInstance& each : run.instances) {
    instances.push_back({{"member", each.member},
                         {"begin_s", each.begin_s},
                         {"end_s", each.end_s},
                         {"code", each.code},
                         {"stopped", each.stopped}});
  }
  Json json = {{"method", base::WordOf(run.run.method)},
               {"gpu_type", run.run.gpu_type},
               {"gpu", run.gpu},
               {"members", run.run.members},
               {"repeat", run.run.repeat},
               {"instances", std::move(instances)}};
  if (run.run.cost_of) json["cost_of"] = base::WordOf(*run.run.cost_of);
  if (run.load_s) json["load_s"] = *run.load_s;
  if (run.unload_s) json["unload_s"] = *run.unload_s;
  if (run.sm_active) json["sm_active"] = *run.sm_active;
  if (run.memory_mib) json["memory_mib"] = *run.memory_mib;
  if (run.energy_j) json["energy_j"] = *run.energy_j;
  if (!run.failed.empty()) json["failed"] = run.failed;
  return base::DumpJson(json);
}

Result<MeasuredRun> ParseMeasuredRun(std::string_view line) {
  const Json json = CARMA_TRY(base::ParseJson(line));
  JsonReader in(json, "");
  MeasuredRun run;
  ReadPlanned(in, run.run);
  in.Get("gpu", run.gpu, profile::kMaxNameBytes);
  in.Get("load_s", run.load_s, 0, kMostSeconds);
  in.Get("unload_s", run.unload_s, 0, kMostSeconds);
  in.Get("sm_active", run.sm_active, 0, 1);
  in.Get("memory_mib", run.memory_mib, 0, kMostMib);
  in.Get("energy_j", run.energy_j, 0, 1e15);
  in.Get("failed", run.failed);
  const Json* const instances = in.Raw("instances");
  in.NoOthers();
  if (!instances || !instances->is_array() || instances->size() > kMostInstances)
    in.Complain("instances", "expected a list");
  if (in.error()) return std::unexpected(*in.error());
  for (std::size_t i = 0; i < instances->size(); ++i) {
    run.instances.push_back(
        ReadInstance((*instances)[i], fmt::format("/instances/{}", i), in, run.run.members.size()));
  }
  if (in.error()) return std::unexpected(*in.error());
  return run;
}

Result<KeptRuns> ParseMeasuredRuns(std::string_view text, std::string_view where) {
  KeptRuns kept;
  while (true) {
    const std::size_t end = text.find('\n', kept.whole_bytes);
    if (end == std::string_view::npos) return kept;
    Result<MeasuredRun> run =
        ParseMeasuredRun(text.substr(kept.whole_bytes, end - kept.whole_bytes));
    if (!run || kept.runs.size() == kMaxProfileRuns) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("{}:{}: {}", where, kept.runs.size() + 1,
                              run ? "more runs than a file may have" : run.error().message));
    }
    kept.runs.push_back(std::move(*run));
    kept.whole_bytes = end + 1;
  }
}

Result<ResultFolder> ResultFolder::Open(const std::string& path) {
  CARMA_TRY(base::MakeDirs(path));
  const std::string name = path + kRunsFile;
  base::UniqueFd file(::open(name.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file) return base::FailErrno(errno, name);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0)
    return Fail(ErrorCode::kConflict, path + ": another carma profile works in this folder");
  const std::string text = CARMA_TRY(base::ReadFile(name, kMaxRunsBytes));
  KeptRuns kept = CARMA_TRY(ParseMeasuredRuns(text, name));
  if (kept.whole_bytes < text.size() &&
      ::ftruncate(file.get(), static_cast<off_t>(kept.whole_bytes)) != 0) {
    return base::FailErrno(errno, name);
  }
  return ResultFolder(path, std::move(file), std::move(kept.runs));
}

Result<ResultFolder> ResultFolder::Look(const std::string& path) {
  const std::string name = path + kRunsFile;
  if (!base::Exists(name)) return ResultFolder(path, {}, {});
  const std::string text = CARMA_TRY(base::ReadFile(name, kMaxRunsBytes));
  KeptRuns kept = CARMA_TRY(ParseMeasuredRuns(text, name));
  return ResultFolder(path, {}, std::move(kept.runs));
}

Result<Unit> ResultFolder::Add(MeasuredRun run) {
  if (auto wrote = base::WriteAll(file_.get(), MeasuredRunJson(run) + "\n"); !wrote)
    return base::Wrap(wrote.error(), path_ + kRunsFile);
  if (::fsync(file_.get()) != 0) return base::FailErrno(errno, path_ + kRunsFile);
  runs_.push_back(std::move(run));
  return Unit{};
}

Result<Unit> ResultFolder::Write(const std::string& name, std::string_view text) const {
  return base::WriteFileAtomic(path_ + "/" + name, text);
}

Result<std::string> ResultFolder::Read(const std::string& name) const {
  const std::string file = path_ + "/" + name;
  if (!base::Exists(file)) return std::string();
  return base::ReadFile(file, kMaxRunsBytes);
}

}  // namespace carma::cli
