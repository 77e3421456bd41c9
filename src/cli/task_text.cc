#include "cli/task_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "base/text.h"
#include "cli/facts.h"
#include "cli/gpu_text.h"
#include "cli/ids.h"
#include "cli/shell_quote.h"
#include "cli/start_text.h"
#include "cli/table.h"
#include "core/policy.h"
#include "core/task.h"

namespace carma::cli {
namespace {

using api::TaskView;

constexpr std::size_t kMaxNameShown = 256;

std::optional<core::TaskState> StateOf(const TaskView& task) {
  return core::ParseTaskState(task.state);
}

std::string SpanText(std::int64_t from_ms, std::int64_t until_ms) {
  return base::FormatSpan(base::Duration(std::max<std::int64_t>(0, until_ms - from_ms)));
}

std::string ParametersText(const TaskView& task) {
  std::string text;
  for (const auto& [name, value] : task.parameters)
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, value);
  return base::Printable(text, 4096);
}

// "end to me: sent", "fail to https://h/…: waiting, 2 tries: …".
std::string NoticeText(const api::NoticeView& notice) {
  std::string text = fmt::format("{} to {}: {}", notice.event, notice.target, notice.state);
  if (notice.tries > 1) text += fmt::format(", {} tries", notice.tries);
  if (!notice.text.empty()) text += ": " + notice.text;
  return base::Printable(text, 600);
}

// Time in use: of the current attempt, or of the last one when it has ended.
std::string TimeText(const TaskView& task, std::int64_t now_ms) {
  if (!task.launched_ms) return "0:00";
  if (HoldsGpus(task)) return SpanText(*task.launched_ms, now_ms);
  return task.ended_ms ? SpanText(*task.launched_ms, *task.ended_ms) : "0:00";
}

std::string OptionalMib(const std::optional<std::int64_t>& mib) {
  return mib ? base::FormatMib(*mib) : "-";
}

// Measured/promised while it runs, ~predicted while it waits, the measured peak at the end.
std::string MemoryText(const TaskView& task) {
  if (task.gpus == 0) return "-";
  if (HoldsGpus(task)) {
    return OptionalMib(task.observed_mib) + "/" +
           (task.claim_mib > 0 ? base::FormatMib(task.claim_mib) : "-");
  }
  if (HasEnded(task)) return task.peak_mib > 0 ? base::FormatMib(task.peak_mib) : "-";
  return task.predicted_mib ? "~" + base::FormatMib(*task.predicted_mib) : "-";
}

std::string CpusText(const TaskView& task) {
  return task.cpus ? std::to_string(*task.cpus) : "-";
}

std::string GpuIndices(const TaskView& task) {
  std::vector<std::string> indices;
  for (std::int64_t index : task.gpu_indices) indices.push_back(std::to_string(index));
  return base::Join(indices, ",");
}

// It holds GPUs that others wait for.
bool IsIdle(const TaskView& task) {
  return HoldsGpus(task) && task.idle_since_ms;
}

std::string IdleName() {
  return std::string(core::ReasonName(core::ReasonCode::kIdleHolder));
}

// What should not be so of a task that runs; empty: nothing.
std::string Mark(const TaskView& task) {
  if (IsIdle(task)) return IdleName();
  if (HoldsGpus(task) && !task.wrong_gpus.empty()) return "WrongDevice";
  return HoldsGpus(task) && task.over_promise_mib ? "OverPromise" : "";
}

std::string WhereText(const TaskView& task) {
  const std::string reason = "(" + base::Printable(task.reason, 40) + ")";
  const bool succeeded = StateOf(task) == core::TaskState::kSucceeded;
  if (HoldsGpus(task) || succeeded || task.reason.empty()) {
    const std::string gpus = GpuIndices(task);
    if (gpus.empty()) return "-";
    const std::string mark = Mark(task);
    return mark.empty() ? gpus : fmt::format("{} ({})", gpus, mark);
  }
  return reason;
}

// Which GPUs it asks for: " of a100, with at least 40.0G, only 2 or 3, not 0, linked".
std::string ChoiceText(const TaskView& task) {
  std::string text;
  if (!task.gpu_type.empty()) text += " of " + base::Printable(task.gpu_type, 64);
  if (task.gpu_memory_min_mib)
    text += ", with at least " + base::FormatMib(*task.gpu_memory_min_mib);
  if (!task.on_gpus.empty())
    text += ", only " + base::Printable(base::Join(task.on_gpus, " or "), 400);
  if (!task.not_on_gpus.empty())
    text += ", not " + base::Printable(base::Join(task.not_on_gpus, ", "), 400);
  return text + (task.linked_gpus ? ", linked" : "");
}

std::string WaitsText(const TaskView& task, std::int64_t now_ms) {
  return task.waiting_since_ms ? SpanText(*task.waiting_since_ms, now_ms) : "-";
}

std::string StartText(const TaskView& task, std::int64_t now_ms) {
  const std::string text = StartBrief(task.latest_start_ms, task.likely_start_ms, now_ms);
  return text.empty() ? "-" : text;
}

std::string Line(const std::string& text) {
  return text.empty() ? "-" : base::Printable(text, kMaxNameShown);
}

std::string TimePoint(const std::optional<std::int64_t>& ms) {
  return ms ? base::FormatTime(base::FromMs(*ms)) : "-";
}

std::string CommandText(const TaskView& task) {
  std::vector<std::string> words;
  for (const std::string& word : task.command) words.push_back(ShellQuote(word));
  return base::Printable(base::Join(words, " "), 4096);
}

std::string ExitText(const TaskView& task) {
  if (task.signal && *task.signal != 0) return "signal " + std::to_string(*task.signal);
  return task.exit_code ? std::to_string(*task.exit_code) : "-";
}

// Where it runs as it should needs no colour; what does not, waits or failed has one.
Colour WhereColour(const TaskView& task) {
  if (!HoldsGpus(task)) return StateColour(task);
  return Mark(task).empty() ? Colour::kNone : Colour::kBad;
}

struct ListColumn {
  const char* key;
  Column column;
  const char* meaning;
  std::string (*text)(const TaskView&, std::int64_t now_ms);
  Colour (*colour)(const TaskView&) = nullptr;  // null: none
};

// Texts of columns that show one member as it is.
template <auto kMember>
std::string Number(const TaskView& task, std::int64_t) {
  return fmt::format("{}", task.*kMember);
}
template <auto kMember>
std::string Word(const TaskView& task, std::int64_t) {
  return Line(task.*kMember);
}
template <auto kMember>
std::string Mib(const TaskView& task, std::int64_t) {
  return OptionalMib(task.*kMember);
}
template <auto kMember>
std::string When(const TaskView& task, std::int64_t) {
  return TimePoint(task.*kMember);
}
template <std::string (*kText)(const TaskView&)>
std::string Timeless(const TaskView& task, std::int64_t) {
  return kText(task);
}

const std::vector<ListColumn>& ListColumns() {
  using T = TaskView;
  constexpr bool kRight = true;
  static const std::vector<ListColumn> columns = {
      {"id", {"ID", kRight}, "number", &Number<&T::id>},
      {"name", {"NAME", false, 8}, "name", &Word<&T::name>},
      {"user", {"USER", false, 6}, "submitter", &Word<&T::user>},
      {"st", {"ST"}, "state, short", &Timeless<&StateCode>, &StateColour},
      {"time", {"TIME", kRight}, "time in use by the current or last attempt", &TimeText},
      {"gpus", {"GPUS", kRight}, "GPUs wanted", &Number<&T::gpus>},
      {"cpus", {"CPUS", kRight}, "cores of the server kept for it", &Timeless<&CpusText>},
      {"hostmem",
       {"HOSTMEM", kRight},
       "memory of the server kept for it",
       &Mib<&T::host_memory_mib>},
      {"mem",
       {"MEM", kRight},
       "per GPU: running used/promised, waiting ~predicted, ended peak",
       &Timeless<&MemoryText>},
      {"where",
       {"GPU(REASON)", false, 11},
       "its GPUs, or why it waits or how it ended",
       &Timeless<&WhereText>,
       &WhereColour},
      {"state", {"STATE"}, "state", &Word<&T::state>, &StateColour},
      {"queue", {"QUEUE"}, "main or recovery", &Word<&T::queue>},
      {"priority", {"PRIO", kRight}, "priority", &Number<&T::priority>},
      {"attempt", {"TRY", kRight}, "number of starts", &Number<&T::attempt>},
      {"ooms", {"OOMS", kRight}, "how often it ran out of GPU memory", &Number<&T::ooms>},
      {"predicted", {"PREDICTED", kRight}, "predicted peak per GPU", &Mib<&T::predicted_mib>},
      {"promised", {"PROMISED", kRight}, "memory booked per GPU", &Mib<&T::claim_mib>},
      {"used", {"USED", kRight}, "measured now, fullest GPU", &Mib<&T::observed_mib>},
      {"peak", {"PEAK", kRight}, "measured peak", &Mib<&T::peak_mib>},
      {"waits", {"WAITS", kRight}, "how long it has waited", &WaitsText},
      {"start", {"START"}, "by when a waiting task starts, where that is known", &StartText},
      {"submitted", {"SUBMITTED"}, "when it was submitted", &When<&T::submitted_ms>},
      {"started", {"STARTED"}, "when it first started", &When<&T::first_start_ms>},
      {"ended", {"ENDED"}, "when it ended", &When<&T::ended_ms>},
      {"exit", {"EXIT", kRight}, "exit code or signal of the last attempt", &Timeless<&ExitText>},
      {"reason",
       {"REASON", false, 10},
       "why it waits or how it ended, in a sentence",
       &Word<&T::reason_text>,
       &WhereColour},
      {"command", {"COMMAND", false, 10}, "what it runs", &Timeless<&CommandText>},
      {"workdir", {"WORKDIR", false, 10}, "where it runs", &Word<&T::workdir>},
      {"comment", {"COMMENT", false, 8}, "its submitter's note", &Word<&T::comment>},
  };
  return columns;
}

constexpr const char* kUsualColumns = "id,name,user,st,time,gpus,mem,where";

const ListColumn* FindColumn(std::string_view key) {
  for (const ListColumn& column : ListColumns()) {
    if (column.key == key) return &column;
  }
  return nullptr;
}

std::string PerGpu(const TaskView& task) {
  return task.gpus > 1 ? " on each of its GPUs" : "";
}

// Why there is no estimate, as far as the server told.
std::string NoEstimate(const TaskView& task) {
  if (!task.estimate_remarks.empty()) return "nothing";
  const auto state = StateOf(task);
  if (state == core::TaskState::kSubmitted || state == core::TaskState::kEstimating) {
    return "nothing yet";
  }
  return "nothing: no estimate";
}

void AddMemory(const TaskView& task, Facts& facts) {
  if (task.gpus == 0) return;  // of GPUs nothing is promised to it
  facts.Add("Predicted", task.predicted_mib ? base::FormatMib(*task.predicted_mib) + PerGpu(task) +
                                                  " (" + Line(task.estimate_method) + ")"
                                            : NoEstimate(task));
  for (const std::string& remark : task.estimate_remarks) {
    facts.Add("", base::Printable(remark, 400));
  }
  if (task.attempt > 0) {
    facts.Add("Promised", task.claim_mib > 0 ? base::FormatMib(task.claim_mib) + PerGpu(task)
                                             : "nothing: only what is seen counts");
  } else if (task.bound_mib && task.bound_mib != task.predicted_mib) {
    facts.Add("To promise", base::FormatMib(*task.bound_mib) + PerGpu(task));
  }
  std::string measured;
  if (task.observed_mib) measured = base::FormatMib(*task.observed_mib) + " now";
  if (task.peak_mib > 0) {
    measured += (measured.empty() ? "" : ", ") + base::FormatMib(task.peak_mib) + " at most";
  }
  if (measured.empty() && task.attempt > 0) measured = HasEnded(task) ? "nothing" : "nothing yet";
  facts.Add("Measured", measured);
}

void AddTimes(const TaskView& task, std::int64_t now_ms, Facts& facts) {
  facts.Add("Submitted", TimePoint(task.submitted_ms));
  if (task.first_start_ms) {
    facts.Add("Waited", SpanText(task.submitted_ms, *task.first_start_ms));
    facts.Add("First start", TimePoint(task.first_start_ms));
  } else if (!HasEnded(task)) {
    facts.Add("Waits since", SpanText(task.submitted_ms, now_ms));
  }
  facts.Add("Starts", StartBrief(task.latest_start_ms, task.likely_start_ms, now_ms));
  if (task.launched_ms && task.launched_ms != task.first_start_ms) {
    facts.Add("Last start", TimePoint(task.launched_ms));
  }
  if (task.ended_ms) facts.Add("Ended", TimePoint(task.ended_ms));
  if (task.launched_ms) facts.Add("Ran", TimeText(task, now_ms));
  if (task.time_limit_s) {
    facts.Add(
        "Time limit",
        base::FormatSpan(base::Duration(static_cast<std::int64_t>(*task.time_limit_s * 1000))));
  }
}

// How its processes share their GPUs, and what holds them back: "MPS, each process may take …".
std::string SharingText(const TaskView& task) {
  const auto method = base::FromWord<core::SharingMethod>(task.sharing);
  if (method == core::SharingMethod::kAlone) return "alone on its GPUs";
  if (method == core::SharingMethod::kStreams) return "time slices (streams), nothing is enforced";
  if (method == core::SharingMethod::kMig) {
    return "a MIG instance, whose memory and SMs the hardware enforces";
  }
  if (method != core::SharingMethod::kMps) return base::Printable(task.sharing, 40);
  std::vector<std::string> limits;
  if (task.memory_limit_mib > 0)
    limits.push_back(base::FormatMib(task.memory_limit_mib) + " of memory");
  if (task.thread_percent > 0)
    limits.push_back(std::to_string(task.thread_percent) + "% of the SMs");
  return limits.empty() ? "MPS, nothing is enforced"
                        : "MPS, each process may take " + base::Join(limits, " and ");
}

// Of the server, beside its GPUs.
void AddHost(const TaskView& task, Facts& facts) {
  if (task.cpus) {
    std::string text = std::to_string(*task.cpus);
    if (task.own_cpus) text += " of its own";
    if (!task.own_cores.empty()) text += " (" + base::Printable(task.own_cores, 400) + ")";
    facts.Add("CPUs", text);
  }
  if (task.host_memory_mib) facts.Add("Host memory", base::FormatMib(*task.host_memory_mib));
  facts.Add("Not enforced", base::Printable(task.host_note, 400));
}

std::string HostSentence(const api::HostVerdictView& host) {
  if (host.fit.empty() || (host.wants_cpus == 0 && host.wants_memory_mib == 0)) return "";
  std::vector<std::string> asked;
  if (host.wants_cpus > 0) {
    asked.push_back(host.cpus > 0 ? fmt::format("{} CPUs ({} of {} free)", host.wants_cpus,
                                                host.free_cpus, host.cpus)
                                  : fmt::format("{} CPUs, not counted", host.wants_cpus));
  }
  if (host.wants_memory_mib > 0) {
    const std::string wanted = base::FormatMib(host.wants_memory_mib);
    asked.push_back(host.memory_mib > 0 ? fmt::format("{} of memory ({} of {} free)", wanted,
                                                      base::FormatMib(host.free_memory_mib),
                                                      base::FormatMib(host.memory_mib))
                                        : fmt::format("{} of memory, not counted", wanted));
  }
  return "Of the server it wants " + base::Join(asked, " and ") + ".\n";
}

void AddSharing(const TaskView& task, std::int64_t now_ms, Facts& facts) {
  facts.Add("Sharing", SharingText(task));
  facts.Add(task.sharing.empty() ? "Sharing" : "", base::Printable(task.sharing_note, 400));
  if (task.sm_share) {
    const long percent = std::lround(*task.sm_share * 100);
    facts.Add("SMs asked", "at most " + std::to_string(percent) + "% of each GPU's");
  }
  if (task.max_slowdown) {
    facts.Add("Bears", fmt::format("{:g} times its run time alone", *task.max_slowdown));
  }
  if (HoldsGpus(task) && task.over_promise_mib) {
    facts.Add("Over promise", fmt::format("uses {} more than its promise and the margin",
                                          base::FormatMib(*task.over_promise_mib)));
  }
  if (HoldsGpus(task) && !task.wrong_gpus.empty()) {
    facts.Add("Wrong device", fmt::format("has processes on GPU {}, which it was not given: leave "
                                          "CUDA_VISIBLE_DEVICES as it is set",
                                          fmt::join(task.wrong_gpus, ", ")));
  }
  if (IsIdle(task)) {
    facts.Add("Idle", "has not used its GPUs since " + TimePoint(task.idle_since_ms) + " (" +
                          SpanText(*task.idle_since_ms, now_ms) + ")");
  }
}

void AddSlots(const TaskView& task, std::int64_t now_ms, Facts& facts) {
  if (!task.checkpoint_signal.empty())
    facts.Add("Saves by", base::Printable(task.checkpoint_signal, 20));
  if (task.no_slots) facts.Add("Slots", "excepted");
  if (task.checkpoints > 0)
    facts.Add("Checkpoints", fmt::format("went on from one {} time{}", task.checkpoints,
                                         task.checkpoints == 1 ? "" : "s"));
  if (HoldsGpus(task) && task.leaves_by_ms) {
    facts.Add("Leaves by", TimePoint(task.leaves_by_ms) + " (in " +
                               SpanText(now_ms, std::max(now_ms, *task.leaves_by_ms)) + ")");
  }
}

// "Memory: 5.4G predicted (structural), 6.5G to be promised." and what is doubtful about it.
std::string EstimateSentence(const TaskView& task) {
  std::string out;
  if (task.predicted_mib) {
    out = "Memory: " + base::FormatMib(*task.predicted_mib) + " predicted (" +
          Line(task.estimate_method) + ")";
    if (task.bound_mib && task.bound_mib != task.predicted_mib)
      out += ", " + base::FormatMib(*task.bound_mib) + " to be promised";
    out += ".\n";
  }
  for (const std::string& remark : task.estimate_remarks)
    out += (task.predicted_mib ? "  " : "Memory: ") + base::Printable(remark, 400) + "\n";
  return out;
}

// Of GPUs that stand alike.
std::string Verdict(const api::VerdictView& verdict, const std::vector<std::uint64_t>& gpus) {
  const std::string gpu =
      fmt::format("GPU{} {} ({}, {} in use{}) ", gpus.size() == 1 ? "" : "s", RangesText(gpus),
                  PromisedText(verdict.promised_mib, verdict.claimed_mib),
                  base::FormatMib(verdict.used_mib), gpus.size() == 1 ? "" : " each");
  const std::string why = verdict.reason_text.empty() ? verdict.reason : verdict.reason_text;
  const std::string because = why.empty() ? "." : ": " + base::Printable(why, 400);
  const auto fit = base::FromWord<core::Fit>(verdict.fit);
  if (fit == core::Fit::kFits) return gpu + "could take it" + because;
  if (fit == core::Fit::kNever) return gpu + "can never take it" + because;
  return gpu + "cannot take it now" + because;
}

// One sentence for those of which the same is to be said.
std::string Verdicts(const std::vector<api::VerdictView>& verdicts) {
  const auto said = [](const api::VerdictView& verdict) {
    return std::tie(verdict.fit, verdict.reason, verdict.reason_text, verdict.claimed_mib,
                    verdict.promised_mib, verdict.used_mib);
  };
  std::string out;
  for (auto verdict = verdicts.begin(); verdict != verdicts.end(); ++verdict) {
    const auto alike = [&](const auto& other) { return said(other) == said(*verdict); };
    if (std::any_of(verdicts.begin(), verdict, alike)) continue;
    std::vector<std::uint64_t> gpus;
    for (const api::VerdictView& other : verdicts) {
      if (alike(other)) gpus.push_back(static_cast<std::uint64_t>(other.gpu));
    }
    out += "  " + Verdict(*verdict, gpus) + "\n";
  }
  return out;
}

// Without their ends: a point before a blank and a capital letter.
std::vector<std::string_view> SentencesOf(std::string_view text) {
  std::vector<std::string_view> sentences;
  std::size_t from = 0;
  for (std::size_t i = 0; i + 2 < text.size(); ++i) {
    if (text.substr(i, 2) != ". " || text[i + 2] < 'A' || text[i + 2] > 'Z') continue;
    sentences.push_back(text.substr(from, i - from));
    from = i + 2;
  }
  if (text.ends_with('.')) text.remove_suffix(1);
  if (from < text.size()) sentences.push_back(text.substr(from));
  return sentences;
}

// A sentence about one GPU, in three parts.
struct AboutGpu {
  std::string_view before, number, after;
};
std::optional<AboutGpu> ParseAboutGpu(std::string_view sentence) {
  constexpr std::string_view kGpu = "GPU ";
  const std::size_t at = sentence.find(kGpu);
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t from = at + kGpu.size();
  const std::size_t end = std::min(sentence.find_first_not_of("0123456789", from), sentence.size());
  if (end == from) return std::nullopt;
  return AboutGpu{sentence.substr(0, from), sentence.substr(from, end - from),
                  sentence.substr(end)};
}

std::string Sentence(const std::string& reason, const std::string& text) {
  std::string out;
  if (!reason.empty()) out += " (" + base::Printable(reason, 40) + ")";
  if (!text.empty()) out += ": " + base::Printable(SaidOnce(text), 400);
  return out;
}

// How the attempt before this one ended is no news of the task as it is now.
const char* DetailTitle(const TaskView& task) {
  return HasEnded(task) ? "Detail" : "Last end";
}

std::string GpuOf(const api::EventView& event, const std::vector<api::GpuView>& gpus) {
  for (const api::GpuView& gpu : gpus) {
    if (gpu.uuid == event.gpu_uuid) return "GPU " + std::to_string(gpu.index);
  }
  return Line(event.gpu_uuid);  // one that is no more
}

std::string EventText(const api::EventView& event, const std::vector<api::GpuView>& gpus) {
  if (event.gpu_uuid.empty() && event.text.empty()) return "-";
  if (event.text.empty()) return GpuOf(event, gpus);
  const std::string text = base::Printable(event.text, 600);  // what is to follow stands at its end
  return event.task || event.gpu_uuid.empty() ? text : GpuOf(event, gpus) + ": " + text;
}

}  // namespace

