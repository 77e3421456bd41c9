// A model as a list of layers. Summaries in all formats are converted to this form.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace carma::model {

inline constexpr std::size_t kMaxSummaryBytes = 64 << 20;
inline constexpr std::size_t kMaxLayers = 200'000;
inline constexpr std::size_t kMaxRank = 8;
inline constexpr std::int64_t kMaxDimension = std::int64_t{1} << 40;
// Upper limit for the elements of a tensor per sample and for the parameters of a model.
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 48;

// Dimensions as printed. A negative entry -k means k times the batch: -1 is the batch itself, and
// -64 is 64 windows per sample. A shape without negative entries does not grow with the batch.
class Shape {
 public:
  Shape() = default;
  // Returns false and changes nothing if the rank is at its maximum, or if the dimension is 0 or
  // beyond kMaxDimension.
  bool Push(std::int64_t dimension) {
    if (rank_ == kMaxRank || dimension == 0 || dimension > kMaxDimension ||
        dimension < -kMaxDimension) {
      return false;
    }
    dimensions_[rank_++] = dimension;
    return true;
  }
  std::span<const std::int64_t> dimensions() const { return {dimensions_.data(), rank_}; }
  std::size_t rank() const { return rank_; }
  bool empty() const { return rank_ == 0; }  // unknown shape
  std::int64_t operator[](std::size_t i) const { return dimensions_[i]; }
  std::int64_t last() const { return dimensions_[rank_ - 1]; }  // rank > 0
  bool ScalesWithBatch() const;
  // Elements per sample: the product of the dimensions, with -k counted as k. At most kMaxElements;
  // 0 for an unknown shape.
  std::int64_t Elements() const;
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, kMaxRank> dimensions_{};
  std::size_t rank_ = 0;
};

enum class RowKind {
  kLeaf,       // a module without children
  kBlock,      // a module with children and its own parameters
  kContainer,  // a module with children but no parameters of its own
  kUnknown,    // the summary does not distinguish leaves from containers (torchsummary)
};

// One row: a call to a module. A module that is called twice has two rows.
struct Layer {
  std::string type;  // class name: "Conv2d"
  std::string name;  // dotted path of attributes; empty if the summary does not give it
  Shape in;          // first input tensor; empty: unknown
  Shape out;
  std::int64_t params = 0;  // without its children's parameters
  std::int64_t trainable = 0;
  bool inplace = false;
  RowKind kind = RowKind::kLeaf;
  std::optional<double> dropout;       // dropout rate, 0..1
  std::optional<std::int64_t> kernel;  // positions of a convolution's kernel: 9 for 3x3
  // Input and output width of a linear layer, convolution, norm or embedding, taken from its
  // constructor. The input width of an embedding is its number of entries. Empty if unknown.
  // Printed module trees show these widths but no shapes.
  std::optional<std::int64_t> in_features;
  std::optional<std::int64_t> out_features;
  friend bool operator==(const Layer&, const Layer&) = default;
};

enum class SummaryFormat { kTorchSummary, kTorchInfo, kTorchTree, kKeras, kCarmaJson };

// A note for the author of a summary about values that were inferred, missing or contradictory.
struct Note {
  enum class Kind {
    kInferred,       // a value was derived; the text gives the rule
    kMissingShapes,  // rows without shapes, or no input shapes at all
    kCollapsed,      // blocks are printed as one row, so their contents are unknown
    kFooter,         // the totals at the end contradict the rows
    kUnknownLayer,   // no rule covers these types
    kOther,
  };
  Kind kind = Kind::kOther;
  std::string text;  // one sentence with the numbers
  friend bool operator==(const Note&, const Note&) = default;
};

// Bytes that autograd keeps for the backward pass, excluding parameters and buffers. Counted by a
// dry run (carma_summary.py).
struct SavedBytes {
  double per_sample = 0;
  double constant = 0;
  friend bool operator==(const SavedBytes&, const SavedBytes&) = default;
};

// Other memory that a training run uses, in bytes. Each value is counted at the precision it is
// stored in.
struct HeldBytes {
  double trained = 0;  // weights, without gradients
  double frozen = 0;   // weights that are not trained; includes the scales of quantised weights
  double others = 0;   // other models, such as a running mean of the weights or a teacher
  std::optional<double> states;  // the optimizer's states
  std::optional<double> step;    // temporaries of the optimizer's step
  friend bool operator==(const HeldBytes&, const HeldBytes&) = default;
};

struct LayerList {
  SummaryFormat format = SummaryFormat::kCarmaJson;
  std::string model;   // name, or empty
  std::string family;  // as named in the source, or empty
  std::string arch;    // kind within the family ("residual"), as named in the source, or empty
  Shape input;         // the model's input for one sample; empty: unknown
  Shape output;
  std::vector<Layer> layers;  // in the order the modules finish
  std::int64_t params = 0;    // model parameters, from the source if given
  std::int64_t trainable = 0;
  std::int64_t param_tensors = 0;  // 0: unknown
  std::int64_t buffer_bytes = 0;   // batch-norm statistics and similar buffers
  bool has_input_shapes = false;   // the rows have input shapes
  bool collapsed = false;          // some rows are blocks; a Note names them
  std::int64_t hidden_params = 0;  // parameters of rows with hidden contents
  // The "Forward/backward pass size" that torchinfo prints for `batch`: twice the output bytes of
  // all modules with parameters, including hidden modules. Empty if unknown.
  std::optional<double> pass_bytes;
  std::optional<double> dropout;         // rate of the model's dropout layers, if not in the rows
  std::optional<std::int64_t> batch;     // batch size used for the summary
  std::optional<std::string> optimizer;  // "adamw" …, as detected by carma_summary.py
  std::optional<std::string> precision;  // "fp32", "amp", "bf16" …
  std::optional<std::string> torch;      // PyTorch version used for training: "2.11.0+cu130"
  std::optional<std::string> loss;       // the loss used for `saved`: "sum", "cross-entropy" …
  std::optional<SavedBytes> saved;       // in `precision`, if known
  std::optional<HeldBytes> held;         // also in `precision`
  std::vector<Note> notes;
  friend bool operator==(const LayerList&, const LayerList&) = default;
};

}  // namespace carma::model
