// Reads PyTorch's print(model): a tree of constructors without shapes. pytorch_model_summary
// appends ", N params" to each module, where N includes the parameters of its children.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "base/try.h"
#include "model/op.h"
#include "model/reading.h"

namespace carma::model {
namespace {

// Without this limit, a few nested lines such as "999 x" could expand to any number of rows. A
// model with 128 experts in each of 60 layers has about 40 000 rows.
constexpr std::size_t kMaxCopiedRows = 50'000;

// The start of a module, parsed from one line.
struct Opening {
  std::string_view attribute;  // "conv1"; "0-11" for 12 identical modules; empty: the model itself
  std::int64_t copies = 1;
  std::string_view type;
  std::optional<std::string_view> arguments;  // empty: children follow
  std::optional<std::int64_t> params;         // as printed, if the module ends on this line
};

// Parses ", 1,536 params" as 1536, and accepts an empty tail. Returns false for anything else.
bool ParseTail(std::string_view tail, std::optional<std::int64_t>& params) {
  if (tail.empty()) return true;
  if (!tail.starts_with(", ") || !tail.ends_with(" params")) return false;
  params = ParseCount(tail.substr(2, tail.size() - 9));
  return params.has_value();
}

// Parses a line such as "(0-11): 12 x BertLayer(", "(conv1): Conv2d(3, 64, …), 9,408 params" or
// "ResNet(".
std::optional<Opening> ParseOpening(std::string_view line) {
  Opening opening;
  line = base::Trim(line);
  if (line.starts_with('(')) {
    const std::size_t close = line.find("): ");
    if (close == std::string_view::npos) return std::nullopt;
    opening.attribute = line.substr(1, close - 1);
    line.remove_prefix(close + 3);
    if (!IsName(opening.attribute)) return std::nullopt;
    if (const std::size_t times = line.find(" x "); times != std::string_view::npos) {
      if (const auto copies = ParseCount(line.substr(0, times)); copies && *copies > 0) {
        opening.copies = *copies;
        line.remove_prefix(times + 3);
      }
    }
  }
  const std::size_t open = line.find('(');
  if (open == std::string_view::npos) return std::nullopt;
  opening.type = line.substr(0, open);
  if (!IsName(opening.type)) return std::nullopt;
  if (open + 1 == line.size()) return opening;
  std::size_t close = open;
  for (int depth = 0; close < line.size(); ++close) {
    depth += line[close] == '(';
    depth -= line[close] == ')';
    if (depth == 0) break;
  }
  if (close == line.size()) return std::nullopt;
  opening.arguments = line.substr(open + 1, close - open - 1);
  if (!ParseTail(line.substr(close + 1), opening.params)) return std::nullopt;
  return opening;
}

// A module whose closing line has not been read yet.
struct Open {
  Layer layer;
  std::string parent;  // path of the module around it
  std::string index;   // index of the first copy: "0" of "0-11"
  std::int64_t copies = 1;
  std::size_t line = 0;  // counted from 1
  std::size_t first_row = 0;
  std::int64_t children = 0;  // parameters of the children
};

class TreeReader {
 public:
  explicit TreeReader(Lines& lines) : lines_(lines) { list_.format = SummaryFormat::kTorchTree; }

  Result<LayerList> Read() {
    do {
      if (lines_.AtEnd()) {
        return lines_.Fail(fmt::format(
            "the tree ends inside {}, which begins on line {}, and may have been truncated",
            base::Printable(open_.back().layer.type, 60), open_.back().line));
      }
      const std::string_view line = base::Trim(lines_.Take());
      CARMA_TRY(TakeLine(line));
    } while (!open_.empty());
    Totals totals;
    CARMA_TRY(totals.Read(lines_));
    Finish(totals);
    return std::move(list_);
  }

