// Tasks as people read them: rows of a table, all facts of one, why it waits, what happened.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/views.h"
#include "base/result.h"
#include "cli/terminal.h"

namespace carma::cli {

// Columns of `carma list` by key, "id,name,st"; empty: the usual ones. Errors: kInvalid with the
// list of known keys.
base::Result<std::vector<std::string>> ParseColumns(const std::string& keys);
// "id", "name" …: what ParseColumns takes.
std::vector<std::string> ColumnKeys();
// "id  number of the task" … one line per column, for --help.
std::string ColumnHelp();

// Sentences that differ by the number of the GPU alone are one, with the others behind it.
std::string SaidOnce(std::string_view sentences);

struct ListStyle {
  std::vector<std::string> columns;  // from ParseColumns
  bool titles = true;
  std::int64_t now_ms = 0;                        // the daemon's clock
  std::map<std::uint64_t, std::string> ids = {};  // shown in place of a number (FoldArrays)
};
std::string TaskTable(const std::vector<api::TaskView>& tasks, const ListStyle& style,
                      const Screen& screen);
// As they will be served: running ones by start, then the recovery queue, then by priority and
// number.
void SortAsQueue(std::vector<api::TaskView>& tasks);

// Every fact, predicted, promised and measured memory apart.
std::string TaskFacts(const api::TaskView& task, std::int64_t now_ms);
// In sentences, one per GPU for a waiting task.
std::string Explanation(const api::ExplainView& explain);
// gpus: to name those of events by their numbers.
std::string EventLines(const std::vector<api::EventView>& events,
                       const std::vector<api::GpuView>& gpus, const Screen& screen = {});

// "succeeded", "failed with exit code 3", "ended by signal 9 (Killed)", "cancelled" …
std::string EndText(const api::TaskView& task);
// What a program that waited for the task should exit with: 0 if it succeeded, its own code,
// 128 + signal, and 1 for one that ended otherwise.
int ExitCodeOf(const api::TaskView& task);
bool HasEnded(const api::TaskView& task);
// A process of it may live.
bool HoldsGpus(const api::TaskView& task);
// "PD", "R" …; its own word where the state is not known.
std::string StateCode(const api::TaskView& task);
Colour StateColour(const api::TaskView& task);

}  // namespace carma::cli