bool HoldsGpus(const TaskView& task) {
  const auto state = StateOf(task);
  return state && core::HoldsGpus(*state);
}

std::string StateCode(const TaskView& task) {
  const auto state = StateOf(task);
  return state ? std::string(core::TaskStateCode(*state)) : base::Printable(task.state, 20);
}

Colour StateColour(const TaskView& task) {
  const auto state = StateOf(task);
  if (!state) return Colour::kNone;
  if (HoldsGpus(task)) return Colour::kGood;
  if (!core::IsFinal(*state)) return Colour::kWaiting;
  if (*state == core::TaskState::kSucceeded || *state == core::TaskState::kCancelled) {
    return Colour::kFaint;
  }
  return Colour::kBad;
}

bool HasEnded(const TaskView& task) {
  const auto state = StateOf(task);
  return state && core::IsFinal(*state);
}

base::Result<std::vector<std::string>> ParseColumns(const std::string& keys) {
  std::vector<std::string> columns;
  const std::string wanted_keys = keys.empty() ? kUsualColumns : keys;
  for (std::string_view key : base::Split(wanted_keys, ',')) {
    const std::string wanted = base::ToLower(base::Trim(key));
    if (!FindColumn(wanted)) {
      return base::Fail(base::ErrorCode::kInvalid, "column '" + base::Printable(key, 40) +
                                                       "': expected some of " +
                                                       base::Join(ColumnKeys(), ","));
    }
    columns.push_back(wanted);
  }
  return columns;
}