 private:
  Result<Unit> TakeLine(std::string_view line) {
    if (line.starts_with(')')) {
      std::optional<std::int64_t> params;
      if (!ParseTail(line.substr(1), params)) {
        return lines_.Fail(
            fmt::format("'{}', expected ')' or '), 1,234 params'", base::Printable(line, 80)));
      }
      return Close(params);
    }
    const std::optional<Opening> opening = ParseOpening(line);
    if (!opening && open_.empty()) {
      return lines_.Fail(fmt::format("'{}', expected a module like 'Linear(in_features=4, …)'",
                                     base::Printable(line, 80)));
    }
    // Any other line between modules is text that a module prints about itself.
    if (!opening) {
      if (!line.empty()) ++passed_over_;
      return Unit{};
    }
    Open module;
    module.layer.type = opening->type;
    module.parent = open_.empty() ? "" : open_.back().layer.name;
    module.copies = opening->copies;
    module.line = lines_.next();
    module.first_row = list_.layers.size();
    module.index = opening->attribute;
    if (module.copies > 1) module.index = module.index.substr(0, module.index.find('-'));
    module.layer.name = JoinPath(module.parent, module.index);
    if (module.layer.name.size() > kMaxPathBytes)
      return lines_.Fail("attribute names are too long");
    if (open_.size() == kMaxDepth)
      return lines_.Fail(fmt::format("modules nested deeper than {} levels", kMaxDepth));
    open_.push_back(std::move(module));
    if (!opening->arguments) return Unit{};
    told_ |= opening->params.has_value();
    const auto derived = ReadConstructor(*opening->arguments, open_.back().layer);
    if (!opening->params && !derived && !opening->arguments->empty())
      AddUndetermined(open_.back().layer.type);
    return Close(opening->params ? opening->params : derived.value_or(0));
  }

  // Closes the innermost module. params: the parameters of the module and its children, as printed
  // or derived.
  Result<Unit> Close(std::optional<std::int64_t> params) {
    Open module = std::move(open_.back());
    open_.pop_back();
    Layer& layer = module.layer;
    const bool parent = list_.layers.size() > module.first_row;
    std::int64_t own = 0;
    if (params) {
      told_ |= parent;
      own = std::max<std::int64_t>(0, *params - module.children);
      shared_ |= *params < module.children;
    } else if (parent && layer.type == "MultiheadAttention") {
      own = AttentionParams(list_.layers.back());
    }
    const std::int64_t all = params.value_or(module.children + own);
    layer.params = own;
    layer.trainable = own;
    layer.kind = !parent ? RowKind::kLeaf : own > 0 ? RowKind::kBlock : RowKind::kContainer;
    const Op op = OpOf(layer.type);
    if (op == Op::kLinear && !layer.in_features) InferConv1D(layer);
    if (layer.out_features) last_width_ = layer.out_features;
    if (layer.out_features && op == Op::kLayerNorm) norm_width_ = layer.out_features;
    list_.layers.push_back(std::move(layer));
    CARMA_TRY(Copy(module));
    std::int64_t& sum = open_.empty() ? list_.params : open_.back().children;
    for (std::int64_t i = 0; i < module.copies; ++i) {
      if (!AddParams(sum, all)) return lines_.Fail("more than 2^48 parameters");
    }
    return Unit{};
  }

  // Copies the rows of a module such as "(0-11): 12 x Layer(…)", which stands for twelve identical
  // modules.
  Result<Unit> Copy(const Open& module) {
    const std::size_t rows = list_.layers.size() - module.first_row;
    const std::size_t copies = static_cast<std::size_t>(module.copies) - 1;
    if (copies > (kMaxCopiedRows - copied_rows_) / rows)
      return lines_.Fail(fmt::format("lines such as '(0-11): 12 x' expand to more than {} layers",
                                     kMaxCopiedRows));
    const std::size_t copied = rows * copies;
    copied_rows_ += copied;
    if (list_.layers.size() + copied > kMaxLayers)
      return lines_.Fail(fmt::format("more than {} layers", kMaxLayers));
    const std::size_t prefix = JoinPath(module.parent, module.index).size();
    const std::int64_t first = ParseCount(module.index).value_or(0);
    for (std::int64_t copy = 1; copy < module.copies; ++copy) {
      const std::string name = JoinPath(module.parent, fmt::format("{}", first + copy));
      for (std::size_t i = 0; i < rows; ++i) {
        Layer layer = list_.layers[module.first_row + i];
        layer.name = name + layer.name.substr(prefix);
        list_.layers.push_back(std::move(layer));
      }
    }
    return Unit{};
  }

