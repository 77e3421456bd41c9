#include "model/reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "base/text.h"
#include "model/op.h"

namespace carma::model {
namespace {

constexpr std::size_t kNamesInANote = 5;
constexpr std::size_t kBatchCandidates = 16;

// Joins names into a text such as "Conv2d, Linear and others".
std::string Names(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesInANote); ++i) {
    if (i > 0) text += ", ";
    text += base::Printable(names[i], kMaxNameBytes);
  }
  if (names.size() > kNamesInANote) text += " and others";
  return text;
}

// Adds a name that is not in the list yet. Keeps one more name than a note shows, so that Names()
// can tell whether there are others.
void AddOnce(std::vector<std::string>& names, const std::string& name) {
  if (names.size() <= kNamesInANote && std::ranges::find(names, name) == names.end())
    names.push_back(name);
}

// PyTorch modules that have weights and never contain modules that a summary would print.
constexpr std::string_view kBuiltIn =
    " BatchNorm1d BatchNorm2d BatchNorm3d Bilinear Conv1D Conv1d Conv2d Conv3d "
    "ConvTranspose1d ConvTranspose2d ConvTranspose3d Embedding EmbeddingBag GRU GRUCell "
    "GroupNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d LSTM LSTMCell LayerNorm Linear "
    "MultiheadAttention PReLU ParameterList ParameterDict RMSNorm RNN RNNCell SyncBatchNorm "
    "NonDynamicallyQuantizableLinear ";

// True if the type is a library's variant of a built-in module: "StdConv2d", "Conv2dSame",
// "LlamaRMSNorm".
bool IsVariant(std::string_view type) {
  if (type.ends_with("Same")) type.remove_suffix(4);
  constexpr std::string_view kEnds[] = {"Conv1d",    "Conv2d",      "Conv3d",     "Linear",
                                        "LayerNorm", "BatchNorm",   "GroupNorm",  "RMSNorm",
                                        "Embedding", "BatchNorm2d", "LayerNorm2d"};
  return std::ranges::any_of(kEnds, [&](std::string_view end) { return type.ends_with(end); });
}

// True if the layer has at most a few parameters per channel, like a layer scale or a norm with an
// unknown name.
bool IsPerChannel(const Layer& layer) {
  std::int64_t width = layer.out_features.value_or(0);
  if (layer.out.rank() > 0) width = std::max(width, std::abs(layer.out.last()));
  if (layer.out.rank() > 2) width = std::max(width, std::abs(layer.out[1]));
  return width > 1 && layer.params % width == 0 && layer.params / width <= 4;
}

Shape WithFirst(const Shape& shape, std::int64_t first) {
  Shape changed;
  changed.Push(first);
  for (const std::int64_t dimension : shape.dimensions().subspan(1)) changed.Push(dimension);
  return changed;
}

// The most frequent values, at most kBatchCandidates of them.
std::vector<std::int64_t> Commonest(std::vector<std::int64_t> values) {
  std::ranges::sort(values);
  std::vector<std::pair<std::int64_t, std::int64_t>> counted;  // -count, value
  for (auto at = values.begin(); at != values.end();) {
    const auto end = std::upper_bound(at, values.end(), *at);
    counted.emplace_back(at - end, *at);
    at = end;
  }
  std::ranges::sort(counted);
  std::vector<std::int64_t> commonest;
  for (std::size_t i = 0; i < std::min(counted.size(), kBatchCandidates); ++i)
    commonest.push_back(counted[i].second);
  return commonest;
}

std::int64_t BestDivisor(const std::vector<std::int64_t>& values) {
  std::pair<std::ptrdiff_t, std::int64_t> best{0, 1};  // how many values it divides, divisor
  for (const std::int64_t candidate : Commonest(values)) {
    const auto divided =
        std::ranges::count_if(values, [&](std::int64_t v) { return v % candidate == 0; });
    best = std::max(best, {divided, candidate});
  }
  return best.second;
}

// Reads a size that serves only as a hint. Empty if the number is not plausible.
std::optional<double> ParseMegabytes(std::string_view text) {
  constexpr double kMostMegabytes = 1e12;
  const std::optional<double> megabytes = base::ParseDouble(base::Trim(text));
  if (!megabytes || *megabytes <= 0 || *megabytes > kMostMegabytes) return std::nullopt;
  return megabytes;
}

}  // namespace

std::optional<std::int64_t> ParseCount(std::string_view text) {
  std::int64_t value = 0;
  bool digits = false;
  for (const char c : text) {
    if (c == ',' && digits) continue;
    if (c < '0' || c > '9') return std::nullopt;
    digits = true;
    value = value * 10 + (c - '0');
    if (value > kMaxElements) return std::nullopt;
  }
  if (!digits) return std::nullopt;
  return value;
}

bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameBytes && std::ranges::all_of(text, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
  });
}

std::string_view TypeInLabel(std::string_view label) {
  const std::size_t dash = label.rfind('-');
  const bool valid = dash != std::string_view::npos && IsName(label.substr(0, dash)) &&
                     ParseCount(label.substr(dash + 1));
  return valid ? label.substr(0, dash) : "";
}

