#include "lab/verbs/profile/results.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <vector>

#include "base/fields_json.h"
#include "base/file.h"
#include "base/json.h"
#include "base/try.h"
#include "profile/profiles.h"

namespace carma::cli {
namespace {

constexpr const char* kRunsFile = "runs.jsonl";
// A program counts as loading while its activity is below this share of the usual value.
constexpr double kActiveShare = 0.1;

std::optional<double> ActivityOf(const ProfileSample& sample) {
  return sample.sm_active ? sample.sm_active : sample.utilization;
}

// The median over the second half of the run. The last sample is excluded, because it partly covers
// time after the run.
std::optional<double> UsualActivity(std::span<const ProfileSample> samples) {
  std::vector<double> told;
  for (const ProfileSample& each : samples) {
    if (const auto activity = ActivityOf(each)) told.push_back(*activity);
  }
  if (told.size() > 2) told.pop_back();
  told.erase(told.begin(), told.begin() + static_cast<std::ptrdiff_t>(told.size() / 2));
  if (told.empty()) return std::nullopt;
  const auto middle = told.begin() + static_cast<std::ptrdiff_t>(told.size() / 2);
  std::ranges::nth_element(told, middle);
  return *middle;
}

}  // namespace

std::optional<ActiveSpan> ActiveSpanOf(std::span<const ProfileSample> samples) {
  const std::optional<double> usual = UsualActivity(samples);
  if (!usual || *usual <= 0) return std::nullopt;
  std::optional<ActiveSpan> active;
  for (std::size_t i = 1; i < samples.size(); ++i) {
    const std::optional<double> activity = ActivityOf(samples[i]);
    if (!activity || *activity < kActiveShare * *usual) continue;
    const double active_s =
        (samples[i].at_s - samples[i - 1].at_s) * std::min(1.0, *activity / *usual);
    if (!active) active = {.from_s = samples[i].at_s - active_s};
    active->until_s = samples[i - 1].at_s + active_s;
  }
  return active;
}

std::optional<double> MeanSmActive(std::span<const ProfileSample> samples, double from_s,
                                   double to_s) {
  double sum = 0;
  bool told = false;
  for (std::size_t i = 1; i < samples.size(); ++i) {
    if (!samples[i].sm_active) continue;
    told = true;
    sum += *samples[i].sm_active * (samples[i].at_s - samples[i - 1].at_s);
  }
  if (!told || to_s <= from_s) return std::nullopt;
  return std::clamp(sum / (to_s - from_s), 0.0, 1.0);
}

std::string MeasuredRunJson(const MeasuredRun& run) {
  return base::DumpJson(base::FieldsToJson(run, base::Absent::kLeftOut));
}

Result<MeasuredRun> ParseMeasuredRun(std::string_view line) {
  const base::Json json = CARMA_TRY(base::ParseJson(line));
  MeasuredRun run = CARMA_TRY(base::FieldsFromJson<MeasuredRun>(json, "", base::Unknown::kRefused));
  base::JsonReader in(json, "");
  const std::vector<std::string>& members = run.run.members;
  if (!profile::IsName(run.run.gpu_type)) in.Complain("gpu_type", profile::kNameRule);
  if (members.empty()) in.Complain("members", "at least one name");
  if (!std::ranges::all_of(members, profile::IsName)) in.Complain("members", profile::kNameRule);
  for (const RunInstance& each : run.instances) {
    if (each.member >= std::ssize(members)) in.Complain("instances", "numbers of members");
    if (each.end_s < each.begin_s) in.Complain("instances", "an end_s no earlier than begin_s");
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
      return Invalid("{}:{}: {}", where, kept.runs.size() + 1,
                     run ? "too many runs for one file" : run.error().message);
    }
    kept.runs.push_back(std::move(*run));
    kept.whole_bytes = end + 1;
  }
}

Result<ResultFolder> ResultFolder::Open(const std::string& path) {
  CARMA_TRY(base::MakeDirs(path));
  const std::string name = path + "/" + kRunsFile;
  ResultFolder folder(path);
  folder.file_.reset(::open(name.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!folder.file_) return FailErrno(errno, name);
  if (::flock(folder.file_.get(), LOCK_EX | LOCK_NB) != 0)
    return Conflict(path + ": another carma profile is using this folder");
  const std::string text = CARMA_TRY(folder.Read(kRunsFile));
  KeptRuns kept = CARMA_TRY(ParseMeasuredRuns(text, name));
  if (kept.whole_bytes < text.size() &&
      ::ftruncate(folder.file_.get(), static_cast<off_t>(kept.whole_bytes)) != 0) {
    return FailErrno(errno, name);
  }
  folder.runs_ = std::move(kept.runs);
  return folder;
}

Result<ResultFolder> ResultFolder::Look(const std::string& path) {
  ResultFolder folder(path);
  const std::string text = CARMA_TRY(folder.Read(kRunsFile));
  folder.runs_ = CARMA_TRY(ParseMeasuredRuns(text, path + "/" + kRunsFile)).runs;
  return folder;
}

Result<Unit> ResultFolder::Add(MeasuredRun run) {
  if (auto wrote = base::WriteAll(file_.get(), MeasuredRunJson(run) + "\n"); !wrote)
    return base::Wrap(wrote.error(), path_ + "/" + kRunsFile);
  if (::fsync(file_.get()) != 0) return FailErrno(errno, path_ + "/" + kRunsFile);
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
