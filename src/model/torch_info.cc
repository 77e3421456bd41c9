// Reads torchinfo's output: a tree of modules, parents first, with columns that the user selects.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/text.h"
#include "base/try.h"
#include "model/op.h"
#include "model/reading.h"

namespace carma::model {
namespace {

enum class Column { kInput, kOutput, kParams, kKernel, kOther };

struct Title {
  std::string_view text;
  Column column;
};
constexpr std::array kTitles{
    Title{"Input Shape", Column::kInput}, Title{"Output Shape", Column::kOutput},
    Title{"Param #", Column::kParams},    Title{"Kernel Shape", Column::kKernel},
    Title{"Mult-Adds", Column::kOther},   Title{"Param %", Column::kOther},
    Title{"Groups", Column::kOther},      Title{"Trainable", Column::kOther},
};
constexpr int kColumnsPerLevel = 5;  // "│    "

// The columns and the row format, read from the header line.
struct Header {
  bool indexed = false;  // "Conv2d: 2-1"
  bool named = false;    // "Conv2d (conv1)"
  std::vector<Column> columns;
};

Header ParseHeader(std::string_view line) {
  Header header;
  line = base::Trim(line);
  // The line begins with "Layer (type (var_name):depth-idx)". The column titles follow.
  const std::string_view layer = line.substr(0, line.find("  "));
  header.indexed = layer.contains("depth-idx");
  header.named = layer.contains("var_name");
  for (std::string_view rest = line.substr(layer.size()); !rest.empty();) {
    const auto* title =
        std::ranges::find_if(kTitles, [&](const Title& t) { return rest.starts_with(t.text); });
    if (title != kTitles.end()) header.columns.push_back(title->column);
    rest.remove_prefix(title != kTitles.end() ? title->text.size() : 1);
  }
  return header;
}

// Removes the branches drawn in front of a row's name. Returns the row's depth, which is 0 for the
// model itself.
int TakeDepth(std::string_view& line) {
  int drawn = 0;
  while (!line.empty()) {
    if (line.starts_with("├─") || line.starts_with("└─")) {
      line.remove_prefix(6);
      return drawn / kColumnsPerLevel + 1;
    }
    if (line.starts_with("+ ")) {  // ASCII only
      line.remove_prefix(2);
      return drawn / kColumnsPerLevel + 1;
    }
    if (line.starts_with("│")) {
      line.remove_prefix(3);
    } else if (line.front() == ' ' || line.front() == '|') {
      line.remove_prefix(1);
    } else {
      break;
    }
    ++drawn;
  }
  return 0;
}

// Takes the next cell: a bracketed list or a word.
std::string_view TakeCell(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  std::size_t end = 0;
  int open = 0;
  for (; end < line.size() && (open > 0 || line[end] != ' '); ++end) {
    open += line[end] == '[' || line[end] == '(' || line[end] == '{';
    open -= line[end] == ']' || line[end] == ')' || line[end] == '}';
  }
  const std::string_view cell = line.substr(0, end);
  line.remove_prefix(end);
  return cell;
}

enum class Label { kModule, kWeight, kNone };

// Splits "Conv2d (conv1): 2-1" into type and attribute. With verbose=2, torchinfo also lists a
// module's tensors below that module. These rows have no type and no attribute, and their numbers
// are included in the module's row.
Label TakeLabel(std::string_view& line, const Header& header, int depth, Layer& layer) {
  const std::size_t end = std::min(line.find_first_of(" :"), line.size());
  if (!IsName(line.substr(0, end))) return Label::kNone;
  layer.type = line.substr(0, end);
  line.remove_prefix(end);
  if (header.named && (depth > 0 || line.starts_with(" ("))) {
    const std::size_t close = line.find(')');
    if (!line.starts_with(" (") || close == std::string_view::npos) return Label::kWeight;
    if (close > kMaxNameBytes) return Label::kNone;
    layer.name = line.substr(2, close - 2);
    line.remove_prefix(close + 1);
  }
  if (header.indexed && (depth > 0 || line.starts_with(": "))) {  // the model itself has no index
    if (!line.starts_with(": ")) return Label::kWeight;
    line.remove_prefix(2);
    const std::string_view index = TakeCell(line);
    const std::size_t dash = index.find('-');
    const bool good = dash != std::string_view::npos && ParseCount(index.substr(0, dash)) &&
                      ParseCount(index.substr(dash + 1));
    return good ? Label::kModule : Label::kNone;
  }
  return Label::kModule;
}

struct Row {
  Layer layer;
  Shape kernel;
  bool repeated = false;  // "(recursive)": the parameters were counted in an earlier row
};

// The number of positions in a convolution's kernel. Some versions print the shape of the whole
// weight, whose last dimensions are those of the kernel.
std::optional<std::int64_t> KernelPositions(const Row& row) {
  const std::size_t sides = std::max<std::size_t>(row.layer.out.rank(), 2) - 2;
  if (OpOf(row.layer.type) != Op::kConv || sides == 0 || row.kernel.rank() < sides) return {};
  std::int64_t positions = 1;
  for (const std::int64_t side : row.kernel.dimensions().last(sides)) positions *= std::abs(side);
  return positions;
}

bool ParseCells(std::string_view line, const Header& header, Row& row) {
  for (const Column column : header.columns) {
    const std::string_view cell = TakeCell(line);
    if (cell.empty()) return false;
    switch (column) {
      case Column::kInput:
      case Column::kOutput: {
        Shape& shape = column == Column::kInput ? row.layer.in : row.layer.out;
        if (cell != "--" && !ParseShape(cell, shape)) return false;
        break;
      }
      case Column::kParams: {
        row.repeated = cell == "(recursive)";
        if (row.repeated || cell == "--") break;
        // A number in parentheses means frozen parameters.
        const bool frozen = cell.starts_with('(') && cell.ends_with(')');
        const auto params = ParseCount(frozen ? cell.substr(1, cell.size() - 2) : cell);
        if (!params) return false;
        row.layer.params = *params;
        row.layer.trainable = frozen ? 0 : *params;
        break;
      }
      case Column::kKernel:
        // A pooling layer prints one number for all sides. It must be valid but is not used.
        if (cell.starts_with('[') ? !ParseShape(cell, row.kernel)
                                  : cell != "--" && !ParseCount(cell)) {
          return false;
        }
        break;
      case Column::kOther:
        break;
    }
  }
  row.layer.kernel = KernelPositions(row);
  return base::Trim(line).empty();
}

// The table rows, in printed order.
struct Table {
  std::vector<Layer> rows;
  std::vector<int> depths;
  std::int64_t params = 0;
  std::size_t repeated = 0;  // rows that repeat a module

