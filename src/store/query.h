// Builds the SQL that Store::List uses to select and order ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "store/store.h"

namespace carma::store {

// Selects the rows of table task whose submission has been stored completely.
inline constexpr std::string_view kArrived =
    "NOT EXISTS (SELECT 1 FROM arrival WHERE first <= task.id AND past_last > task.id)";

struct Query {
  std::string sql;
  std::vector<std::variant<std::int64_t, std::string>> arguments;  // for the placeholders, in order
};

// Returns a SELECT of at most filter.limit ids. It uses the index that requires reading the fewest
// rows, so a page of 50 tasks costs the same whether 100 or 100 000 tasks are stored.
Query CandidateIds(const TaskFilter& filter);

}  // namespace carma::store
