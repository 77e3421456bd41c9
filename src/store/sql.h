// Texts of the statements that are made of the tables' columns (store/rows.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace carma::store {

// "before NAME after", joined.
std::string JoinColumns(const std::vector<std::string>& names, std::string_view before,
                        std::string_view after, std::string_view separator);
// Columns of table task, of them those that a record fills, of observation, of notice.
std::vector<std::string> TaskColumns();
std::vector<std::string> RecordColumns();
std::vector<std::string> ObservationColumns();
std::vector<std::string> NoticeColumns();

std::string InsertTaskSql();
std::string InsertAttemptSql();
std::string InsertObservationSql();
std::string UpdateRecordSql();
// Rows of `task` with their description, in the order in which ReadTask() of reads.cc
// takes them.
std::string SelectTasksSql();
inline constexpr const char* kPutDescription =
    "INSERT INTO description(id,gid,template,spec,stdout_path,stderr_path) VALUES(?,?,?,?,?,?) "
    "ON CONFLICT(id) DO UPDATE SET gid=excluded.gid,template=excluded.template,spec=excluded.spec,"
    "stdout_path=excluded.stdout_path,stderr_path=excluded.stderr_path";
// The names of all final states, or of all others: "'queued','running'".
std::string QuotedStates(bool final);

}  // namespace carma::store