  bool Fits(int depth) const {
    // The first row may be a child, because early versions omit the model's own row.
    return depth <= kMaxDepth && depth <= (depths.empty() ? 1 : depths.back() + 1);
  }
};

// Reads the table up to its closing line.
Result<Table> TakeTable(Lines& lines, const Header& header) {
  Table table;
  std::vector<std::string> path;  // attributes that lead to the row
  while (true) {
    if (lines.AtEnd())
      return lines.Fail("the table ends without its closing line and may have been truncated");
    std::string_view line = lines.Take();
    if (IsRule(line)) break;
    if (base::Trim(line).empty()) continue;
    const std::string_view whole = line;
    const int depth = TakeDepth(line);
    Row row;
    const Label label = TakeLabel(line, header, depth, row.layer);
    if (label == Label::kWeight) continue;
    if (label == Label::kNone || !ParseCells(line, header, row)) {
      return lines.Fail(fmt::format("'{}', expected a torchinfo row with {} columns after its name",
                                    base::Printable(base::Trim(whole), 80), header.columns.size()));
    }
    if (table.rows.size() == kMaxLayers)
      return lines.Fail(fmt::format("more than {} layers", kMaxLayers));
    if (!table.Fits(depth))
      return lines.Fail(fmt::format("a module at depth {} has no parent above it", depth));
    if (!AddParams(table.params, row.layer.params)) return lines.Fail("more than 2^48 parameters");
    table.repeated += row.repeated;
    if (header.named) {
      path.resize(static_cast<std::size_t>(depth) + 1);
      path.back() = depth == 0 ? "" : JoinPath(path[path.size() - 2], row.layer.name);
      if (path.back().size() > kMaxPathBytes) return lines.Fail("attribute names are too long");
      row.layer.name = path.back();
    }
    table.rows.push_back(std::move(row.layer));
    table.depths.push_back(depth);
  }
  if (table.rows.empty()) return lines.Fail("the table has no rows");
  return table;
}

// Moves the rows to the list, in the order in which the modules finish. Returns the positions of
// rows at the deepest level that look like collapsed blocks.
std::vector<std::size_t> TakeInOrder(LayerList& list, Table& table) {
  const int deepest = std::ranges::max(table.depths);
  std::vector<std::size_t> collapsed;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (!HasChildren(table.depths, i)) continue;
    table.rows[i].kind = table.rows[i].params > 0 ? RowKind::kBlock : RowKind::kContainer;
  }
  for (const std::size_t row : FinishingOrder(table.depths)) {
    if (table.depths[row] == deepest && deepest > 0 && LooksCollapsed(table.rows[row]))
      collapsed.push_back(list.layers.size());
    list.layers.push_back(std::move(table.rows[row]));
  }
  return collapsed;
}

}  // namespace

Result<LayerList> ReadTorchInfo(Lines& lines) {
  LayerList list;
  list.format = SummaryFormat::kTorchInfo;
  const Header header = ParseHeader(lines.Take());
  if (!lines.AtEnd() && IsRule(lines.Peek())) lines.Take();
  Table table = CARMA_TRY(TakeTable(lines, header));
  Totals totals;
  CARMA_TRY(totals.Read(lines));

  const bool has_model = table.depths.front() == 0;
  if (has_model) list.model = table.rows.front().type;
  list.input = table.rows.front().in;
  list.output = has_model ? table.rows.front().out : table.rows.back().out;
  const std::vector<std::size_t> collapsed = TakeInOrder(list, table);
  FindBatch(list);
  if (list.input.ScalesWithBatch()) list.input = WithoutBatch(list.input);
  UseTotals(list, totals, table.params);
  constexpr double kBytesOfMegabyte = 1e6;  // torchinfo's megabytes are powers of ten
  if (totals.pass_mb) list.pass_bytes = *totals.pass_mb * kBytesOfMegabyte;
  if (table.repeated > 0) {
    AddNote(list, Note::Kind::kInferred,
            fmt::format(
                "rows for repeated calls to modules, whose parameters are counted only once: {}",
                table.repeated));
  }
  list.has_input_shapes = std::ranges::find(header.columns, Column::kInput) != header.columns.end();
  if (!list.has_input_shapes) {
    AddNote(list, Note::Kind::kMissingShapes,
            "no input shapes; torchinfo prints them with col_names=(\"input_size\", "
            "\"output_size\", \"num_params\")");
  }
  NoteCollapsed(list, collapsed);
  NoteUnknownTypes(list, collapsed);
  NoteMissingShapes(list);
  return list;
}

}  // namespace carma::model
