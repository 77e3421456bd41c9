// The question behind Store::List as SQL: which ids, in which order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "store/store.h"

namespace carma::store {

// Condition on a row of table task: it belongs to no submission that is still being put.
inline constexpr std::string_view kArrived =
    "NOT EXISTS (SELECT 1 FROM arrival WHERE first <= task.id AND past_last > task.id)";

struct Query {
  std::string sql;
  std::vector<std::variant<std::int64_t, std::string>> arguments;  // of its '?', in order
};

// SELECT of at most filter.limit ids, driven by the index that answers with the fewest rows read:
// a page of 50 costs the same with 100 or with 100 000 tasks in the books.
Query CandidateIds(const TaskFilter& filter);

}  // namespace carma::store
