// Helpers for writing layer lists in tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "model/layers.h"

namespace carma::estimate {

inline model::Shape Of(std::initializer_list<std::int64_t> dimensions) {
  model::Shape shape;
  for (const std::int64_t each : dimensions) EXPECT_TRUE(shape.Push(each));
  return shape;
}

// Shapes used in the examples.
inline const model::Shape kImage = Of({-1, 3, 8, 8});  // 192 elements
inline const model::Shape kMaps = Of({-1, 4, 8, 8});   // 256
inline const model::Shape kWide = Of({-1, 16, 8, 8});  // 1024
inline const model::Shape kWords = Of({-1, 10, 8});    // 80
inline const model::Shape kTriple = Of({-1, 10, 24});  // 240
inline const model::Shape kHidden = Of({-1, 10, 32});  // 320

inline model::Layer Module(const std::string& type, model::Shape in, model::Shape out,
                           std::int64_t params = 0, bool inplace = false,
                           model::RowKind kind = model::RowKind::kLeaf) {
  model::Layer layer;
  layer.type = type;
  layer.in = in;
  layer.out = out;
  layer.params = params;
  layer.inplace = inplace;
  layer.kind = kind;
  return layer;
}

inline model::LayerList List(std::vector<model::Layer> layers) {
  model::LayerList list;
  list.layers = std::move(layers);
  list.has_input_shapes = true;
  return list;
}

// The rows of the list as torchsummary would print them.
inline model::LayerList AsText(model::LayerList list) {
  for (model::Layer& layer : list.layers) {
    layer.in = model::Shape();
    layer.kind = model::RowKind::kUnknown;
    layer.inplace = false;
  }
  list.has_input_shapes = false;
  return list;
}

}  // namespace carma::estimate
