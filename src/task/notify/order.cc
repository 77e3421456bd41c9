#include "task/notify/order.h"

#include "base/fields_json.h"
#include "base/try.h"

namespace carma::task {

std::string ToText(const NoticeOrder& order) {
  return base::DumpJson(base::FieldsToJson(order, base::Absent::kNull));
}

Result<NoticeOrder> ParseNoticeOrder(std::string_view text) {
  const base::Json json = CARMA_TRY(base::ParseJson(text));
  return base::FieldsFromJson<NoticeOrder>(json, "", base::Unknown::kRefused);
}

}  // namespace carma::task