std::vector<std::string> ColumnKeys() {
  std::vector<std::string> keys;
  for (const ListColumn& column : ListColumns()) keys.emplace_back(column.key);
  return keys;
}

std::string ColumnHelp() {
  std::string help;
  for (const ListColumn& column : ListColumns()) {
    help += "  " + std::string(column.key);
    help.append(12 - std::strlen(column.key), ' ');
    help += std::string(column.meaning) + "\n";
  }
  return help;
}

std::string TaskTable(const std::vector<TaskView>& tasks, const ListStyle& style,
                      const Screen& screen) {
  std::vector<const ListColumn*> chosen;
  std::vector<Column> columns;
  for (const std::string& key : style.columns) {
    chosen.push_back(FindColumn(key));
    columns.push_back(chosen.back()->column);
  }
  Table table(std::move(columns));
  for (const TaskView& task : tasks) {
    std::vector<Cell> row;
    for (const ListColumn* column : chosen) {
      const auto folded = style.ids.find(task.id);
      const bool is_id = folded != style.ids.end() && std::string_view(column->key) == "id";
      row.push_back({is_id ? folded->second : column->text(task, style.now_ms),
                     column->colour != nullptr ? column->colour(task) : Colour::kNone});
    }
    table.Add(std::move(row));
  }
  return table.Text(screen, style.titles);
}

