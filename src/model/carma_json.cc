#include "model/carma_json.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "model/op.h"
#include "model/reading.h"

namespace carma::model {
namespace {

namespace dom = simdjson::dom;
using simdjson::error_code;

constexpr std::size_t kMaxJsonDepth = 64;
constexpr std::size_t kMaxTextBytes = 4096;  // of a name

// What is wrong and where: a JSON pointer.
struct Complaint {
  std::string pointer;
  std::string expected;
};
using Taken = std::expected<void, Complaint>;

std::unexpected<Complaint> Expected(std::string pointer, std::string expected) {
  return std::unexpected(Complaint{std::move(pointer), std::move(expected)});
}

Taken TakeCount(dom::element value, std::int64_t high, std::int64_t& target,
                std::string_view pointer) {
  std::int64_t number = 0;
  if (value.get(number) != simdjson::SUCCESS || number < 0 || number > high) {
    return Expected(std::string(pointer), fmt::format("a whole number from 0 to {}", high));
  }
  target = number;
  return {};
}

Taken TakeNumber(dom::element value, double high, double& target, std::string_view pointer) {
  double number = 0;
  if (value.get(number) != simdjson::SUCCESS || !(number >= 0) || !(number <= high)) {
    return Expected(std::string(pointer), fmt::format("a number from 0 to {}", high));
  }
  target = number;
  return {};
}

Taken TakeText(dom::element value, std::string& target, std::string_view pointer,
               std::size_t max_bytes = kMaxTextBytes) {
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS || text.size() > max_bytes) {
    return Expected(std::string(pointer), fmt::format("text of at most {} bytes", max_bytes));
  }
  target = text;
  return {};
}

// 0 and 1 as the data sets have them, or true and false.
bool ReadFlag(dom::element value, bool& target) {
  std::int64_t number = 0;
  if (value.get(target) == simdjson::SUCCESS) return true;
  if (value.get(number) != simdjson::SUCCESS || number < 0 || number > 1) return false;
  target = number == 1;
  return true;
}

// A dimension of 0 makes the shape unknown, as in the other formats.
bool ReadShape(dom::element value, Shape& target) {
  dom::array dimensions;
  target = Shape();
  if (value.get(dimensions) != simdjson::SUCCESS) return false;
  Shape shape;
  bool known = true;
  for (const dom::element item : dimensions) {
    std::int64_t dimension = 0;
    if (item.get(dimension) != simdjson::SUCCESS) return false;
    if (dimension == 0) {
      known = false;
    } else if (!shape.Push(dimension)) {
      return false;
    }
  }
  if (shape.Elements() >= kMaxElements) return false;
  if (known) target = shape;
  return true;
}

constexpr std::string_view kShapeForm =
    "a shape like [-1, 64, 56, 56]: at most 8 whole numbers, at most 2^48 elements";

Taken TakeAttributes(dom::element value, Layer& layer) {
  dom::object attributes;
  if (value.get(attributes) != simdjson::SUCCESS) return Expected("", "an object");
  for (const auto [key, item] : attributes) {
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

// The cells of a row, in their order; rows end after the fourth or later.
constexpr std::size_t kRequiredCells = 4;
constexpr std::size_t kMostCells = 9;

Taken TakeCell(std::size_t index, dom::element value, Layer& layer) {
  switch (index) {
    case 0:
      return TakeText(value, layer.type, "", kMaxNameBytes);
    case 1:
      if (!ReadShape(value, layer.in)) return Expected("", std::string(kShapeForm));
      return {};
    case 2:
      if (!ReadShape(value, layer.out)) return Expected("", std::string(kShapeForm));
      return {};
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

Taken TakeLayers(dom::element value, LayerList& list) {
  dom::array rows;
  if (value.get(rows) != simdjson::SUCCESS) return Expected("/layers", "a list of rows");
  list.layers.reserve(std::min(rows.size(), kMaxLayers));
  for (const dom::element item : rows) {
    const std::size_t row = list.layers.size();
    dom::array cells;
    if (row == kMaxLayers) {
      return Expected("/layers", fmt::format("at most {} layers", kMaxLayers));
    }
    if (item.get(cells) != simdjson::SUCCESS || cells.size() < kRequiredCells) {
      return Expected(fmt::format("/layers/{}", row),
                      "a row [type, in, out, params, …] of 4 to 9 entries");
    }
    Layer& layer = list.layers.emplace_back();
    std::size_t index = 0;
    for (const dom::element cell : cells) {
      if (const Taken taken = TakeCell(index, cell, layer); !taken) {
        return Expected(fmt::format("/layers/{}/{}{}", row, index, taken.error().pointer),
                        taken.error().expected);
      }
      ++index;
    }
    if (layer.type.empty()) return Expected(fmt::format("/layers/{}/0", row), "a class name");
  }
  return {};
}

constexpr double kMostBytes = 1e18;

// The parts of an object that make sense only together.
struct Draft {
  LayerList list;
  bool params_told = false;
  bool trainable_told = false;
  std::optional<double> saved_b2;
  std::optional<double> saved_b4;
};

Taken TakeSaved(dom::element value, LayerList& list) {
  dom::object parts;
  if (value.get(parts) != simdjson::SUCCESS) {
    return Expected("/saved_bytes", "an object with per_sample and constant");
  }
  SavedBytes saved;
  for (const auto [key, item] : parts) {
    Taken taken;
    if (key == "per_sample") {
      taken = TakeNumber(item, kMostBytes, saved.per_sample, "/saved_bytes/per_sample");
    } else if (key == "constant") {
      taken = TakeNumber(item, kMostBytes, saved.constant, "/saved_bytes/constant");
    }
    if (!taken) return taken;
  }
  list.saved = saved;
  return {};
}

Taken TakeHeld(dom::element value, LayerList& list) {
  dom::object parts;
  if (value.get(parts) != simdjson::SUCCESS)
    return Expected("/held_bytes", "an object with trained and frozen");
  HeldBytes held;
  double states = 0, step = 0;
  const std::pair<std::string_view, double*> known[] = {{"trained", &held.trained},
                                                        {"frozen", &held.frozen},
                                                        {"others", &held.others},
                                                        {"states", &states},
                                                        {"step", &step}};
  for (const auto [key, item] : parts) {
    const auto* const part =
        std::ranges::find(known, key, [](const auto& each) { return each.first; });
    if (part == std::end(known)) continue;
    const std::string path = "/held_bytes/" + std::string(key);
    if (Taken taken = TakeNumber(item, kMostBytes, *part->second, path); !taken) return taken;
    if (key == "states") held.states = states;
    if (key == "step") held.step = step;
  }
  list.held = held;
  return {};
}

// What the helper wants to be known: texts.
Taken TakeNotes(dom::element value, LayerList& list) {
  constexpr std::size_t kMostNotes = 100;
  dom::array notes;
  if (value.get(notes) != simdjson::SUCCESS) return Expected("/notes", "a list of texts");
  for (const dom::element item : notes) {
    std::string text;
    if (auto taken = TakeText(item, text, "/notes"); !taken) return taken;
    if (list.notes.size() < kMostNotes && !text.empty())
      AddNote(list, Note::Kind::kOther, base::Printable(text, kMaxTextBytes));
  }
  return {};
}

using TakeKey = Taken (*)(dom::element value, Draft& draft);
struct Key {
  std::string_view name;
  TakeKey take;
};

template <auto member>
Taken TakeOptionalText(dom::element value, Draft& draft) {
  std::string text;
  const Taken taken = TakeText(value, text, "");
  draft.list.*member = std::move(text);
  return taken;
}

template <auto member>
Taken TakeShape(dom::element value, Draft& draft) {
  if (!ReadShape(value, draft.list.*member)) return Expected("", std::string(kShapeForm));
  return {};
}

template <auto member>
Taken TakeSize(dom::element value, Draft& draft) {
  return TakeCount(value, kMaxElements, draft.list.*member, "");
}

template <auto member>
Taken TakeBytes(dom::element value, Draft& draft) {
  double bytes = 0;
  const Taken taken = TakeNumber(value, kMostBytes, bytes, "");
  draft.*member = bytes;
  return taken;
}

constexpr std::array kKeys{
    Key{"layers", [](dom::element v, Draft& d) { return TakeLayers(v, d.list); }},
    Key{"model", TakeOptionalText<&LayerList::model>},
    Key{"family", TakeOptionalText<&LayerList::family>},
    Key{"arch", TakeOptionalText<&LayerList::arch>},
    Key{"input", TakeShape<&LayerList::input>},
    Key{"output", TakeShape<&LayerList::output>},
    Key{"params",
        [](dom::element v, Draft& d) {
          d.params_told = true;
          return TakeSize<&LayerList::params>(v, d);
        }},
    Key{"trainable",
        [](dom::element v, Draft& d) {
          d.trainable_told = true;
          return TakeSize<&LayerList::trainable>(v, d);
        }},
    Key{"param_tensors", TakeSize<&LayerList::param_tensors>},
    Key{"buffer_bytes", TakeSize<&LayerList::buffer_bytes>},
    Key{"batch", [](dom::element v,
                    Draft& d) { return TakeCount(v, kMaxDimension, d.list.batch.emplace(), ""); }},
    Key{"optimizer", TakeOptionalText<&LayerList::optimizer>},
    Key{"precision", TakeOptionalText<&LayerList::precision>},
    Key{"torch", TakeOptionalText<&LayerList::torch>},
    Key{"loss", TakeOptionalText<&LayerList::loss>},
    Key{"notes", [](dom::element v, Draft& d) { return TakeNotes(v, d.list); }},
    Key{"dropout",
        [](dom::element v, Draft& d) { return TakeNumber(v, 1, d.list.dropout.emplace(), ""); }},
    Key{"held_bytes", [](dom::element v, Draft& d) { return TakeHeld(v, d.list); }},
    Key{"saved_bytes", [](dom::element v, Draft& d) { return TakeSaved(v, d.list); }},
    Key{"saved_bytes_b2", TakeBytes<&Draft::saved_b2>},
    Key{"saved_bytes_b4", TakeBytes<&Draft::saved_b4>},
};

Taken TakeObject(dom::element root, Draft& draft) {
  dom::object object;
  if (root.get(object) != simdjson::SUCCESS) return Expected("/", "one object");
  std::array<bool, kKeys.size()> seen{};
  for (const auto [name, value] : object) {
    const auto* key = std::ranges::find(kKeys, name, &Key::name);
    if (key == kKeys.end() || value.is_null()) continue;
    bool& again = seen[static_cast<std::size_t>(key - kKeys.begin())];
    if (std::exchange(again, true)) return Expected(fmt::format("/{}", name), "this key only once");
    if (const Taken taken = key->take(value, draft); !taken) {
      const bool full = taken.error().pointer.starts_with(fmt::format("/{}", name));
      return Expected(full ? taken.error().pointer : fmt::format("/{}", name),
                      taken.error().expected);
    }
  }
  if (draft.list.layers.empty()) return Expected("/layers", "at least one row");
  return {};
}

// What follows from the parts together.
Taken Finish(Draft& draft) {
  LayerList& list = draft.list;
  std::int64_t row_sum = 0;
  std::size_t reading = 0;
  std::size_t operations = 0;
  for (const Layer& layer : list.layers) {
    if (!AddParams(row_sum, layer.params)) return Expected("/layers", "at most 2^48 parameters");
    if (!IsOperation(layer) || layer.out.empty()) continue;
    ++operations;
    reading += !layer.in.empty();
  }
  list.has_input_shapes = 2 * reading > operations;
  if (!draft.params_told) {
    list.params = row_sum;
    AddNote(list, Note::Kind::kInferred,
            fmt::format("no 'params'; {} parameters are the sum of the rows", row_sum));
  }
  if (!draft.trainable_told) list.trainable = list.params;
  if (list.trainable > list.params) return Expected("/trainable", "at most as many as params");
  // Measured at batch 2 and 4: a line through both.
  if (draft.saved_b2 && draft.saved_b4 && !list.saved) {
    const double per_sample = (*draft.saved_b4 - *draft.saved_b2) / 2;
    if (per_sample < 0) return Expected("/saved_bytes_b4", "at least saved_bytes_b2");
    list.saved = SavedBytes{.per_sample = per_sample,
                            .constant = std::max(0.0, *draft.saved_b2 - 2 * per_sample)};
  }
  if (!list.has_input_shapes) {
    AddNote(list, Note::Kind::kMissingShapes, "most rows do not say what they read");
  }
  NoteUnknownTypes(list, {});
  NoteMissingShapes(list);
  return {};
}

}  // namespace

class LayerListReader::Parser {
 public:
  dom::parser parser;
};

LayerListReader::LayerListReader() : parser_(std::make_unique<Parser>()) {}
LayerListReader::~LayerListReader() = default;

base::Result<LayerList> LayerListReader::Read(std::string_view text, std::string_view place) {
  const auto fail = [&](std::string_view what) {
    return base::Fail(base::ErrorCode::kInvalid,
                      fmt::format("{}: {}", base::Printable(place), what));
  };
  dom::parser& parser = parser_->parser;
  dom::element root;
  error_code error = simdjson::SUCCESS;
  // The depth stays; the capacity grows with the texts.
  if (parser.max_depth() != kMaxJsonDepth) error = parser.allocate(text.size(), kMaxJsonDepth);
  if (error == simdjson::SUCCESS) error = parser.parse(text.data(), text.size()).get(root);
  if (error != simdjson::SUCCESS) {
    return fail(fmt::format("not JSON: {}", simdjson::error_message(error)));
  }
  Draft draft;
  Taken taken = TakeObject(root, draft);
  if (taken) taken = Finish(draft);
  if (!taken) {
    return fail(fmt::format("{}: expected {}", base::Printable(taken.error().pointer, 100),
                            taken.error().expected));
  }
  draft.list.format = SummaryFormat::kCarmaJson;
  return std::move(draft.list);
}

}  // namespace carma::model
