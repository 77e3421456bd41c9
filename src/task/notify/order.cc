#include "task/notify/order.h"

#include "base/fields_json.h"

namespace carma::task {

std::string ToText(const NoticeOrder& order) {
  return base::DumpJson(base::FieldsToJson(order, base::Absent::kNull));
}

Result<NoticeOrder> ParseNoticeOrder(std::string_view text) {
  const Result<base::Json> json = base::ParseJson(text);
  if (!json) return std::unexpected(json.error());
  return base::FieldsFromJson<NoticeOrder>(*json, "", base::Unknown::kRefused);
}

}  // namespace carma::task
