#include "store/sql.h"

#include <utility>

#include "core/task.h"
#include "store/rows.h"

namespace carma::store {

std::string JoinColumns(const std::vector<std::string>& names, std::string_view before,
                        std::string_view after, std::string_view separator) {
  std::string text;
  for (const std::string& name : names) {
    if (!text.empty()) text += separator;
    text += std::string(before) + name + std::string(after);
  }
  return text;
}

std::vector<std::string> TaskColumns() {
  ColumnNames names;
  StoredTask task;
  VisitTask(names, task);
  return std::move(names.names);
}

std::vector<std::string> RecordColumns() {
  ColumnNames names;
  core::TaskRecord record;
  std::vector<std::string> uuids;
  VisitRecord(names, record, uuids);
  return std::move(names.names);
}

std::vector<std::string> ObservationColumns() {
  ColumnNames names;
  task::Observation observation;
  VisitObservation(names, observation);
  return std::move(names.names);
}

std::vector<std::string> NoticeColumns() {
  ColumnNames names;
  const Notice notice;
  VisitNotice(names, notice);
  return std::move(names.names);
}

std::string InsertAttemptSql() {
  ColumnNames columns;
  const EndedAttempt attempt;
  VisitAttempt(columns, attempt);
  return "INSERT OR REPLACE INTO attempt(" + AttemptColumns() + ") VALUES(" +
         JoinColumns(std::vector<std::string>(columns.names.size(), "?"), "", "", ",") + ")";
}

std::string InsertTaskSql() {
  const std::vector<std::string> names = TaskColumns();
  std::string marks;
  for (std::size_t i = 0; i < names.size(); ++i) marks += ",?";
  std::string updates;
  for (const std::string& name : names) {
    updates += (updates.empty() ? "" : ",") + name + "=excluded." + name;
  }
  return "INSERT INTO task(id," + JoinColumns(names, "", "", ",") + ") VALUES(?" + marks +
         ") ON CONFLICT(id) DO UPDATE SET " + updates;
}

std::string InsertObservationSql() {
  const std::vector<std::string> names = ObservationColumns();
  return "INSERT INTO observation(" + JoinColumns(names, "", "", ",") + ") VALUES(" +
         JoinColumns(std::vector<std::string>(names.size(), "?"), "", "", ",") + ")";
}

std::string UpdateRecordSql() {
  return "UPDATE task SET " + JoinColumns(RecordColumns(), "", "=?", ",") + " WHERE id=?";
}

std::string SelectTasksSql() {
  return "SELECT task.id," + JoinColumns(TaskColumns(), "task.", "", ",") +
         ",gid,stdout_path,stderr_path,spec,template.text FROM task "
         "JOIN description ON description.id=task.id "
         "LEFT JOIN template ON template.id=description.template ";
}

std::string QuotedStates(bool final) {
  std::string list;
  for (int i = 0; i < core::kTaskStateCount; ++i) {
    const auto state = static_cast<core::TaskState>(i);
    if (core::IsFinal(state) != final) continue;
    list += (list.empty() ? "'" : ",'") + std::string(core::TaskStateName(state)) + "'";
  }
  return list;
}

}  // namespace carma::store