void SortAsQueue(std::vector<TaskView>& tasks) {
  const auto rank = [](const TaskView& task) {
    const bool runs = HoldsGpus(task);
    const bool recovers = base::FromWord<core::QueueKind>(task.queue) == core::QueueKind::kRecovery;
    return std::make_tuple(HasEnded(task) ? 2
                           : runs         ? 0
                                          : 1,
                           runs ? task.launched_ms.value_or(0) : 0, !runs && !recovers,
                           runs ? 0 : -task.priority, task.id);
  };
  std::stable_sort(tasks.begin(), tasks.end(),
                   [&](const TaskView& a, const TaskView& b) { return rank(a) < rank(b); });
}

std::string SaidOnce(std::string_view text) {
  const std::vector<std::string_view> sentences = SentencesOf(text);
  std::vector<bool> said(sentences.size(), false);
  std::string out;
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    if (said[i]) continue;
    const std::optional<AboutGpu> first = ParseAboutGpu(sentences[i]);
    std::vector<std::uint64_t> others;
    for (std::size_t k = i + 1; first && k < sentences.size(); ++k) {
      const std::optional<AboutGpu> other = ParseAboutGpu(sentences[k]);
      if (!other || other->before != first->before || other->after != first->after) continue;
      others.push_back(static_cast<std::uint64_t>(base::ParseInt(other->number).value_or(0)));
      said[k] = true;
    }
    out += (out.empty() ? "" : " ") + std::string(sentences[i]);
    if (!others.empty())
      out += fmt::format(" (GPU{} {} alike)", others.size() == 1 ? "" : "s", RangesText(others));
    // What was no whole sentence stays none.
    if (i + 1 < sentences.size() || text.ends_with('.') || !others.empty()) out += ".";
  }
  return out;
}

