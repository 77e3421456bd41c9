#include "report/html_parts.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "report/lines.h"
#include "report/svg.h"
#include "report/tally.h"

namespace carma::report {
namespace {

using base::Seconds;

struct Waits {
  double first_s = 0;       // until the first start
  double after_oom_s = 0;   // from running out of memory until the next start
  double after_stop_s = 0;  // after a preemption, the end of a time slice, or a requeue
  double after_fault_s = 0;
  double AllS() const { return first_s + after_oom_s + after_stop_s + after_fault_s; }
};

// The waiting times of tasks that have ended.
Waits WaitsOf(const RunRecord& run) {
  Waits waits;
  for (const RunTask& task : run.tasks) {
    if (!task.ended) continue;
    core::Time from = task.submitted;
    double* into = &waits.first_s;
    for (const Attempt& attempt : task.attempts) {
      *into += std::max(0.0, Seconds(attempt.started - from));
      from = attempt.WaitsFrom();
      into = attempt.end == AttemptEnd::kOutOfMemory ? &waits.after_oom_s
             : attempt.end == AttemptEnd::kFailed    ? &waits.after_fault_s
                                                     : &waits.after_stop_s;
    }
    if (task.attempts.empty()) *into += std::max(0.0, Seconds(*task.ended - from));
  }
  return waits;
}

// "12.0 / 13.1 GiB": promised and measured memory; empty if nothing was predicted.
std::string MemoryText(const RunTask& task) {
  for (const Forecast& each : task.forecasts) {
    if (each.what != "memory_mib") continue;
    return fmt::format("{:.1f} / {:.1f} GiB", each.promised.value_or(each.predicted) / 1024,
                       each.seen / 1024);
  }
  return "";
}

}  // namespace

void PutWaits(std::string& out, const Recorded& cases) {
  std::string rows;
  for (const auto& [label, records] : cases) {
    const Waits waits = WaitsOf(*records.front());
    if (waits.AllS() <= 0) continue;
    const auto cell = [&](double s) {
      return fmt::format("<td>{:.1f} h<small>{:.0f} %</small></td>", s / 3600,
                         s / waits.AllS() * 100);
    };
    Put(rows, "<tr><td class=\"run\">{}</td>{}{}{}{}<td>{:.1f} h</td></tr>\n",
        Escape(NameOf(label), 60), cell(waits.first_s), cell(waits.after_oom_s),
        cell(waits.after_stop_s), cell(waits.after_fault_s), waits.AllS() / 3600);
  }
  PutTable(out, "What tasks waited for",
           {"run", "first start", "restart after out of memory", "restart after a stop",
            "restart after a fault", "all tasks"},
           rows);
}

void PutLineWaits(std::string& out, const Recorded& cases) {
  std::string rows;
  for (const auto& [label, records] : cases) {
    std::vector<std::pair<double, std::string>> waits;
    double all_s = 0;
    for (const auto& [reason, waited_s] : records.front()->line_waits_s) {
      waits.emplace_back(waited_s, reason);
      all_s += waited_s;
    }
    if (all_s <= 0) continue;
    std::ranges::sort(waits, std::greater());
    for (const auto& [waited_s, reason] : waits) {
      Put(rows, "<tr><td class=\"run\">{}</td><td>{}</td><td>{}<small>{:.0f} %</small></td></tr>\n",
          Escape(NameOf(label), 60), Escape(reason, 40), SpanText(waited_s),
          waited_s / all_s * 100);
    }
  }
  PutTable(out, "What the head of the queue waited for", {"run", "reason", "for"}, rows);
}

void PutFailures(std::string& out, const Recorded& cases) {
  constexpr std::size_t kMostRows = 100;
  std::string rows;
  std::size_t count = 0;
  for (const auto& [label, records] : cases) {
    for (const RunTask& task : records.front()->tasks) {
      if (!core::IsFinal(task.state) || task.state == core::TaskState::kSucceeded) continue;
      if (++count > kMostRows) continue;
      const TaskOutcome outcome = OutcomeOf(task);
      const double ran_s = outcome.executed ? Seconds(*outcome.executed) : 0;
      const double waited_s = task.ended ? Seconds(outcome.Whole()) - ran_s : 0;
      Put(rows,
          "<tr><td>{} {}</td><td "
          "class=\"run\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
          "<td>{}</td><td class=\"words\">{}</td></tr>\n",
          task.id, Escape(task.name, 60), Escape(NameOf(label), 60), Escape(task.user, 60),
          core::TaskStateName(task.state), task.attempts.size(), SpanText(waited_s),
          SpanText(ran_s), MemoryText(task), Escape(task.reason, 300));
    }
  }
  PutTable(out, "Tasks that did not succeed",
           {"task", "run", "user", "state", "starts", "waited", "ran",
            "memory, promised / measured", "why"},
           rows,
           count > kMostRows ? fmt::format("<p>Only {} of {} rows are shown.</p>", kMostRows, count)
                             : "");
}

}  // namespace carma::report
