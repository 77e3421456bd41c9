// Reads the output of Keras summary(), as printed by TensorFlow 1 and 2 (fixed columns, "====") and
// by Keras 3 (boxes). Layers get their PyTorch names, and shapes are converted to channels-first,
// so the rules for PyTorch apply.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <unordered_map>

#include "base/text.h"
#include "base/try.h"
#include "model/op.h"
#include "model/reading.h"

namespace carma::model {
namespace {

struct Translation {
  std::string_view keras;
  std::string_view torch;
};
// Keras types and their PyTorch names. TensorFlow 1 truncates long names ("BatchNor"), so the first
// entry that begins with a truncated name is used.
constexpr Translation kTypes[] = {
    {"Conv2D", "Conv2d"},
    {"Conv1D", "Conv1d"},
    {"Conv3D", "Conv3d"},
    {"Conv2DTranspose", "ConvTranspose2d"},
    {"Conv1DTranspose", "ConvTranspose1d"},
    {"Conv3DTranspose", "ConvTranspose3d"},
    {"DepthwiseConv2D", "DepthwiseConv2d"},
    {"SeparableConv2D", "SeparableConv2d"},
    {"SeparableConv1D", "SeparableConv1d"},
    {"Dense", "Linear"},
    {"EinsumDense", "Linear"},
    {"BatchNormalization", "BatchNorm"},  // 1d, 2d or 3d, depending on its shape
    {"LayerNormalization", "LayerNorm"},
    {"GroupNormalization", "GroupNorm"},
    {"RMSNormalization", "RMSNorm"},
    {"MaxPooling2D", "MaxPool2d"},
    {"MaxPooling1D", "MaxPool1d"},
    {"MaxPooling3D", "MaxPool3d"},
    {"AveragePooling2D", "AvgPool2d"},
    {"AveragePooling1D", "AvgPool1d"},
    {"AveragePooling3D", "AvgPool3d"},
    {"GlobalAveragePooling2D", "AdaptiveAvgPool2d"},
    {"GlobalAveragePooling1D", "AdaptiveAvgPool1d"},
    {"GlobalAveragePooling3D", "AdaptiveAvgPool3d"},
    {"GlobalMaxPooling2D", "AdaptiveMaxPool2d"},
    {"GlobalMaxPooling1D", "AdaptiveMaxPool1d"},
    {"MultiHeadAttention", "MultiheadAttention"},
    {"SimpleRNN", "RNN"},
    {"SpatialDropout2D", "Dropout2d"},
    {"SpatialDropout1D", "Dropout1d"},
    {"ZeroPadding2D", "ZeroPad2d"},
    {"ZeroPadding1D", "ZeroPad1d"},
    {"UpSampling2D", "Upsample"},
    {"UpSampling1D", "Upsample"},
    {"InputLayer", "InputLayer"},
};

// The name of an Activation layer may contain its function, as in "conv1_relu". It may also be just
// "activation_3".
constexpr Translation kFunctions[] = {
    {"relu6", "ReLU6"}, {"relu", "ReLU"},       {"swish", "SiLU"},      {"silu", "SiLU"},
    {"gelu", "GELU"},   {"sigmoid", "Sigmoid"}, {"softmax", "Softmax"}, {"tanh", "Tanh"},
};

// Keras layers that correspond to plain code in PyTorch, for which PyTorch summaries have no row.
constexpr std::string_view kFunctional[] = {
    "Add",    "Subtract",   "Multiply",        "Average",     "Maximum",   "Minimum",       "Dot",
    "Lambda", "TFOpLambda", "SlicingOpLambda", "Concatenate", "Rescaling", "Normalization",
};

enum class Column { kLabel, kShape, kParams, kConnected, kTrainable };
constexpr std::array<std::string_view, 5> kTitles{"Layer (type)", "Output Shape", "Param #",
                                                  "Connected to", "Trainable"};
template <class Text>
using Cells = std::array<Text, kTitles.size()>;

// The positions at which the cells of a table's lines begin.
class Grid {
 public:
  explicit Grid(std::string_view header) {
    boxed_ = header.contains("┃") || header.contains("│");
    for (std::size_t column = 0; column < kTitles.size(); ++column) {
      const std::size_t start = header.find(kTitles[column]);
      if (start != std::string_view::npos) places_.push_back({start, column});
    }
    std::ranges::sort(places_, {}, &Place::start);
    // The first cell also contains the margin in front of its title.
    if (!places_.empty()) places_.front().start = 0;
  }
  bool Has(Column column) const {
    return std::ranges::find(places_, static_cast<std::size_t>(column), &Place::column) !=
           places_.end();
  }
  bool Ends(std::string_view line) const {
    line = base::Trim(line);
    return boxed_ ? line.starts_with("└") : line.starts_with('=') && IsRule(line);
  }
  Cells<std::string_view> Split(std::string_view line) const {
    return boxed_ ? SplitBoxes(line) : SplitPlaces(line);
  }