std::string TaskFacts(const TaskView& task, std::int64_t now_ms) {
  Facts facts;
  facts.Add("State", Line(task.state) + Sentence(task.reason, task.reason_text));
  if (HasEnded(task)) facts.Add("End", EndText(task));
  facts.Add(DetailTitle(task),
            task.exit_detail.empty() ? "" : base::Printable(task.exit_detail, 400));
  facts.Add("User", Line(task.user) + " (" + std::to_string(task.uid) + ")");
  facts.Add("Command", CommandText(task));
  facts.Add("Folder", Line(task.workdir));
  const std::string indices = GpuIndices(task);
  const std::string wanted = task.gpus == 0 ? "none" : std::to_string(task.gpus);
  facts.Add("GPUs", wanted + ChoiceText(task) + (task.exclusive ? ", exclusive" : "") +
                        (indices.empty() ? "" : ": " + indices));
  facts.Add("Why there",
            task.placement_reason.empty() ? "" : base::Printable(task.placement_reason, 400));
  AddSharing(task, now_ms, facts);
  AddSlots(task, now_ms, facts);
  AddMemory(task, facts);
  AddHost(task, facts);
  facts.Add("Queue", Line(task.queue) + ", priority " + std::to_string(task.priority));
  if (task.attempt > 0) {
    facts.Add("Attempts", std::to_string(task.attempt) +
                              (task.ooms > 0 ? ", out of GPU memory " + std::to_string(task.ooms) +
                                                   (task.ooms == 1 ? " time" : " times")
                                             : ""));
  }
  AddTimes(task, now_ms, facts);
  if (task.array_id) {
    facts.Add("Array",
              std::to_string(*task.array_id) +
                  (task.array_index ? ", index " + std::to_string(*task.array_index) : ""));
  }
  if (task.pid) facts.Add("Process", std::to_string(*task.pid));
  facts.Add("Output", task.stdout_path.empty() ? "" : base::Printable(task.stdout_path, 4096));
  const bool apart = !task.stderr_path.empty() && task.stderr_path != task.stdout_path;
  facts.Add("Errors", apart ? base::Printable(task.stderr_path, 4096) : "");
  facts.Add("Account", base::Printable(task.account, 64));
  facts.Add("Class", base::Printable(task.qos, 64));
  if (task.origin == "lease") facts.Add("Origin", "lease: its process is not started by carmad");
  if (task.origin == "slurm") facts.Add("Origin", "lease: its process is started by Slurm");
  facts.Add("Comment", task.comment.empty() ? "" : base::Printable(task.comment, 4096));
  facts.Add("Waits for", base::Printable(base::Join(task.dependencies, ", "), 4096));
  facts.Add("Not before", task.begin_ms ? base::FormatTime(base::FromMs(*task.begin_ms)) : "");
  facts.Add("Parameters", ParametersText(task));
  for (const std::string& rule : task.notify) facts.Add("Tells", base::Printable(rule, 400));
  for (const api::NoticeView& notice : task.notices) facts.Add("Told", NoticeText(notice));
  return "Task " + std::to_string(task.id) + " " + Line(task.name) + "\n" + facts.text();
}