  // Conv1D from the Transformers library prints no widths, and has inputs x outputs + outputs
  // parameters. It reads the output of the last layer or, at the start of a branch, of the last
  // norm. Uses the first of these two widths that fits the parameter count.
  void InferConv1D(Layer& layer) const {
    for (const auto& width : {last_width_, norm_width_}) {
      if (!width || layer.params == 0 || layer.params % (*width + 1) != 0) continue;
      layer.in_features = width;
      layer.out_features = layer.params / (*width + 1);
      return;
    }
  }

  void AddUndetermined(const std::string& type) {
    if (std::ranges::find(undetermined_, type) == undetermined_.end() && undetermined_.size() < 5)
      undetermined_.push_back(type);
  }

  // The parameters to subtract for a tied output layer. Language models tie the output layer to the
  // embedding table, but a printed tree counts both. An output layer of the same size as the table
  // is assumed to be tied. The enclosing block may count the layer's bias a second time.
  std::int64_t TiedParams() {
    const Layer* table = nullptr;
    for (const Layer& layer : list_.layers) {
      if (OpOf(layer.type) != Op::kEmbedding || !layer.in_features || !layer.out_features) continue;
      if (table == nullptr || layer.params > table->params) table = &layer;
    }
    if (table == nullptr || *table->in_features <= *table->out_features) return 0;
    const auto output = std::ranges::find_if(list_.layers, [&](const Layer& layer) {
      return OpOf(layer.type) == Op::kLinear && layer.in_features == table->out_features &&
             layer.out_features == table->in_features && layer.params >= table->params;
    });
    if (output == list_.layers.end()) return 0;
    std::int64_t tied = table->params;
    const std::int64_t bias = output->params - table->params;
    const auto around = std::next(output);
    if (bias > 0 && around != list_.layers.end() && around->kind == RowKind::kBlock &&
        around->params == bias) {
      tied += bias;
    }
    AddNote(list_, Note::Kind::kInferred,
            fmt::format("{} is the same size as table {} and is assumed to share its weight, so "
                        "{} parameters are subtracted",
                        base::Printable(output->name), base::Printable(table->name), tied));
    return tied;
  }

  void Finish(const Totals& totals) {
    list_.model = list_.layers.back().type;
    const std::int64_t printed = list_.params;
    list_.params -= std::min(list_.params, TiedParams());
    list_.trainable = list_.params;
    if (!told_) {
      AddNote(
          list_, Note::Kind::kInferred,
          fmt::format(
              "no parameter counts are printed; {} parameters were derived from the constructors, "
              "excluding those that belong to the blocks themselves (tokens, position tables)",
              list_.params));
    }
    if (!undetermined_.empty()) {
      AddNote(
          list_, Note::Kind::kUnknownLayer,
          fmt::format("the weights of some layers cannot be derived from their constructors and "
                      "are not counted: {}",
                      base::Printable(base::Join(undetermined_, ", "))));
    }
    if (shared_) {
      AddNote(list_, Note::Kind::kFooter,
              "some blocks have fewer parameters than their children, so weights are shared; the "
              "blocks' counts are used");
    }
    if (totals.params && *totals.params != printed) {
      AddNote(list_, Note::Kind::kFooter,
              fmt::format(
                  "the totals state {} parameters, but the model's last line states {}; using {}",
                  *totals.params, printed, list_.params));
    }
    if (passed_over_ > 0) {
      AddNote(list_, Note::Kind::kOther,
              fmt::format("lines inside the tree ignored because they are not modules: {}",
                          passed_over_));
    }
    AddNote(
        list_, Note::Kind::kMissingShapes,
        "a printed module tree has no shapes, so it does not show what grows with the batch size");
    // Adds only the note on unknown types, because the note above covers missing shapes.
    NoteUnknownTypes(list_, {});
  }

  Lines& lines_;
  LayerList list_;
  std::vector<Open> open_;
  std::vector<std::string> undetermined_;
  std::optional<std::int64_t> last_width_;  // width of the last layer that has one
  std::optional<std::int64_t> norm_width_;  // width of the last norm
  std::size_t copied_rows_ = 0;
  std::size_t passed_over_ = 0;
  bool told_ = false;    // parameters are printed
  bool shared_ = false;  // a block has fewer parameters than its children
};

}  // namespace

Result<LayerList> ReadTorchTree(Lines& lines) {
  return TreeReader(lines).Read();
}

}  // namespace carma::model
