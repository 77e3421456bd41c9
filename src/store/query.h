// The SQL of Store::List that selects ids and their order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "store/store.h"

namespace carma::store {

// Condition on a row of table task: its submission has been stored completely.
inline constexpr std::string_view kArrived =
    "NOT EXISTS (SELECT 1 FROM arrival WHERE first <= task.id AND past_last > task.id)";

struct Query {
  std::string sql;
  std::vector<std::variant<std::int64_t, std::string>> arguments;  // for its '?', in order
};

// Returns a SELECT of at most filter.limit ids. It uses the index with the fewest rows to read, so
// a page of 50 costs the same with 100 or 100 000 stored tasks.
Query CandidateIds(const TaskFilter& filter);

}  // namespace carma::store