bool ParseShape(std::string_view text, Shape& shape) {
  shape = Shape();
  text = base::Trim(text);
  std::size_t open = 0;
  while (open < text.size() && (text[open] == '[' || text[open] == '(' || text[open] == ' '))
    ++open;
  if (open == 0 || open == text.size()) return false;
  const std::size_t close = text.find_first_of("])", open);
  if (close == std::string_view::npos) return false;
  std::string_view list = base::Trim(text.substr(open, close - open));
  if (list.ends_with(',')) list.remove_suffix(1);  // a tuple with one item: "(10,)"
  if (list.empty()) return true;
  Shape found;
  bool known = true;
  bool first = true;
  for (std::string_view piece : base::Split(list, ',')) {
    piece = base::Trim(piece);
    std::optional<std::int64_t> dimension;
    if (first && (piece == "None" || piece == "-1")) {
      dimension = -1;
    } else if (piece == "None") {
      known = false;
      continue;
    } else {
      dimension = ParseCount(piece);
    }
    first = false;
    if (!dimension) return false;
    if (*dimension == 0) {
      known = false;
    } else if (!found.Push(*dimension)) {
      return false;
    }
  }
  if (found.Elements() >= kMaxElements) return false;
  if (known) shape = found;
  return true;
}

std::string JoinPath(std::string_view parent, std::string_view name) {
  return parent.empty() ? std::string(name) : fmt::format("{}.{}", parent, name);
}

Shape WithoutBatch(const Shape& shape) {
  Shape sample;
  for (std::size_t i = 1; i < shape.rank(); ++i) sample.Push(shape[i]);
  return sample;
}

bool IsRule(std::string_view line) {
  line = base::Trim(line);
  bool drawn = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '=' || c == '-' || c == '_') {
      drawn = true;
    } else if (c == '\xE2' && i + 2 < line.size() && line[i + 1] >= '\x94' &&
               line[i + 1] <= '\x95') {
      drawn = true;  // U+2500 to U+257F
      i += 2;
    } else if (c != ' ' && c != '+' && c != '|') {
      return false;
    }
  }
  return drawn;
}

std::vector<std::size_t> FinishingOrder(std::span<const int> depths) {
  std::vector<std::size_t> order;
  std::vector<std::size_t> open;
  order.reserve(depths.size());
  const auto close_to = [&](int depth) {
    while (!open.empty() && depths[open.back()] >= depth) {
      order.push_back(open.back());
      open.pop_back();
    }
  };
  for (std::size_t i = 0; i < depths.size(); ++i) {
    close_to(depths[i]);
    open.push_back(i);
  }
  close_to(-1);
  return order;
}

Result<Unit> Totals::Read(Lines& lines) {
  // The lines that torchsummary, torchinfo and Keras print below the table.
  constexpr std::string_view kPassSize = "Forward/backward pass size (MB):";
  constexpr std::string_view kSizes[] = {"Input size",      "Forward/backward pass size",
                                         "Params size",     "Estimated Total Size",
                                         "Total mult-adds", "Optimizer params:"};
  const std::pair<std::string_view, std::optional<std::int64_t> Totals::*> counts[] = {
      {"Total params:", &Totals::params},
      {"Trainable params:", &Totals::trainable},
      {"Non-trainable params:", &Totals::frozen}};
  while (!lines.AtEnd()) {
    const std::string_view line = base::Trim(lines.Peek());
    const auto* count =
        std::ranges::find_if(counts, [&](const auto& c) { return line.starts_with(c.first); });
    const bool known =
        line.empty() || IsRule(line) || count != std::end(counts) ||
        std::ranges::any_of(kSizes, [&](std::string_view s) { return line.starts_with(s); });
    if (!known) break;
    lines.Take();
    if (line.starts_with(kPassSize)) pass_mb = ParseMegabytes(line.substr(kPassSize.size()));
    if (count == std::end(counts)) continue;
    // Drops the size in bytes that Keras appends: "34,826 (136.04 KB)".
    std::string_view number = base::Trim(line.substr(count->first.size()));
    number = number.substr(0, number.find(' '));
    this->*(count->second) = ParseCount(number);
    if (!(this->*(count->second))) {
      return lines.Fail(fmt::format("'{}' after '{}', expected a parameter count of at most 2^48",
                                    base::Printable(number, 40), count->first));
    }
  }
  return Unit{};
}

bool AddParams(std::int64_t& sum, std::int64_t params) {
  if (params > kMaxElements - sum) return false;
  sum += params;
  return true;
}

void UseTotals(LayerList& list, const Totals& totals, std::int64_t row_sum) {
  list.params = std::max(totals.params.value_or(0), row_sum);
  if (!totals.params) {
    AddNote(list, Note::Kind::kFooter,
            fmt::format("no totals below the rows, which sum to {} parameters", row_sum));
  } else if (*totals.params != row_sum) {
    AddNote(list, Note::Kind::kFooter,
            fmt::format("the totals state {} parameters, but the rows sum to {}; using {}",
                        *totals.params, row_sum, list.params));
  }
  list.trainable = std::min(list.params, totals.trainable.value_or(list.params));
  std::int64_t trained_rows = 0;
  for (const Layer& layer : list.layers) trained_rows += layer.trainable;
  if (totals.trainable && list.trainable < std::min(trained_rows, list.params)) {
    AddNote(list, Note::Kind::kInferred,
            fmt::format("{} of {} parameters are not trained; the rows do not show which",
                        list.params - list.trainable, list.params));
  }
}