 private:
  struct Place {
    std::size_t start;
    std::size_t column;
  };

  Cells<std::string_view> SplitPlaces(std::string_view line) const {
    Cells<std::string_view> cells;
    std::size_t start = 0;
    for (std::size_t i = 0; i < places_.size() && start < line.size(); ++i) {
      std::size_t end = i + 1 < places_.size() ? places_[i + 1].start : line.size();
      end = std::min(end, line.size());
      // In some versions, the layers of a nested model begin slightly to the left of the column
      // titles.
      while (line.front() == '|' && end < line.size() && end > start && line[end - 1] != ' ') --end;
      cells[places_[i].column] = line.substr(start, end - start);
      start = end;
    }
    return cells;
  }
  Cells<std::string_view> SplitBoxes(std::string_view line) const {
    Cells<std::string_view> cells;
    constexpr std::string_view kBar = "│";
    line = base::Trim(line);
    if (!line.starts_with(kBar)) return cells;
    line.remove_prefix(kBar.size());
    for (const Place& place : places_) {
      const std::size_t bar = line.find(kBar);
      if (bar == std::string_view::npos) break;
      cells[place.column] = line.substr(0, bar);
      line.remove_prefix(bar + kBar.size());
    }
    return cells;
  }

  bool boxed_ = false;
  std::vector<Place> places_;  // from left to right
};

// Strips the nesting marks of a nested model's layers, "| " (TensorFlow) or "   └ " (Keras 3), and
// returns the nesting depth.
int TakeDepth(std::string_view& label) {
  constexpr std::string_view kCorner = "└";
  if (const std::size_t corner = label.find(kCorner); corner != std::string_view::npos) {
    label.remove_prefix(corner + kCorner.size());
    return std::max(1, static_cast<int>(corner / 3));
  }
  int depth = 0;
  while (!label.empty() && (label.front() == ' ' || label.front() == '|')) {
    depth += label.front() == '|';
    label.remove_prefix(1);
  }
  return depth;
}

void AppendWithoutBlanks(std::string& text, std::string_view more) {
  std::ranges::copy_if(more, std::back_inserter(text), [](char c) { return c != ' ' && c != '|'; });
}

struct Row {
  Cells<std::string> cells;
  int depth = 0;
  std::size_t line = 0;
};

// Reads the table rows. A row may span several lines, and only its first line has the parameter
// count.
Result<std::vector<Row>> TakeRows(Lines& lines, const Grid& grid) {
  std::vector<Row> rows;
  while (true) {
    if (lines.AtEnd())
      return lines.Fail("the table ends without its closing line and may have been truncated");
    const std::string_view line = lines.Take();
    if (grid.Ends(line)) break;
    // Skips horizontal rules, and the overlines that border a nested model.
    if (IsRule(line) || line.contains("¯¯")) continue;
    auto cells = grid.Split(line);
    std::string_view params = cells[static_cast<std::size_t>(Column::kParams)];
    while (params.ends_with(' ') || params.ends_with('|')) params.remove_suffix(1);
    const int depth = TakeDepth(cells[static_cast<std::size_t>(Column::kLabel)]);
    if (!base::Trim(params).empty()) {
      if (rows.size() == kMaxLayers)
        return lines.Fail(fmt::format("more than {} layers", kMaxLayers));
      const int deepest = rows.empty() ? 0 : rows.back().depth + 1;
      rows.push_back({{}, std::min({depth, deepest, kMaxDepth}), lines.next()});
    } else if (base::Trim(line).empty()) {
      continue;
    } else if (rows.empty()) {
      return lines.Fail("the line has no parameter count; expected a Keras layer");
    }
    for (std::size_t column = 0; column < kTitles.size(); ++column)
      AppendWithoutBlanks(rows.back().cells[column], cells[column]);
  }
  return rows;
}

std::string_view Cell(const Row& row, Column column) {
  return row.cells[static_cast<std::size_t>(column)];
}

// Splits "conv2d_1(Conv2D)" into attribute and class. The class may be truncated: "bn(BatchNor".
bool ParseLabel(std::string_view label, Layer& layer, bool& cut) {
  const std::size_t open = label.find('(');
  if (open == std::string_view::npos || open > kMaxNameBytes) return false;
  layer.name = label.substr(0, open);
  std::string_view type = label.substr(open + 1);
  cut = !type.ends_with(')');
  if (!cut) type.remove_suffix(1);
  if (type.empty() || type.size() > kMaxNameBytes) return false;
  layer.type = type;
  return true;
}

void TranslateType(Layer& layer, bool cut) {
  const auto* known = std::ranges::find_if(kTypes, [&](const Translation& t) {
    return cut ? t.keras.starts_with(layer.type) : t.keras == layer.type;
  });
  if (known != std::end(kTypes)) layer.type = known->torch;
  if (layer.type == "BatchNorm")
    layer.type += layer.out.rank() == 4 ? "2d" : layer.out.rank() == 5 ? "3d" : "1d";
  if (layer.type != "Activation") return;
  const std::string name = base::ToLower(layer.name);
  const auto* function = std::ranges::find_if(
      kFunctions, [&](const Translation& t) { return name.contains(t.keras); });
  if (function != std::end(kFunctions)) layer.type = function->torch;
}

// Converts (batch, height, width, channels) to (batch, channels, height, width).
Shape ChannelsFirst(const Shape& shape) {
  if (shape.rank() != 4 && shape.rank() != 5) return shape;
  Shape moved;
  moved.Push(shape[0]);
  moved.Push(shape.last());
  for (std::size_t i = 1; i + 1 < shape.rank(); ++i) moved.Push(shape[i]);
  return moved;
}

bool IsBatchNorm(const Layer& layer) {
  return layer.type.starts_with("BatchNorm");
}

// True if shapes are channels-first. The parameters of a batch norm show which dimension contains
// the channels: it has four per channel (fewer without scale or shift).
bool HasChannelsFirst(const std::vector<Layer>& rows) {
  return std::ranges::any_of(rows, [](const Layer& layer) {
    return IsBatchNorm(layer) && layer.out.rank() >= 4 && layer.params == 4 * layer.out[1] &&
           layer.params != 4 * layer.out.last();
  });
}

// The moving mean and variance of a batch norm. Keras counts them as parameters, PyTorch as
// buffers.
std::int64_t MovingStatistics(const Layer& layer) {
  if (!IsBatchNorm(layer) || layer.out.empty()) return 0;
  const std::int64_t channels = std::abs(layer.out.rank() >= 4 ? layer.out[1] : layer.out.last());
  return layer.params % channels == 0 && layer.params >= 2 * channels ? 2 * channels : 0;
}

// The first layer in the cell: "conv1" in "['conv1[0][0]','conv2[0][0]']" and in
// "conv1[0][0],conv2[0][0]".
std::string FirstConnection(std::string_view cell) {
  cell.remove_prefix(std::min(cell.find_first_not_of("['"), cell.size()));
  return std::string(cell.substr(0, cell.find('[')));
}

// Sets each row's input to the output of the layer named in its "Connected to" column. Without this
// column, each layer is assumed to read the layer above it.
void FindInputs(std::vector<Layer>& layers, const std::vector<Row>& rows, bool connected) {
  std::unordered_map<std::string, std::size_t> by_name;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!connected) {
      if (i > 0) layers[i].in = layers[i - 1].out;
    } else if (const auto found = by_name.find(FirstConnection(Cell(rows[i], Column::kConnected)));
               found != by_name.end()) {
      layers[i].in = layers[found->second].out;
    }
    by_name.emplace(layers[i].name, i);
  }
}

