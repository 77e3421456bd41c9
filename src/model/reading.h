// What the readers of text summaries share: numbers, shapes, totals, batch, order of the rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/layers.h"
#include "model/lines.h"

namespace carma::model {

inline constexpr std::size_t kMaxNameBytes = 128;  // of a type or of one attribute
inline constexpr std::size_t kMaxPathBytes = 512;  // of attributes from the model to a row
inline constexpr int kMaxDepth = 64;               // of nested modules

// "1,234,567", 0 to kMaxElements; empty for anything else.
std::optional<std::int64_t> ParseCount(std::string_view text);

// A class or an attribute: letters, digits, '_', '.' and '-', at most kMaxNameBytes.
bool IsName(std::string_view text);

// "[32, 3, 224, 224]" or "(None, 28, 28, 1)"; of a list of shapes the first. None in front is the
// batch (-1). Leaves `shape` empty where the size is not known: "[]", a None further in, a
// dimension 0. False: not a shape, or beyond the limits of layers.h.
bool ParseShape(std::string_view text, Shape& shape);

// "encoder" and "layer" → "encoder.layer"; an empty parent is the model itself.
std::string JoinPath(std::string_view parent, std::string_view name);

// The shape of one sample: without its first dimension.
Shape WithoutBatch(const Shape& shape);

// "=====", "_____", "-----" and the lines of boxes: nothing but drawing.
bool IsRule(std::string_view line);

// Rows come parents first, layer lists want the order in which modules finish: children, then their
// parent. Answers row indices in that order; depths are those of the rows.
std::vector<std::size_t> FinishingOrder(std::span<const int> depths);
// Whether row i is followed by rows inside it.
inline bool HasChildren(std::span<const int> depths, std::size_t i) {
  return i + 1 < depths.size() && depths[i + 1] > depths[i];
}

// The numbers under a summary.
struct Totals {
  std::optional<std::int64_t> params;
  std::optional<std::int64_t> trainable;
  std::optional<std::int64_t> frozen;
  std::optional<double> pass_mb;  // "Forward/backward pass size", in the program's own megabytes
  // Takes lines while they are totals, sizes, rules or blank; leaves `lines` at the first other
  // one. Errors: a total that is no number.
  base::Result<base::Unit> Read(Lines& lines);
};

// Adds to a sum of parameters; false, and the sum unchanged, beyond kMaxElements.
bool AddParams(std::int64_t& sum, std::int64_t params);

// Sets params and trainable of a table from its totals and the sum of its rows, which should be the
// same; notes when they are not (the larger is used, tables may leave weights out) or are missing.
void UseTotals(LayerList& list, const Totals& totals, std::int64_t row_sum);

// Tables of real runs print the batch as a number. Finds it: of the commonest first dimensions the
// one that divides the most first dimensions, the largest of equals. Turns its multiples into -1,
// -2 …, and says in a note which rows do not fit. Nothing happens if the batch is known to be -1.
void FindBatch(LayerList& list);

// A row of a table that ends at this row's depth and shows its parameters: one operation by its
// name and its size, or a block whose inside is not printed?
bool LooksCollapsed(const Layer& layer);

void AddNote(LayerList& list, Note::Kind kind, std::string text);
// Notes about the rows as they are in the end. `collapsed` are blocks whose inside is not printed:
// they become kUnknown, and the list says that it is collapsed.
void NoteCollapsed(LayerList& list, const std::vector<std::size_t>& collapsed);
void NoteUnknownTypes(LayerList& list, const std::vector<std::size_t>& except);
void NoteMissingShapes(LayerList& list);

// One function per format. `lines` stands at the header line (a tree: its first line) and is left
// after the summary. Errors: kInvalid "path:line: …".
base::Result<LayerList> ReadTorchSummary(Lines& lines);
base::Result<LayerList> ReadTorchInfo(Lines& lines);
base::Result<LayerList> ReadTorchTree(Lines& lines);
base::Result<LayerList> ReadKeras(Lines& lines);

}  // namespace carma::model
