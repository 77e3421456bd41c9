#include "store/query.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace carma::store {
namespace {

std::vector<core::TaskState> AllStates() {
  std::vector<core::TaskState> states;
  for (int i = 0; i < core::kTaskStateCount; ++i) states.push_back(static_cast<core::TaskState>(i));
  return states;
}

std::int64_t Limit(const TaskFilter& filter) {
  return static_cast<std::int64_t>(std::min<std::uint64_t>(
      filter.limit, static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())));
}

// Builds one SELECT; conditions that the chosen index does not answer are checked row by row.
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
    if (filter.ended_after) Where("ended_ms >= ?", base::ToMs(*filter.ended_after));
    if (filter.submitted_after) Where("submitted_ms >= ?", base::ToMs(*filter.submitted_after));
    if (filter.before) {
      Where(filter.newest_first ? "id < ?" : "id > ?",
            static_cast<std::int64_t>(core::Number(*filter.before)));
    }
    query_.sql += std::string(first_ ? " WHERE " : " AND ").append(kArrived);
    query_.sql += filter.newest_first ? " ORDER BY id DESC LIMIT ?" : " ORDER BY id LIMIT ?";
    query_.arguments.emplace_back(Limit(filter));
  }

 private:
  Query& query_;
  bool first_ = true;
};

// One query per state, each already in id order, merged by the outer ORDER BY: no state, rare or
// common, costs more than `limit` index entries.
void WalkByState(const TaskFilter& filter, Query& query) {
  const std::vector<core::TaskState> states = filter.states.empty() ? AllStates() : filter.states;
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

Query CandidateIds(const TaskFilter& filter) {
  Query query;
  if (filter.name) {
    WalkOneIndex(filter, "task_name", query);
  } else if (filter.ended_after) {
    WalkOneIndex(filter, "task_ended", query);
  } else if (filter.submitted_after) {
    WalkOneIndex(filter, "task_submitted", query);
  } else if (filter.user || !filter.states.empty()) {
    WalkByState(filter, query);
  } else {
    WalkOneIndex(filter, "", query);
  }
  return query;
}

}  // namespace carma::store