std::string ModelName(const Lines& lines) {
  // The line 'Model: "resnet50"' is one or two lines above the header.
  for (std::size_t back = 2; back <= 4 && back <= lines.next(); ++back) {
    const std::string_view line = base::Trim(lines.At(lines.next() - back));
    if (!line.starts_with("Model: \"")) continue;
    const std::string_view name = line.substr(8);
    return std::string(name.substr(0, std::min(name.find('"'), kMaxNameBytes)));
  }
  return "";
}

// The rows as layers, in printed order.
struct Table {
  std::vector<Layer> layers;
  std::vector<int> depths;
  bool any_cut = false;  // a type name was truncated
};

// Strips the remark from a parameter count such as "0(unbuilt)".
std::string_view ParamsOf(const Row& row) {
  const std::string_view params = Cell(row, Column::kParams);
  return params.substr(0, params.find('('));
}

// The shape of the output, or of the first output if there are several: "{'a':(None,4),…}".
std::string_view ShapeOf(const Row& row) {
  std::string_view shape = Cell(row, Column::kShape);
  if (shape.starts_with('{')) shape.remove_prefix(std::min(shape.find('('), shape.size()));
  return shape;
}

// Returns false if the row is not a Keras layer.
bool ReadRow(const Row& row, Table& table) {
  Layer layer;
  bool cut = false;
  const auto count = ParseCount(ParamsOf(row));
  const std::string_view shape = ShapeOf(row);
  const bool unknown = shape.empty() || shape == "?" || shape == "multiple" || shape == "unknown";
  if (!ParseLabel(Cell(row, Column::kLabel), layer, cut) || !count ||
      (!unknown && !ParseShape(shape, layer.out))) {
    return false;
  }
  table.any_cut |= cut;
  layer.params = *count;
  TranslateType(layer, cut);
  table.layers.push_back(std::move(layer));
  table.depths.push_back(row.depth);
  return true;
}

