// Reads torchsummary's output. It has one row per module, in the order the modules finish, such as
// "Conv2d-1    [-1, 64, 112, 112]    9,408".
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "base/try.h"
#include "model/op.h"
#include "model/reading.h"

namespace carma::model {
namespace {

// Parses a row. Empty if the line is not a row.
std::optional<Layer> ParseRow(std::string_view line) {
  line = base::Trim(line);
  const std::size_t open = line.find('[');
  const std::size_t close = line.rfind(']');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    return std::nullopt;
  const auto params = ParseCount(base::Trim(line.substr(close + 1)));
  Layer layer;
  layer.type = TypeInLabel(base::Trim(line.substr(0, open)));
  if (layer.type.empty() || !params || !ParseShape(line.substr(open, close + 1 - open), layer.out))
    return std::nullopt;
  layer.params = *params;
  layer.trainable = *params;
  layer.kind = RowKind::kUnknown;
  return layer;
}

}  // namespace

Result<LayerList> ReadTorchSummary(Lines& lines) {
  LayerList list;
  list.format = SummaryFormat::kTorchSummary;
  lines.Take();
  if (!lines.AtEnd() && IsRule(lines.Peek())) lines.Take();
  std::int64_t row_sum = 0;
  while (true) {
    if (lines.AtEnd())
      return lines.Fail("the table ends without its closing line and may have been truncated");
    const std::string_view line = lines.Take();
    if (IsRule(line)) break;
    if (base::Trim(line).empty()) continue;
    std::optional<Layer> layer = ParseRow(line);
    if (!layer) {
      return lines.Fail(
          fmt::format("'{}', expected a row like 'Conv2d-1  [-1, 64, 112, 112]  9,408'",
                      base::Printable(base::Trim(line), 80)));
    }
    if (list.layers.size() == kMaxLayers)
      return lines.Fail(fmt::format("more than {} layers", kMaxLayers));
    if (!AddParams(row_sum, layer->params)) return lines.Fail("more than 2^48 parameters");
    list.layers.push_back(std::move(*layer));
  }
  if (list.layers.empty()) return lines.Fail("the table has no rows");
  Totals totals;
  CARMA_TRY(totals.Read(lines));
  list.output = list.layers.back().out;
  FindBatch(list);
  UseTotals(list, totals, row_sum);
  AddNote(list, Note::Kind::kMissingShapes,
          "torchsummary prints no input shapes and replaces every first dimension with the batch "
          "size, so layers that work on windows or tokens look too small");
  NoteUnknownTypes(list, {});
  NoteMissingShapes(list);
  return list;
}

}  // namespace carma::model