void FindBatch(LayerList& list) {
  struct Printed {
    Shape* shape;
    const std::string* row;  // the row's type
  };
  const std::string model = "the model";
  std::vector<Printed> shapes{{&list.input, &model}, {&list.output, &model}};
  for (Layer& layer : list.layers) {
    shapes.push_back({&layer.in, &layer.type});
    shapes.push_back({&layer.out, &layer.type});
  }
  std::erase_if(shapes, [](const Printed& printed) { return printed.shape->empty(); });
  std::vector<std::int64_t> firsts;
  firsts.reserve(shapes.size());
  for (const Printed& printed : shapes) {
    if ((*printed.shape)[0] < 0) return;
    firsts.push_back((*printed.shape)[0]);
  }
  if (firsts.empty()) return;
  const std::int64_t batch = BestDivisor(firsts);
  std::size_t constant = 0;
  std::vector<std::string> misfits;
  for (const Printed& printed : shapes) {
    const std::int64_t first = (*printed.shape)[0];
    if (first % batch == 0) {
      *printed.shape = WithFirst(*printed.shape, -(first / batch));
    } else {
      ++constant;
      AddOnce(misfits, *printed.row);
    }
  }
  list.batch = batch;
  std::string text = fmt::format("the shapes were printed with a batch of {}", batch);
  if (constant > 0) {
    text += fmt::format(
        "; {} of {} shapes do not fit this batch and are assumed not to depend on it ({})",
        constant, shapes.size(), Names(misfits));
  }
  AddNote(list, Note::Kind::kInferred, std::move(text));
}

bool LooksCollapsed(const Layer& layer) {
  return layer.params > 0 && !base::IsWordIn(kBuiltIn, layer.type) && !IsVariant(layer.type) &&
         !IsPerChannel(layer);
}

void AddNote(LayerList& list, Note::Kind kind, std::string text) {
  list.notes.push_back({kind, std::move(text)});
}

void NoteCollapsed(LayerList& list, const std::vector<std::size_t>& collapsed) {
  if (collapsed.empty()) return;
  std::vector<std::string> types;
  std::int64_t params = 0;
  for (const std::size_t row : collapsed) {
    list.layers[row].kind = RowKind::kUnknown;
    AddOnce(types, list.layers[row].type);
    params += list.layers[row].params;
  }
  list.collapsed = true;
  list.hidden_params = params;
  AddNote(list, Note::Kind::kCollapsed,
          fmt::format("blocks printed as one row: {} ({}), so the layers that have {} of the {} "
                      "parameters are unknown; print the summary at full depth",
                      collapsed.size(), Names(types), params, list.params));
}

void NoteUnknownTypes(LayerList& list, const std::vector<std::size_t>& except) {
  std::vector<std::string> unknown;
  for (std::size_t i = 0; i < list.layers.size(); ++i) {
    const Layer& layer = list.layers[i];
    if (layer.params > 0 && OpOf(layer.type) == Op::kOther && IsOperation(layer) &&
        !std::ranges::binary_search(except, i)) {
      AddOnce(unknown, layer.type);
    }
  }
  if (unknown.empty()) return;
  AddNote(list, Note::Kind::kUnknownLayer,
          fmt::format("these layers have weights but an unknown type: {}", Names(unknown)));
}

void NoteMissingShapes(LayerList& list) {
  std::size_t operations = 0;
  std::size_t shapeless = 0;
  for (const Layer& layer : list.layers) {
    if (!IsOperation(layer)) continue;
    ++operations;
    shapeless += layer.out.empty();
  }
  if (shapeless == 0) return;
  AddNote(list, Note::Kind::kMissingShapes,
          fmt::format("{} of {} layers have no output shape; their activations are not counted",
                      shapeless, operations));
}

Result<Lines> Lines::Split(std::string_view text, std::string_view path) {
  Lines lines;
  lines.path_ = base::Printable(path);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::size_t number = lines.lines_.size() + 1;
    if (number > kMaxLines)
      return lines.FailAt(number, fmt::format("more than {} lines", kMaxLines));
    if (line.size() > kMaxLineBytes) {
      return lines.FailAt(number, fmt::format("the line is {} bytes long, expected at most {}",
                                              line.size(), kMaxLineBytes));
    }
    if (line.contains('\0'))
      return lines.FailAt(number, "the line contains a NUL byte; expected text");
    lines.lines_.push_back(line);
  }
  return lines;
}

std::unexpected<base::Error> Lines::FailAt(std::size_t line, std::string_view what) const {
  return Invalid("{}:{}: {}", path_, std::max<std::size_t>(line, 1), what);
}

}  // namespace carma::model