Result<Table> ReadRows(const Lines& lines, const std::vector<Row>& rows) {
  Table table;
  for (const Row& row : rows) {
    if (ReadRow(row, table)) continue;
    return lines.FailAt(
        row.line,
        fmt::format("'{} {} {}', expected a Keras layer like 'conv1 (Conv2D)  (None, "
                    "32, 32, 8)  224'",
                    base::Printable(Cell(row, Column::kLabel), 60),
                    base::Printable(ShapeOf(row), 40), base::Printable(ParamsOf(row), 20)));
  }
  return table;
}

// Converts the shapes to PyTorch's order and sets each layer's input.
void FindShapes(LayerList& list, Table& table, const std::vector<Row>& rows, bool connected) {
  if (table.any_cut) {
    AddNote(list, Note::Kind::kInferred, "truncated layer type names have been completed");
  }
  if (!HasChannelsFirst(table.layers)) {
    for (Layer& layer : table.layers) layer.out = ChannelsFirst(layer.out);
    AddNote(list, Note::Kind::kInferred,
            "image shapes are assumed to be channels-last and were converted to channels-first");
  }
  FindInputs(table.layers, rows, connected);
  list.has_input_shapes = true;
  if (!connected) {
    AddNote(list, Note::Kind::kInferred,
            "no 'Connected to' column, so each layer is assumed to read the layer above it");
  }
}

