#include <string>
#include <vector>

#include "base/result.h"
#include "base/text.h"
#include "entries.h"
#include "task/attach/attach_socket.h"
#include "task/describe/description.h"
#include "task/describe/rad.h"
#include "task/describe/script.h"
#include "task/describe/spec.h"
#include "task/mps/mps.h"
#include "task/mps/mps_child.h"
#include "task/progress/reader.h"
#include "task/verdict/oom_detect.h"

namespace carma::fuzz {
namespace {

// Checks that an accepted description yields valid tasks that survive JSON, and that a rejected
// description yields a one-line message.
void CheckTasks(task::Description& description) {
  const auto tasks = description.Finish({.cwd = "/w",
                                         .home = "/h",
                                         .user = "eve",
                                         .environment = {{"PATH", "/bin"}},
                                         .now = base::FromMs(1'772'373'600'000)});
  if (!tasks) {
    CARMA_CHECK(base::IsUtf8(tasks.error().message), "a readable error");
    return;
  }
  CARMA_CHECK(!tasks->empty(), "a description gives at least one task");
  const task::TaskSpec& spec = tasks->front();
  CARMA_CHECK(task::Validate(spec), "a finished task is valid");
  const auto back = task::SpecFromJsonText(task::ToJsonText(spec));
  CARMA_CHECK(back && *back == spec, "a task survives conversion to JSON and back");
}

void CheckError(const base::Error& error) {
  CARMA_CHECK(base::IsUtf8(error.message) && error.message.size() < 2000 &&
                  error.message.find('\n') == std::string::npos,
              "an error message is one readable line");
}

}  // namespace

void FuzzScript(std::string_view bytes) {
  task::Description description;
  const auto applied = task::ApplyScript(bytes, "fuzz.sh", {"x"}, description);
  if (applied) {
    CheckTasks(description);
  } else {
    CheckError(applied.error());
  }
}

void FuzzRad(std::string_view bytes) {
  for (const char* estimate : {"oracle", "horus"}) {
    task::Description description;
    const auto applied = task::ApplyRad(bytes, "dir/fuzz.rad", description);
    if (!applied) return CheckError(applied.error());
    CARMA_CHECK(description.Set("rad-estimate", estimate), "a known estimate");
    CheckTasks(description);
  }
}

void FuzzSpec(std::string_view bytes) {
  const auto spec = task::SpecFromJsonText(std::string(bytes));
  if (!spec) return CheckError(spec.error());
  const auto back = task::SpecFromJsonText(task::ToJsonText(*spec));
  CARMA_CHECK(back && *back == *spec, "a task survives conversion to JSON and back");
  const std::string path = task::ExpandPath(
      spec->stdout_path, *spec,
      {.id = core::TaskId{7}, .array = core::TaskId{5}, .user = "eve", .host = "gpu1"});
  CARMA_CHECK(path.starts_with('/'), "an absolute path stays absolute");
}

void FuzzOom(std::string_view bytes) {
  task::ExitEvidence evidence;
  // The first byte chooses how the task ended.
  const unsigned char how = bytes.empty() ? 0 : static_cast<unsigned char>(bytes.front());
  evidence.exit_code = how & 1 ? how : 0;
  evidence.signal = how & 2 ? how % 64 : 0;
  evidence.stopped_by_us = (how & 4) != 0;
  evidence.host_oom = (how & 8) != 0;
  if (how & 16) evidence.device_full = how / 255.0;
  evidence.stderr_tail = bytes.substr(bytes.empty() ? 0 : 1);
  const core::ExitInfo info = task::ClassifyExit(evidence);
  const bool abnormal = evidence.exit_code != 0 || evidence.signal != 0;
  CARMA_CHECK(abnormal == (info.kind != core::ExitKind::kSuccess),
              "only exit code 0 counts as success");
  CARMA_CHECK(!evidence.stopped_by_us || info.kind != core::ExitKind::kOutOfMemory,
              "a task that we stopped does not count as out of memory");
  CARMA_CHECK(base::IsUtf8(info.detail) && info.detail.find('\n') == std::string::npos,
              "the detail is one readable line");
}

void FuzzProgress(std::string_view bytes) {
  task::ProgressReader reader;
  reader.Feed(0, bytes.substr(0, bytes.size() / 2));
  reader.Feed(0, bytes.substr(bytes.size() / 2));
  const task::Progress progress = reader.Now();
  const auto sane = [](std::optional<double> value) { return !value || *value >= 0; };
  CARMA_CHECK(!progress.total || (*progress.total >= 1 && *progress.done <= *progress.total),
              "the steps done do not exceed the total");
  CARMA_CHECK(sane(progress.done) && sane(progress.rate_per_s) && sane(progress.eta_s) &&
                  sane(progress.run_left_s),
              "no negative numbers");
  CARMA_CHECK(sane(progress.run_fraction) && progress.run_fraction.value_or(0) <= 1, "a fraction");
}

void FuzzAttach(std::string_view bytes) {
  const auto message = task::ParseAttachMessage(bytes);
  if (!message) return CheckError(message.error());
  const auto again = task::ParseAttachMessage(task::ToBytes(*message));
  CARMA_CHECK(again && *again == *message, "an accepted message survives a round trip");
}

void FuzzMps(std::string_view bytes) {
  if (const auto pids = task::ParseMpsPids(bytes)) {
    CARMA_CHECK(pids->size() <= 4096, "a bounded list");
    for (const pid_t pid : *pids) CARMA_CHECK(pid > 0, "a process");
  } else {
    CheckError(pids.error());
  }
  if (const auto state = task::ParseMpsServerState(bytes); !state) CheckError(state.error());
  if (const auto ended = task::ParseMpsTermination(bytes); !ended) CheckError(ended.error());
  // The logs belong to the user, who may write anything there.
  const std::string text = task::LastMpsLogText(bytes);
  CARMA_CHECK(base::IsUtf8(text) && text.size() <= 300 && text.find('\n') == std::string::npos,
              "the text from a log is one readable line");
  (void)task::SaysMpsServerReady(bytes, 12);
  (void)task::SaysMpsServerEnded(bytes);
  // Parses the bytes as the arguments (one per line) of the child process that controls MPS.
  std::vector<std::string> arguments;
  for (const std::string_view line : base::Split(bytes, '\n')) arguments.emplace_back(line);
  if (const auto order = task::ParseMpsArguments(arguments)) {
    const auto again = task::ParseMpsArguments(task::ToArguments(*order));
    CARMA_CHECK(again && again->id == order->id && again->argv == order->argv,
                "an order survives a round trip");
  }
  const std::string folder = task::MpsFolderName(std::string(bytes.substr(0, 200)));
  constexpr std::size_t kLongest = 17;  // twelve letters, and "-1024"
  CARMA_CHECK(folder.find('/') == std::string::npos && folder.size() <= kLongest && !folder.empty(),
              "the folder name is short and has no slash");
}

}  // namespace carma::fuzz
