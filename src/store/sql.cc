#include "store/sql.h"

#include <fmt/format.h>

#include "core/values/entitlement.h"
#include "core/values/task.h"

namespace carma::store {
namespace {

// Tasks without a class belong to the default class.
const std::string kClass = fmt::format("COALESCE(qos, '{}')", core::kUsualQos);

// Builds a SELECT. Conditions that are not covered by the chosen index are checked row by row.
class Select {
 public:
  Select(Query& query, const std::string& index) : query_(query) {
    query_.sql += "SELECT id FROM task" + (index.empty() ? "" : " INDEXED BY " + index);
  }
  void Where(const std::string& condition, std::variant<std::int64_t, std::string> argument) {
    query_.sql += (first_ ? " WHERE " : " AND ") + condition;
    query_.arguments.push_back(std::move(argument));
    first_ = false;
  }
  void WhereStateIn(const std::vector<core::TaskState>& states) {
    std::string marks;
    for (const core::TaskState state : states) {
      marks += marks.empty() ? "?" : ",?";
      query_.arguments.emplace_back(std::string(core::TaskStateName(state)));
    }
    query_.sql += (first_ ? " WHERE state IN (" : " AND state IN (") + marks + ")";
    first_ = false;
  }
  void Rest(const TaskFilter& filter) {
    if (filter.name) Where("name = ?", *filter.name);
    if (filter.account) Where("account = ?", *filter.account);
    if (filter.qos) Where(kClass + " = ?", *filter.qos);
    if (filter.before) {
      Where(filter.newest_first ? "id < ?" : "id > ?",
            static_cast<std::int64_t>(core::Number(*filter.before)));
    }
    query_.sql += std::string(first_ ? " WHERE " : " AND ").append(kArrived);
    query_.sql += filter.newest_first ? " ORDER BY id DESC LIMIT ?" : " ORDER BY id LIMIT ?";
    query_.arguments.emplace_back(static_cast<std::int64_t>(filter.limit));  // SIZE_MAX: no limit
  }

 private:
  Query& query_;
  bool first_ = true;
};

// Makes one query per state. Each query returns rows ordered by id, and the outer ORDER BY merges
// them. So each state costs at most `limit` index entries, no matter how many tasks it has.
void WalkByState(const TaskFilter& filter, Query& query) {
  const std::vector<core::TaskState> states =
      filter.states.empty() ? StatesWhere([](core::TaskState) { return true; }) : filter.states;
  for (std::size_t i = 0; i < states.size(); ++i) {
    query.sql += i == 0 ? "SELECT id FROM (" : " UNION ALL SELECT id FROM (";
    Select select(query, filter.user ? "task_user_state" : "task_state");
    if (filter.user) select.Where("user = ?", *filter.user);
    select.Where("state = ?", std::string(core::TaskStateName(states[i])));
    select.Rest(filter);
    query.sql += ")";
  }
}

void WalkOneIndex(const TaskFilter& filter, const std::string& index, Query& query) {
  Select select(query, index);
  if (filter.user) select.Where("user = ?", *filter.user);
  if (!filter.states.empty()) select.WhereStateIn(filter.states);
  select.Rest(filter);
}

}  // namespace

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

// ---- Store::List ----

std::vector<core::TaskState> StatesWhere(const std::function<bool(core::TaskState)>& holds) {
  std::vector<core::TaskState> states;
  for (int i = 0; i < core::kTaskStateCount; ++i) {
    if (const auto state = static_cast<core::TaskState>(i); holds(state)) states.push_back(state);
  }
  return states;
}

Query CandidateIds(const TaskFilter& filter) {
  Query query;
  if (!filter.name && (filter.user || !filter.states.empty())) {
    WalkByState(filter, query);
  } else {
    WalkOneIndex(filter, filter.name ? "task_name" : "", query);
  }
  return query;
}

}  // namespace carma::store