// For each row, the total parameter count of the layers nested in it.
std::vector<std::int64_t> ParamsInside(const Table& table) {
  std::vector<std::int64_t> inside(table.layers.size(), 0);
  std::vector<std::size_t> parents;
  for (std::size_t i = 0; i < table.layers.size(); ++i) {
    parents.resize(static_cast<std::size_t>(table.depths[i]));
    if (!parents.empty()) inside[parents.back()] += table.layers[i].params;
    parents.push_back(i);
  }
  return inside;
}

// Sums over all layers of the list.
struct Sums {
  std::int64_t params = 0;
  std::int64_t moving = 0;             // moving means and variances, not part of `params`
  std::vector<std::size_t> collapsed;  // layers that look like whole blocks
};

// Moves the layers to the list, in the order in which the modules finish.
Result<Sums> TakeInOrder(LayerList& list, Table& table, const std::vector<Row>& rows,
                         const Lines& lines) {
  Sums sums;
  const std::vector<std::int64_t> inside = ParamsInside(table);
  for (const std::size_t i : FinishingOrder(table.depths)) {
    Layer& layer = table.layers[i];
    if (layer.type == "InputLayer") {
      if (list.input.empty()) list.input = layer.out;
      continue;
    }
    if (HasChildren(table.depths, i)) {
      layer.params = std::max<std::int64_t>(0, layer.params - inside[i]);
      layer.kind = layer.params > 0 ? RowKind::kBlock : RowKind::kContainer;
    } else if (std::ranges::find(kFunctional, layer.type) != std::end(kFunctional)) {
      layer.kind = RowKind::kContainer;
    } else if (OpOf(layer.type) == Op::kOther && LooksCollapsed(layer)) {
      sums.collapsed.push_back(list.layers.size());
    }
    const std::int64_t statistics = MovingStatistics(layer);
    sums.moving += statistics;
    layer.params -= statistics;
    layer.trainable = Cell(rows[i], Column::kTrainable) == "N" ? 0 : layer.params;
    if (!AddParams(sums.params, layer.params))
      return lines.FailAt(rows[i].line, "more than 2^48 parameters");
    list.layers.push_back(std::move(layer));
  }
  return sums;
}

}  // namespace

Result<LayerList> ReadKeras(Lines& lines) {
  LayerList list;
  list.format = SummaryFormat::kKeras;
  const Grid grid(lines.Take());
  if (!grid.Has(Column::kLabel) || !grid.Has(Column::kShape) || !grid.Has(Column::kParams))
    return lines.Fail("the Keras header does not have both 'Output Shape' and 'Param #'");
  list.model = ModelName(lines);
  if (!lines.AtEnd() && IsRule(lines.Peek())) lines.Take();
  const std::vector<Row> rows = CARMA_TRY(TakeRows(lines, grid));
  if (rows.empty()) return lines.Fail("the table has no rows");
  Table table = CARMA_TRY(ReadRows(lines, rows));
  Totals totals;
  CARMA_TRY(totals.Read(lines));
  // The total that Keras 3 prints includes the optimizer's state, so it is recomputed.
  if (totals.trainable && totals.frozen) totals.params = *totals.trainable + *totals.frozen;

  FindShapes(list, table, rows, grid.Has(Column::kConnected));
  const Sums sums = CARMA_TRY(TakeInOrder(list, table, rows, lines));
  if (list.layers.empty()) return lines.Fail("the table has no layers");
  list.output = list.layers.back().out;
  if (sums.moving > 0) {
    list.buffer_bytes = 4 * sums.moving;
    if (totals.params) totals.params = std::max<std::int64_t>(0, *totals.params - sums.moving);
    AddNote(list, Note::Kind::kInferred,
            fmt::format("{} of the parameters are moving means and variances, counted as buffers",
                        sums.moving));
  }
  FindBatch(list);
  if (list.input.ScalesWithBatch()) list.input = WithoutBatch(list.input);
  UseTotals(list, totals, sums.params);
  NoteCollapsed(list, sums.collapsed);
  NoteUnknownTypes(list, sums.collapsed);
  NoteMissingShapes(list);
  return list;
}

}  // namespace carma::model