namespace {

// By its owner's wish, or for other tasks: its place in the queue says nothing.
bool WaitsForNoGpu(const TaskView& task) {
  return task.reason == "Held" || task.reason == "BeginTime" || task.reason == "Dependency" ||
         task.reason == "DependencyNeverMet";
}

}  // namespace

std::string Explanation(const api::ExplainView& explain) {
  const TaskView& task = explain.task;
  std::string out = "Task " + std::to_string(task.id) + " " + Line(task.name) + " ";
  if (HasEnded(task)) {
    out += EndText(task) + Sentence(task.reason, task.reason_text) + "\n";
  } else if (HoldsGpus(task)) {
    const std::string indices = GpuIndices(task);
    out += "is " + Line(task.state);
    if (!indices.empty()) out += (task.gpu_indices.size() > 1 ? " on GPUs " : " on GPU ") + indices;
    out += ".\n";
  } else {
    out += "waits" + Sentence(task.reason, task.reason_text) + "\n";
    if (WaitsForNoGpu(task)) {
      out += explain.gpus.empty() ? "" : "Apart from that:\n";
    } else if (explain.ahead) {
      out += *explain.ahead == 0 ? "It is the first of its queue.\n"
                                 : std::to_string(*explain.ahead) +
                                       (*explain.ahead == 1 ? " task is" : " tasks are") +
                                       " before it in the " + Line(task.queue) + " queue.\n";
    }
    out += HostSentence(explain.host);
    out += StartSentences(task.latest_start_ms, task.likely_start_ms, explain.now_ms);
    out += Verdicts(explain.gpus);
  }
  if (!task.placement_reason.empty()) {
    out += "Why there: " + base::Printable(task.placement_reason, 400) + "\n";
  }
  if (!task.exit_detail.empty()) {
    out += std::string(DetailTitle(task)) + ": " + base::Printable(task.exit_detail, 400) + "\n";
  }
  out += EstimateSentence(task);
  if (explain.taught_mib) {
    out += "Tasks of its kind have shown to need " + base::FormatMib(*explain.taught_mib) +
           ", which it asks for.\n";
  }
  if (!explain.policy.empty()) out += "Rules: " + base::Printable(explain.policy, 400) + "\n";
  if (!explain.collocation.empty()) {
    out += "Sharing: " + base::Printable(explain.collocation, 400) + "\n";
  }
  if (!task.sharing.empty()) out += "This task: " + SharingText(task) + ".\n";
  if (!task.sharing_note.empty()) out += "  " + base::Printable(task.sharing_note, 400) + "\n";
  if (IsIdle(task))
    out += "It has not used its GPUs since " + TimePoint(task.idle_since_ms) + ".\n";
  return out;
}

