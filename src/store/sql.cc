#include "store/sql.h"

#include "core/values/task.h"

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

std::string Marks(std::size_t count) {
  return JoinColumns(std::vector<std::string>(count, "?"));
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

std::string InsertTaskSql() {
  const std::vector<std::string> names = TaskColumns();
  std::string updates;
  for (const std::string& name : names)
    updates += (updates.empty() ? "" : ",") + name + "=excluded." + name;
  return "INSERT INTO task(id," + JoinColumns(names) + ") VALUES(?," + Marks(names.size()) +
         ") ON CONFLICT(id) DO UPDATE SET " + updates;
}

std::string UpdateRecordSql() {
  return "UPDATE task SET " + JoinColumns(RecordColumns(), "", "=?") + " WHERE id=?";
}

std::string SelectTasksSql() {
  return "SELECT task.id," + JoinColumns(TaskColumns(), "task.") +
         ",gid,stdout_path,stderr_path,spec,template.text FROM task "
         "JOIN description ON description.id=task.id "
         "LEFT JOIN template ON template.id=description.template ";
}

std::string QuotedStates(bool final) {
  std::string list;
  const auto wanted = [final](core::TaskState state) { return core::IsFinal(state) == final; };
  for (const core::TaskState state : StatesWhere(wanted))
    list += (list.empty() ? "'" : ",'") + std::string(core::TaskStateName(state)) + "'";
  return list;
}

}  // namespace carma::store
