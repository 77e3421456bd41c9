// Functions shared by all readers of text summaries: numbers, shapes, totals, batch, row order.
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

namespace carma::model {

inline constexpr std::size_t kMaxNameBytes = 128;  // name of a type or attribute
inline constexpr std::size_t kMaxPathBytes = 512;  // all attribute names on the way to a row
inline constexpr int kMaxDepth = 64;               // nested modules

inline constexpr std::size_t kMaxLines = 1'000'000;
inline constexpr std::size_t kMaxLineBytes = 64 << 10;

// A cursor over the lines of a text summary. It borrows the text and adds the position to errors.
// Line endings ("\n", "\r\n") are removed.
class Lines {
 public:
  // Returns kInvalid "path:line: …" for a NUL byte, a line beyond kMaxLineBytes, or more than
  // kMaxLines.
  static Result<Lines> Split(std::string_view text, std::string_view path);

  std::size_t size() const { return lines_.size(); }
  bool AtEnd() const { return next_ == lines_.size(); }
  std::string_view Peek() const { return lines_[next_]; }               // must not be at the end
  std::string_view At(std::size_t line) const { return lines_[line]; }  // counted from 0
  std::string_view Take() { return lines_[next_++]; }                   // must not be at the end
  std::size_t next() const { return next_; }
  // Returns kInvalid "path:line: what" for the last line taken.
  std::unexpected<base::Error> Fail(std::string_view what) const { return FailAt(next_, what); }
  // Like Fail(), for a given line counted from 1.
  std::unexpected<base::Error> FailAt(std::size_t line, std::string_view what) const;

 private:
  std::string path_;
  std::vector<std::string_view> lines_;
  std::size_t next_ = 0;
};

// Parses "1,234,567". Empty if the text is not a number from 0 to kMaxElements.
std::optional<std::int64_t> ParseCount(std::string_view text);

// True if the text is a valid class or attribute name: letters, digits, '_', '.' and '-', at most
// kMaxNameBytes.
bool IsName(std::string_view text);

// The class name in a row label of torchsummary such as "Conv2d-1". Empty for any other text.
std::string_view TypeInLabel(std::string_view label);

// Parses "[32, 3, 224, 224]" or "(None, 28, 28, 1)". Only the first shape of a list is read. A
// leading None is the batch (-1). Leaves `shape` empty if the size is unknown: "[]", a None after
// the first dimension, or a dimension of 0. Returns false if the text is not a shape or exceeds the
// limits in layers.h.
bool ParseShape(std::string_view text, Shape& shape);

// Joins "encoder" and "layer" into "encoder.layer". An empty parent stands for the model itself.
std::string JoinPath(std::string_view parent, std::string_view name);

// The shape of one sample: all dimensions except the first.
Shape WithoutBatch(const Shape& shape);

// True if the line is a horizontal rule made of drawing characters: "=====", "_____", "-----" or
// parts of boxes.
bool IsRule(std::string_view line);

// Converts from row order (parents first) to layer-list order (children before their parent).
// Returns the row indices in finishing order. depths: nesting depth of each row.
std::vector<std::size_t> FinishingOrder(std::span<const int> depths);
inline bool HasChildren(std::span<const int> depths, std::size_t i) {
  return i + 1 < depths.size() && depths[i + 1] > depths[i];
}

// The totals below a summary.
struct Totals {
  std::optional<std::int64_t> params;
  std::optional<std::int64_t> trainable;
  std::optional<std::int64_t> frozen;
  std::optional<double> pass_mb;  // "Forward/backward pass size", in the program's megabytes
  // Reads totals, sizes, horizontal rules and blank lines, and stops at the first other line.
  // Returns an error if a total is not a number.
  Result<Unit> Read(Lines& lines);
};

// Adds `params` to `sum`. Returns false and changes nothing if the result would exceed
// kMaxElements.
bool AddParams(std::int64_t& sum, std::int64_t params);

// Sets params and trainable of the list from the table's totals or the sum of its rows, whichever
// is larger, because tables may omit weights. Adds a note if the numbers differ or the totals are
// missing.
void UseTotals(LayerList& list, const Totals& totals, std::int64_t row_sum);

// Finds the batch size in a table whose shapes were printed with a specific batch. Considers the
// most frequent first dimensions, and picks the one that divides the most first dimensions; the
// largest in a tie. Replaces its multiples with -1, -2 …, and adds a note about rows that do not
// fit. Does nothing if the batch is already -1.
void FindBatch(LayerList& list);

// True if a row at its table's deepest level looks like a collapsed block rather than a single
// operation.
bool LooksCollapsed(const Layer& layer);

void AddNote(LayerList& list, Note::Kind kind, std::string text);
// Functions that add the final notes to the list. collapsed: blocks whose contents are hidden;
// their kind becomes kUnknown, and the list is marked as collapsed.
void NoteCollapsed(LayerList& list, const std::vector<std::size_t>& collapsed);
void NoteUnknownTypes(LayerList& list, const std::vector<std::size_t>& except);
void NoteMissingShapes(LayerList& list);

// One reader per format. On entry, `lines` is at the header line (for a tree, at its first line).
// On return, `lines` is past the summary. All errors are kInvalid "path:line: …".
Result<LayerList> ReadTorchSummary(Lines& lines);
Result<LayerList> ReadTorchInfo(Lines& lines);
Result<LayerList> ReadTorchTree(Lines& lines);
Result<LayerList> ReadKeras(Lines& lines);
// Reads CARMA's JSON. text: exactly one object. Returns kInvalid "place: /layers/3/1: expected …"
// for an invalid value, or a message without a JSON pointer if the JSON is malformed.
Result<LayerList> ReadLayerList(std::string_view text, std::string_view place);

// ---- constructor.cc: a module's constructor, such as "Conv2d(3, 64, kernel_size=(7, 7), …)" ----

// Sets in_features, out_features, kernel, dropout and inplace of `layer` from the text between the
// parentheses, depending on layer.type. Returns the number of the module's own parameters: 0 for
// modules without weights; empty if the type is unknown or the number cannot be derived.
std::optional<std::int64_t> ReadConstructor(std::string_view arguments, Layer& layer);

// The parameters of an nn.MultiheadAttention itself, without its output projection. The weights of
// query, key and value are not printed, but have the same width as the projection.
std::int64_t AttentionParams(const Layer& projection);

}  // namespace carma::model