std::string EventLines(const std::vector<api::EventView>& events,
                       const std::vector<api::GpuView>& gpus, const Screen& screen) {
  Table table({{"TIME"}, {"TASK", true}, {"EVENT"}, {"WHAT"}});
  for (const api::EventView& event : events) {
    table.Add({{base::FormatTime(base::FromMs(event.when_ms))},
               {event.task ? std::to_string(*event.task) : "-"},
               {Line(event.what)},
               {EventText(event, gpus)}});
  }
  // The last column goes on below itself.
  const std::string text = table.Text({});
  return WrapTo(text, screen, text.find("WHAT"));
}

std::string EndText(const TaskView& task) {
  std::string text = base::Printable(task.state, 40);
  std::replace(text.begin(), text.end(), '_', ' ');
  if (task.signal && *task.signal != 0) {
    const char* name = ::strsignal(*task.signal);
    return text + ", ended by signal " + std::to_string(*task.signal) +
           (name ? " (" + std::string(name) + ")" : "");
  }
  if (task.exit_code && StateOf(task) != core::TaskState::kSucceeded) {
    return text + " with exit code " + std::to_string(*task.exit_code);
  }
  return text;
}

int ExitCodeOf(const TaskView& task) {
  if (StateOf(task) == core::TaskState::kSucceeded) return 0;
  if (task.signal && *task.signal > 0) return 128 + (*task.signal & 127);
  if (task.exit_code && *task.exit_code != 0) return *task.exit_code & 255;
  return 1;
}

}  // namespace carma::cli
