#include "cli/client/task_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "cli/client/task_words.h"
#include "cli/table.h"
#include "core/values/sharing.h"
#include "core/values/task_state.h"

namespace carma::cli {
namespace {

using api::TaskView;

// Describes a notice: "end to me: sent", "fail to https://h/…: waiting, 2 tries: …".
std::string NoticeText(const api::NoticeView& notice) {
  std::string text = fmt::format("{} to {}: {}", notice.event, notice.target, notice.state);
  if (notice.tries > 1) text += fmt::format(", {} tries", notice.tries);
  if (!notice.text.empty()) text += ": " + notice.text;
  return base::Printable(text, 600);
}

// Describes which GPUs the task requests: " of a100, with at least 40.0G, only 2 or 3, not 0,
// linked".
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

std::string PerGpu(const TaskView& task) {
  return task.gpus > 1 ? " on each of its GPUs" : "";
}

std::string PromiseText(const TaskView& task) {
  if (task.claim_mib == 0) return "nothing; only measured memory counts";
  const std::string most = base::FormatMib(task.claim_mib);
  if (!task.others_claim_mib) return most + PerGpu(task);
  return fmt::format("{} on its first GPU, {} on {}", most, base::FormatMib(*task.others_claim_mib),
                     task.gpus == 2 ? "the other" : "the others");
}

// Explains why there is no estimate, as far as the server's response allows.
std::string NoEstimate(const TaskView& task) {
  if (!task.estimate_remarks.empty()) return "nothing";
  const auto state = StateOf(task);
  if (state == core::TaskState::kSubmitted || state == core::TaskState::kEstimating)
    return "nothing yet";
  return "nothing: no estimate";
}

void AddMemory(const TaskView& task, Facts& facts) {
  if (task.gpus == 0) return;  // no GPU memory is promised to it
  facts.Add("Predicted", task.predicted_mib ? base::FormatMib(*task.predicted_mib) + PerGpu(task) +
                                                  " (" + Line(task.estimate_method) + ")"
                                            : NoEstimate(task));
  for (const std::string& remark : task.estimate_remarks)
    facts.Add("", base::Printable(remark, 400));
  const bool waits = !HasEnded(task) && !HoldsGpus(task);  // nothing is promised to it at present
  if (task.attempt > 0 && !waits) {
    facts.Add("Promised", PromiseText(task));
  } else if (task.bound_mib && task.bound_mib != task.predicted_mib) {
    facts.Add("At most", base::FormatMib(*task.bound_mib) + PerGpu(task));
  }
  std::string measured;
  if (task.observed_mib) measured = base::FormatMib(*task.observed_mib) + " now";
  if (task.peak_mib > 0)
    measured += (measured.empty() ? "" : ", ") + base::FormatMib(task.peak_mib) + " at most";
  if (measured.empty() && task.attempt > 0) measured = HasEnded(task) ? "nothing" : "nothing yet";
  facts.Add("Measured", measured);
}

void AddTimes(const TaskView& task, std::int64_t now_ms, Facts& facts) {
  facts.Add("Submitted", TimePoint(task.submitted_ms));
  if (task.first_start_ms) {
    facts.Add("First wait", SpanText(task.submitted_ms, *task.first_start_ms));
    facts.Add("First start", TimePoint(task.first_start_ms));
  }
  if (task.waiting_since_ms) facts.Add("Waiting", SpanText(*task.waiting_since_ms, now_ms));
  facts.Add("Starts", StartBrief(task.latest_start_ms, task.likely_start_ms, now_ms));
  if (task.launched_ms && task.launched_ms != task.first_start_ms)
    facts.Add("Last start", TimePoint(task.launched_ms));
  if (task.ended_ms) facts.Add("Ended", TimePoint(task.ended_ms));
  if (task.launched_ms) facts.Add("Ran", TimeText(task, now_ms));
  if (task.time_limit_s)
    facts.Add("Time limit", SpanText(0, static_cast<std::int64_t>(*task.time_limit_s * 1000)));
}

// Describes how the task's processes share their GPUs, and with which limits: "MPS, each process
// may use …".
std::string MethodText(const TaskView& task) {
  const auto method = base::FromWord<core::SharingMethod>(task.sharing);
  if (method == core::SharingMethod::kAlone) return "alone on its GPUs";
  const bool limited = task.group_limit_mib > 0;
  if (method == core::SharingMethod::kStreams)
    return limited ? "streams (kernels take turns)"
                   : "streams (kernels take turns), no limits enforced";
  if (method == core::SharingMethod::kMig)
    return "a MIG instance; the hardware enforces its memory and SM limits";
  if (method != core::SharingMethod::kMps) return base::Printable(task.sharing, 40);
  std::vector<std::string> limits;
  if (task.memory_limit_mib > 0)
    limits.push_back(base::FormatMib(task.memory_limit_mib) + " of memory");
  if (task.thread_percent > 0)
    limits.push_back(std::to_string(task.thread_percent) + "% of the SMs");
  const std::string own =
      task.partition_sms > 0 ? fmt::format("MPS, {} dedicated SMs", task.partition_sms) : "MPS";
  if (!limits.empty()) return own + ", each process may use " + base::Join(limits, " and ");
  return limited || task.partition_sms > 0 ? own : own + ", no limits enforced";
}

std::string SharingText(const TaskView& task) {
  std::string text = MethodText(task);
  if (task.group_limit_mib > 0) {
    text += fmt::format("; the kernel limits its processes to a total of {} on each GPU",
                        base::FormatMib(task.group_limit_mib));
  }
  return text;
}

// Adds the cores and memory that the task is promised.
void AddHost(const TaskView& task, Facts& facts) {
  if (task.cpus) {
    std::string text = std::to_string(*task.cpus);
    if (task.own_cpus) text += " dedicated";
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
    const char* const cpus = host.wants_cpus == 1 ? "CPU" : "CPUs";
    asked.push_back(host.cpus > 0 ? fmt::format("{} {} ({} of {} free)", host.wants_cpus, cpus,
                                                host.free_cpus, host.cpus)
                                  : fmt::format("{} {} (not counted)", host.wants_cpus, cpus));
  }
  if (host.wants_memory_mib > 0) {
    const std::string wanted = base::FormatMib(host.wants_memory_mib);
    asked.push_back(host.memory_mib > 0 ? fmt::format("{} of memory ({} of {} free)", wanted,
                                                      base::FormatMib(host.free_memory_mib),
                                                      base::FormatMib(host.memory_mib))
                                        : fmt::format("{} of memory (not counted)", wanted));
  }
  return "It also needs " + base::Join(asked, " and ") + ".\n";
}

// "uses 3.0G more than its promise plus the margin", for tasks that hold GPUs. Empty if the task
// stays within this limit.
std::string OverPromiseText(const TaskView& task) {
  if (!HoldsGpus(task) || !task.over_promise_mib) return "";
  return fmt::format("uses {} more than its promise plus the margin",
                     base::FormatMib(*task.over_promise_mib));
}

std::string WrongDeviceText(const TaskView& task) {
  if (!HoldsGpus(task) || task.wrong_gpus.empty()) return "";
  return fmt::format(
      "has processes on GPU {} outside its assignment; do not change CUDA_VISIBLE_DEVICES",
      fmt::join(task.wrong_gpus, ", "));
}

// Returns an empty string if the task is not latency-sensitive.
std::string ServesText(const TaskView& task) {
  if (!task.serve) return "";
  const auto method = base::FromWord<core::SharingMethod>(task.sharing);
  const bool other = HoldsGpus(task) && method != core::SharingMethod::kMps;
  return other ? "latency-sensitive, but without MPS its kernels have no priority"
               : "latency-sensitive: under MPS its kernels run before those of the user's other "
                 "tasks";
}

void AddSharing(const TaskView& task, std::int64_t now_ms, Facts& facts) {
  facts.Add("Sharing", SharingText(task));
  facts.Add(task.sharing.empty() ? "Sharing" : "", base::Printable(task.sharing_note, 400));
  if (task.sm_share)
    facts.Add("SM limit",
              fmt::format("at most {}% of each GPU's SMs", std::lround(*task.sm_share * 100)));
  if (task.max_slowdown)
    facts.Add("Slowdown", fmt::format("at most {:g} times its run time when running alone",
                                      *task.max_slowdown));
  facts.Add("Serves", ServesText(task));
  facts.Add("Over promise", OverPromiseText(task));
  facts.Add("Wrong device", WrongDeviceText(task));
  if (IsIdle(task)) {
    facts.Add("Idle", "has not used its GPUs since " + TimePoint(task.idle_since_ms) + " (" +
                          SpanText(*task.idle_since_ms, now_ms) + ")");
  }
}

void AddSlots(const TaskView& task, std::int64_t now_ms, Facts& facts) {
  if (!task.checkpoint_signal.empty())
    facts.Add("Save signal", base::Printable(task.checkpoint_signal, 20));
  if (task.no_slots) facts.Add("Time slices", "exempt");
  if (task.checkpoints > 0)
    facts.Add("Checkpoints",
              "saved one and left its GPUs " + base::Counted(task.checkpoints, "time"));
  const auto in = [now_ms](std::int64_t ms) { return SpanText(now_ms, std::max(now_ms, ms)); };
  if (HoldsGpus(task) && task.leaves_by_ms) {
    facts.Add("Leaves by", TimePoint(task.leaves_by_ms) + " (in " + in(*task.leaves_by_ms) + ")");
  } else if (task.turn_ends_ms && *task.turn_ends_ms > now_ms) {
    facts.Add("Slice ends", fmt::format("{} (in {}), if another task is waiting for its GPUs",
                                        TimePoint(task.turn_ends_ms), in(*task.turn_ends_ms)));
  } else if (task.turn_ends_ms) {
    facts.Add("Slice ends", "as soon as another task is waiting for its GPUs");
  }
}

// "Memory: 5.4G predicted (structural), 6.5G at most." followed by remarks on the estimate.
std::string EstimateSentence(const TaskView& task) {
  std::string out;
  if (task.predicted_mib) {
    out = "Memory: " + base::FormatMib(*task.predicted_mib) + " predicted (" +
          Line(task.estimate_method) + ")";
    if (task.bound_mib && task.bound_mib != task.predicted_mib)
      out += ", " + base::FormatMib(*task.bound_mib) + " at most";
    out += ".\n";
  }
  for (const std::string& remark : task.estimate_remarks)
    out += (task.predicted_mib ? "  " : "Memory: ") + base::Printable(remark, 400) + "\n";
  return out;
}

std::string Sentence(const std::string& reason, const std::string& text) {
  std::string out;
  if (!reason.empty()) out += " (" + base::Printable(reason, 40) + ")";
  if (!text.empty()) out += ": " + base::Printable(base::LocalTimes(text), 1000);
  return out;
}

// The label for the task's exit detail. While the task waits or runs, the detail describes how its
// previous attempt ended.
const char* DetailTitle(const TaskView& task) {
  return HasEnded(task) ? "Detail" : "Last end";
}

std::string GpuOf(const api::EventView& event, const std::vector<api::GpuView>& gpus) {
  for (const api::GpuView& gpu : gpus) {
    if (gpu.uuid == event.gpu_uuid) return "GPU " + std::to_string(gpu.index);
  }
  return Line(event.gpu_uuid);  // a GPU that no longer exists
}

std::string EventText(const api::EventView& event, const std::vector<api::GpuView>& gpus) {
  if (event.gpu_uuid.empty() && event.text.empty()) return "-";
  if (event.text.empty()) return GpuOf(event, gpus);
  const std::string text =
      base::Printable(base::LocalTimes(event.text), 600);  // long enough for the advice at the end
  return event.task || event.gpu_uuid.empty() ? text : GpuOf(event, gpus) + ": " + text;
}

// True if the task is waiting for its owner, its begin time or other tasks, not for GPUs, so its
// queue position is meaningless.
bool WaitsForNoGpu(const TaskView& task) {
  return task.reason == "Held" || task.reason == "BeginTime" || task.reason == "Dependency" ||
         task.reason == "DependencyNeverMet";
}

// True if the task is waiting because of the server's scheduling rules, which `carma status` shows.
bool DependsOnRules(const TaskView& task) {
  return !HasEnded(task) && (task.reason == "Priority" || task.reason == "FairShare" ||
                             task.reason == "Rule" || task.reason == "SmBusy");
}

}  // namespace

std::string TaskFacts(const TaskView& task, std::int64_t now_ms) {
  Facts facts;
  facts.Add("State", Line(task.state) + Sentence(task.reason, task.reason_text));
  if (HasEnded(task)) facts.Add("End", EndText(task));
  facts.Add(DetailTitle(task), base::Printable(task.exit_detail, 400));
  facts.Add("User", Line(task.user) + " (" + std::to_string(task.uid) + ")");
  facts.Add("Command", CommandText(task));
  facts.Add("Folder", Line(task.workdir));
  const std::string indices = GpuIndices(task);
  const std::string wanted = task.gpus == 0 ? "none" : std::to_string(task.gpus);
  facts.Add("GPUs", wanted + ChoiceText(task) + (task.exclusive ? ", exclusive" : "") +
                        (indices.empty() ? "" : ": " + indices));
  facts.Add("Why there", base::Printable(task.placement_reason, 400));
  AddSharing(task, now_ms, facts);
  AddSlots(task, now_ms, facts);
  AddMemory(task, facts);
  AddHost(task, facts);
  facts.Add("Queue", Line(task.queue) + ", priority " + std::to_string(task.priority));
  if (task.attempt > 0) {
    const std::string ooms =
        task.ooms > 0 ? ", ran out of GPU memory " + base::Counted(task.ooms, "time") : "";
    facts.Add("Attempts", std::to_string(task.attempt) + ooms);
  }
  AddTimes(task, now_ms, facts);
  if (task.progress) facts.Add("Progress", ProgressSentence(*task.progress, now_ms));
  if (task.progress && task.progress->stalled)
    facts.Add("Stalled", "no progress since " + TimePoint(task.progress->changed_ms) + " (" +
                             SpanText(task.progress->changed_ms, now_ms) + ")");
  if (task.array_id)
    facts.Add("Array", task.array_index
                           ? fmt::format("{}, index {}", *task.array_id, *task.array_index)
                           : std::to_string(*task.array_id));
  if (task.pid) facts.Add("Process", std::to_string(*task.pid));
  facts.Add("Output", task.stdout_path == "/dev/null" ? "not captured by CARMA"
                                                      : base::Printable(task.stdout_path, 4096));
  const bool apart = !task.stderr_path.empty() && task.stderr_path != task.stdout_path;
  facts.Add("Errors", apart ? base::Printable(task.stderr_path, 4096) : "");
  facts.Add("Account", base::Printable(task.account, 64));
  facts.Add("Class", base::Printable(task.qos, 64));
  if (task.origin == "lease") facts.Add("Origin", "lease: carmad did not start its process");
  if (task.origin == "slurm") facts.Add("Origin", "lease: Slurm started its process");
  facts.Add("Container", base::Printable(task.container, 4096));
  facts.Add("Comment", task.comment.empty() ? "" : base::Printable(task.comment, 4096));
  facts.Add("Waits for", base::Printable(base::Join(task.dependencies, ", "), 4096));
  facts.Add("Not before", task.begin_ms ? base::FormatTime(base::FromMs(*task.begin_ms)) : "");
  if (!task.parameters.empty()) facts.Add("Parameters", ParametersText(task));
  for (const std::string& rule : task.notify) facts.Add("Notifies", base::Printable(rule, 400));
  for (const api::NoticeView& notice : task.notices) facts.Add("Notified", NoticeText(notice));
  return "Task " + std::to_string(task.id) + " " + Line(task.name) + "\n" + facts.text();
}

std::string Explanation(const api::ExplainView& explain) {
  const TaskView& task = explain.task;
  std::string out;
  if (!explain.store_trouble.empty() && !HasEnded(task)) {
    out = "carmad cannot write to its database (" + base::Printable(explain.store_trouble, 400) +
          "): no tasks start, and the following has not taken effect yet.\n";
  }
  out += "Task " + std::to_string(task.id) + " " + Line(task.name) + " ";
  if (HasEnded(task)) {
    out += EndText(task) + Sentence(task.reason, task.reason_text) + "\n";
  } else if (HoldsGpus(task)) {
    const std::string indices = GpuIndices(task);
    out += "is " + Line(task.state);
    if (!indices.empty()) out += (task.gpu_indices.size() > 1 ? " on GPUs " : " on GPU ") + indices;
    out += (task.reason.empty() ? "." : Sentence(task.reason, task.reason_text)) + "\n";
  } else {
    out += "waits" + Sentence(task.reason, task.reason_text) + "\n";
    if (WaitsForNoGpu(task)) {
      out += explain.gpus.empty() ? "" : "Apart from that:\n";
    } else if (explain.ahead && task.reason != "Limit") {  // a limited task may be overtaken
      out += *explain.ahead == 0
                 ? "It is first in its queue.\n"
                 : fmt::format("{} {} ahead of it in the {} queue.\n",
                               base::Counted(*explain.ahead, "task"),
                               *explain.ahead == 1 ? "is" : "are", Line(task.queue));
    }
    out += HostSentence(explain.host);
    out += StartSentences(task.latest_start_ms, task.likely_start_ms, explain.now_ms);
    out += VerdictsText(explain.gpus);
  }
  if (!task.placement_reason.empty())
    out += "Why there: " + base::Printable(task.placement_reason, 400) + "\n";
  // Omits the detail if the reason for the failure already includes it.
  if (!task.exit_detail.empty() && task.reason_text.find(task.exit_detail) == std::string::npos)
    out += std::string(DetailTitle(task)) + ": " + base::Printable(task.exit_detail, 400) + "\n";
  out += EstimateSentence(task);
  if (explain.taught_mib) {
    out += "It requests " + base::FormatMib(*explain.taught_mib) +
           ", the amount that similar tasks have needed.\n";
  }
  if (DependsOnRules(task) && !explain.policy.empty())
    out += "Rules: " + base::Printable(explain.policy, 400) + "\n";
  if (!task.sharing.empty()) out += "This task: " + SharingText(task) + ".\n";
  if (!task.sharing_note.empty()) out += "  " + base::Printable(task.sharing_note, 400) + "\n";
  for (const std::string& marked : {OverPromiseText(task), WrongDeviceText(task)}) {
    if (!marked.empty()) out += "It " + marked + ".\n";
  }
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
  // Continuation lines of a long text start below the heading of the last column.
  const std::string text = table.Text({});
  return WrapTo(text, screen, text.find("WHAT"));
}

}  // namespace carma::cli
