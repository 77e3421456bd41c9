// Reads CARMA's own layer lists, which have one JSON object per model (docs/use/layer-lists.md).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "model/op.h"
#include "model/reading.h"

namespace carma::model {
namespace {

using base::Json;

constexpr std::size_t kMaxTextBytes = 4096;  // for a name

// An error and its position as a JSON pointer.
struct Complaint {
  std::string pointer;
  std::string expected;
};
using Taken = std::expected<void, Complaint>;

std::unexpected<Complaint> Expected(std::string pointer, std::string expected) {
  return std::unexpected(Complaint{std::move(pointer), std::move(expected)});
}

std::optional<std::int64_t> WholeNumber(const Json& value) {
  constexpr auto kHighest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > kHighest) return std::nullopt;
  return value.get<std::int64_t>();
}

Taken TakeCount(const Json& value, std::int64_t high, std::int64_t& target,
                std::string_view pointer) {
  const std::optional<std::int64_t> number = WholeNumber(value);
  if (!number || *number < 0 || *number > high)
    return Expected(std::string(pointer), fmt::format("a whole number from 0 to {}", high));
  target = *number;
  return {};
}

Taken TakeNumber(const Json& value, double high, double& target, std::string_view pointer) {
  const double number = value.is_number() ? value.get<double>() : -1;
  if (!(number >= 0) || !(number <= high))
    return Expected(std::string(pointer), fmt::format("a number from 0 to {}", high));
  target = number;
  return {};
}

Taken TakeText(const Json& value, std::string& target, std::string_view pointer,
               std::size_t max_bytes = kMaxTextBytes) {
  const auto* text = value.get_ptr<const std::string*>();
  if (text == nullptr || text->size() > max_bytes)
    return Expected(std::string(pointer), fmt::format("text of at most {} bytes", max_bytes));
  target = *text;
  return {};
}

// Accepts true and false, and also 0 and 1, which the data sets use.
bool ReadFlag(const Json& value, bool& target) {
  const std::optional<std::int64_t> number =
      value.is_boolean() ? value.get<bool>() : WholeNumber(value);
  if (!number || *number < 0 || *number > 1) return false;
  target = *number == 1;
  return true;
}

// A dimension of 0 makes the shape unknown, as in the other formats.
Taken TakeShape(const Json& value, Shape& target) {
  const auto wrong = [] {
    return Expected(
        "", "a shape like [-1, 64, 56, 56]: at most 8 whole numbers, at most 2^48 elements");
  };
  target = Shape();
  if (!value.is_array()) return wrong();
  Shape shape;
  bool known = true;
  for (const Json& item : value) {
    const std::optional<std::int64_t> dimension = WholeNumber(item);
    if (!dimension) return wrong();
    if (*dimension == 0) {
      known = false;
    } else if (!shape.Push(*dimension)) {
      return wrong();
    }
  }
  if (shape.Elements() >= kMaxElements) return wrong();
  if (known) target = shape;
  return {};
}

Taken TakeAttributes(const Json& value, Layer& layer) {
  if (!value.is_object()) return Expected("", "an object");
  for (const auto& [key, item] : value.items()) {
    if (key == "p") {
      double rate = 0;
      if (auto taken = TakeNumber(item, 1, rate, "/p"); !taken) return taken;
      layer.dropout = rate;
    } else if (key == "kernel") {
      std::int64_t kernel = 0;
      if (auto taken = TakeCount(item, kMaxElements, kernel, "/kernel"); !taken) return taken;
      layer.kernel = kernel;
    }
  }
  return {};
}

// A row consists of cells in a fixed order. The first four are required.
constexpr std::size_t kRequiredCells = 4;
constexpr std::size_t kMostCells = 9;

Taken TakeCell(std::size_t index, const Json& value, Layer& layer) {
  switch (index) {
    case 0:
      return TakeText(value, layer.type, "", kMaxNameBytes);
    case 1:
      return TakeShape(value, layer.in);
    case 2:
      return TakeShape(value, layer.out);
    case 3: {
      const Taken taken = TakeCount(value, kMaxElements, layer.params, "");
      layer.trainable = layer.params;
      return taken;
    }
    case 4:
      if (!ReadFlag(value, layer.inplace)) return Expected("", "0 or 1");
      return {};
    case 5:
      return TakeCount(value, layer.params, layer.trainable, "");
    case 6: {
      std::int64_t kind = 0;
      if (auto taken = TakeCount(value, 2, kind, ""); !taken) return taken;
      constexpr std::array kKinds{RowKind::kLeaf, RowKind::kBlock, RowKind::kContainer};
      layer.kind = kKinds[static_cast<std::size_t>(kind)];
      return {};
    }
    case 7:
      return TakeText(value, layer.name, "", kMaxPathBytes);
    case 8:
      return TakeAttributes(value, layer);
    default:
      return Expected("", fmt::format("at most {} entries in a row", kMostCells));
  }
}

constexpr double kMostBytes = 1e18;
constexpr std::int64_t kNotStated = -1;

// A layer list being read, with values that cannot be checked until all are known.
struct Draft : LayerList {
  Draft() { params = trainable = kNotStated; }
  std::optional<double> saved_b2;
  std::optional<double> saved_b4;
};

// The following functions each read the value of one key. JSON pointers in their errors start at
// that value.

Taken TakeLayers(const Json& value, Draft& draft) {
  if (!value.is_array()) return Expected("", "a list of rows");
  draft.layers.reserve(std::min(value.size(), kMaxLayers));
  for (const Json& cells : value) {
    const std::size_t row = draft.layers.size();
    if (row == kMaxLayers) return Expected("", fmt::format("at most {} layers", kMaxLayers));
    if (!cells.is_array() || cells.size() < kRequiredCells) {
      return Expected(fmt::format("/{}", row),
                      "a row [type, in, out, params, …] of 4 to 9 entries");
    }
    Layer& layer = draft.layers.emplace_back();
    std::size_t index = 0;
    for (const Json& cell : cells) {
      if (const Taken taken = TakeCell(index, cell, layer); !taken) {
        return Expected(fmt::format("/{}/{}{}", row, index, taken.error().pointer),
                        taken.error().expected);
      }
      ++index;
    }
    if (layer.type.empty()) return Expected(fmt::format("/{}/0", row), "a class name");
  }
  return {};
}

// known: the keys to read, in alphabetical order. Other keys are ignored.
Taken TakeByteCounts(const Json& value, const char* expected,
                     std::initializer_list<std::pair<const char*, double*>> known) {
  if (!value.is_object()) return Expected("", expected);
  for (const auto& [key, target] : known) {
    const auto found = value.find(key);
    if (found == value.end()) continue;
    if (Taken taken = TakeNumber(*found, kMostBytes, *target, fmt::format("/{}", key)); !taken)
      return taken;
  }
  return {};
}

Taken TakeSaved(const Json& value, Draft& draft) {
  SavedBytes& saved = draft.saved.emplace();
  return TakeByteCounts(value, "an object with per_sample and constant",
                        {{"constant", &saved.constant}, {"per_sample", &saved.per_sample}});
}

Taken TakeHeld(const Json& value, Draft& draft) {
  HeldBytes& held = draft.held.emplace();
  double states = 0, step = 0;
  const Taken taken = TakeByteCounts(value, "an object with trained and frozen",
                                     {{"frozen", &held.frozen},
                                      {"others", &held.others},
                                      {"states", &states},
                                      {"step", &step},
                                      {"trained", &held.trained}});
  if (taken && value.contains("states")) held.states = states;
  if (taken && value.contains("step")) held.step = step;
  return taken;
}

// Reads a list of strings: the notes that carma_summary.py wrote.
Taken TakeNotes(const Json& value, Draft& draft) {
  constexpr std::size_t kMostNotes = 100;
  if (!value.is_array()) return Expected("", "a list of strings");
  for (const Json& item : value) {
    std::string text;
    if (auto taken = TakeText(item, text, ""); !taken) return taken;
    if (draft.notes.size() < kMostNotes && !text.empty())
      AddNote(draft, Note::Kind::kOther, base::Printable(text, kMaxTextBytes));
  }
  return {};
}

template <auto member>
Taken TakeOptionalText(const Json& value, Draft& draft) {
  std::string text;
  const Taken taken = TakeText(value, text, "");
  draft.*member = std::move(text);
  return taken;
}

template <auto member>
Taken TakeSize(const Json& value, Draft& draft) {
  return TakeCount(value, kMaxElements, draft.*member, "");
}

template <auto member>
Taken TakeBytes(const Json& value, Draft& draft) {
  return TakeNumber(value, kMostBytes, (draft.*member).emplace(), "");
}

struct Key {
  std::string_view name;
  Taken (*take)(const Json& value, Draft& draft);
};
constexpr std::array kKeys{
    Key{"layers", TakeLayers},
    Key{"model", TakeOptionalText<&LayerList::model>},
    Key{"family", TakeOptionalText<&LayerList::family>},
    Key{"arch", TakeOptionalText<&LayerList::arch>},
    Key{"input", [](const Json& v, Draft& d) { return TakeShape(v, d.input); }},
    Key{"output", [](const Json& v, Draft& d) { return TakeShape(v, d.output); }},
    Key{"params", TakeSize<&LayerList::params>},
    Key{"trainable", TakeSize<&LayerList::trainable>},
    Key{"param_tensors", TakeSize<&LayerList::param_tensors>},
    Key{"buffer_bytes", TakeSize<&LayerList::buffer_bytes>},
    Key{"batch",
        [](const Json& v, Draft& d) { return TakeCount(v, kMaxDimension, d.batch.emplace(), ""); }},
    Key{"optimizer", TakeOptionalText<&LayerList::optimizer>},
    Key{"precision", TakeOptionalText<&LayerList::precision>},
    Key{"torch", TakeOptionalText<&LayerList::torch>},
    Key{"loss", TakeOptionalText<&LayerList::loss>},
    Key{"notes", TakeNotes},
    Key{"dropout",
        [](const Json& v, Draft& d) { return TakeNumber(v, 1, d.dropout.emplace(), ""); }},
    Key{"held_bytes", TakeHeld},
    Key{"saved_bytes", TakeSaved},
    Key{"saved_bytes_b2", TakeBytes<&Draft::saved_b2>},
    Key{"saved_bytes_b4", TakeBytes<&Draft::saved_b4>},
};

Taken TakeObject(const Json& root, Draft& draft) {
  if (!root.is_object()) return Expected("/", "one object");
  for (const auto& [name, value] : root.items()) {
    const auto* key = std::ranges::find(kKeys, name, &Key::name);
    if (key == kKeys.end() || value.is_null()) continue;
    if (const Taken taken = key->take(value, draft); !taken) {
      return Expected(fmt::format("/{}{}", name, taken.error().pointer), taken.error().expected);
    }
  }
  if (draft.layers.empty()) return Expected("/layers", "at least one row");
  return {};
}

// Checks and computes values that depend on several parts of the object.
Taken Finish(Draft& draft) {
  std::int64_t row_sum = 0;
  std::size_t reading = 0;
  std::size_t operations = 0;
  for (const Layer& layer : draft.layers) {
    if (!AddParams(row_sum, layer.params)) return Expected("/layers", "at most 2^48 parameters");
    if (!IsOperation(layer) || layer.out.empty()) continue;
    ++operations;
    reading += !layer.in.empty();
  }
  draft.has_input_shapes = 2 * reading > operations;
  if (draft.params == kNotStated) {
    draft.params = row_sum;
    AddNote(draft, Note::Kind::kInferred,
            fmt::format("no 'params'; the rows sum to {} parameters", row_sum));
  }
  if (draft.trainable == kNotStated) draft.trainable = draft.params;
  if (draft.trainable > draft.params) return Expected("/trainable", "at most the value of params");
  // Bytes are counted for batches of 2 and 4 and extrapolated linearly to other batch sizes.
  if (draft.saved_b2 && draft.saved_b4 && !draft.saved) {
    const double per_sample = (*draft.saved_b4 - *draft.saved_b2) / 2;
    if (per_sample < 0) return Expected("/saved_bytes_b4", "at least saved_bytes_b2");
    draft.saved = SavedBytes{.per_sample = per_sample,
                             .constant = std::max(0.0, *draft.saved_b2 - 2 * per_sample)};
  }
  if (!draft.has_input_shapes)
    AddNote(draft, Note::Kind::kMissingShapes, "most rows have no input shapes");
  NoteUnknownTypes(draft, {});
  NoteMissingShapes(draft);
  return {};
}

}  // namespace

Result<LayerList> ReadLayerList(std::string_view text, std::string_view place) {
  const Result<Json> root = base::ParseJson(text);
  if (!root) return base::Wrap(root.error(), base::Printable(place));
  Draft draft;
  Taken taken = TakeObject(*root, draft);
  if (taken) taken = Finish(draft);
  if (!taken) {
    return Invalid("{}: {}: expected {}", base::Printable(place),
                   base::Printable(taken.error().pointer, 100), taken.error().expected);
  }
  draft.format = SummaryFormat::kCarmaJson;
  return draft;
}

}  // namespace carma::model
