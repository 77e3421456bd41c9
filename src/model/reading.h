// Shared by all readers of text summaries: numbers, shapes, totals, batch, order of rows.
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

inline constexpr std::size_t kMaxNameBytes = 128;  // of a type or of one attribute
inline constexpr std::size_t kMaxPathBytes = 512;  // of the attributes from the model to a row
inline constexpr int kMaxDepth = 64;               // of nested modules

inline constexpr std::size_t kMaxLines = 1'000'000;
inline constexpr std::size_t kMaxLineBytes = 64 << 10;

// A cursor over the lines of a text summary, which borrows the text and adds places to errors. Line
// endings ("\n", "\r\n") are cut off.
class Lines {
 public:
  // Errors: kInvalid "path:line: …" for a NUL byte, a line beyond kMaxLineBytes, or more than
  // kMaxLines.
  static Result<Lines> Split(std::string_view text, std::string_view path);

  std::size_t size() const { return lines_.size(); }
  bool AtEnd() const { return next_ == lines_.size(); }
  std::string_view Peek() const { return lines_[next_]; }               // not at the end
  std::string_view At(std::size_t line) const { return lines_[line]; }  // counted from 0
  std::string_view Take() { return lines_[next_++]; }                   // not at the end
  std::size_t next() const { return next_; }
  // Returns kInvalid "path:line: what" for the line taken last.
  std::unexpected<base::Error> Fail(std::string_view what) const { return FailAt(next_, what); }
  // The same error for a given line, counted from 1.
  std::unexpected<base::Error> FailAt(std::size_t line, std::string_view what) const;

 private:
  std::string path_;
  std::vector<std::string_view> lines_;
  std::size_t next_ = 0;
};

// Parses "1,234,567", from 0 to kMaxElements; empty for anything else.
std::optional<std::int64_t> ParseCount(std::string_view text);

// Whether the text may name a class or attribute: letters, digits, '_', '.' and '-', at most
// kMaxNameBytes.
bool IsName(std::string_view text);

// Parses "[32, 3, 224, 224]" or "(None, 28, 28, 1)"; of a list of shapes, only the first. A leading
// None is the batch (-1). Leaves `shape` empty if the size is unknown: "[]", a None after the first
// dimension, or a dimension of 0. Returns false if the text is not a shape or exceeds the limits in
// layers.h.
bool ParseShape(std::string_view text, Shape& shape);

// Joins "encoder" and "layer" to "encoder.layer"; an empty parent is the model itself.
std::string JoinPath(std::string_view parent, std::string_view name);

// The shape of one sample: without its first dimension.
Shape WithoutBatch(const Shape& shape);

// Whether the line consists of drawing characters: "=====", "_____", "-----" and parts of boxes.
bool IsRule(std::string_view line);

// Rows list parents first, but in layer lists children come before their parent, as modules finish.
// Returns row indices in that order. depths: nesting depth of each row.
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
  // Reads totals, sizes, rules and blank lines; stops at the first other line. Errors: a total that
  // is not a number.
  Result<Unit> Read(Lines& lines);
};

// Adds to a sum of parameters. Returns false without a change if the sum would exceed kMaxElements.
bool AddParams(std::int64_t& sum, std::int64_t params);

// Sets params and trainable of a table from its totals and the sum of its rows. The larger number
// is used, because tables may omit weights. Adds a note if they differ or are missing.
void UseTotals(LayerList& list, const Totals& totals, std::int64_t row_sum);

// Tables of real runs print the batch as a number. The batch is the frequent first dimension that
// divides most first dimensions (the largest if several do). Replaces its multiples by -1, -2 …,
// and adds a note on rows that do not fit. Does nothing if the batch is -1 already.
void FindBatch(LayerList& list);

// Whether a row with parameters at a table's deepest level looks like a block with hidden contents
// rather than one operation.
bool LooksCollapsed(const Layer& layer);

void AddNote(LayerList& list, Note::Kind kind, std::string text);
// Add final notes on the rows. `collapsed` are blocks with hidden contents: they become kUnknown,
// and the list is marked as collapsed.
void NoteCollapsed(LayerList& list, const std::vector<std::size_t>& collapsed);
void NoteUnknownTypes(LayerList& list, const std::vector<std::size_t>& except);
void NoteMissingShapes(LayerList& list);

// One function per format. `lines` is at the header line (for a tree, its first line) before the
// call, and past the summary afterwards. Errors: kInvalid "path:line: …".
Result<LayerList> ReadTorchSummary(Lines& lines);
Result<LayerList> ReadTorchInfo(Lines& lines);
Result<LayerList> ReadTorchTree(Lines& lines);
Result<LayerList> ReadKeras(Lines& lines);

// ---- constructor.cc: a module's constructor, such as "Conv2d(3, 64, kernel_size=(7, 7), …)" ----

// Fills in_features, out_features, kernel, dropout and inplace of `layer` from the text between the
// parentheses, depending on layer.type. Returns the module's own parameters: 0 for modules without
// weights, empty if the type is unknown or the text does not determine them.
std::optional<std::int64_t> ReadConstructor(std::string_view arguments, Layer& layer);

// Own parameters of an nn.MultiheadAttention with the output projection `projection`: its query,
// key and value weights, which are not printed, have the same width.
std::int64_t AttentionParams(const Layer& projection);

}  // namespace carma::model
