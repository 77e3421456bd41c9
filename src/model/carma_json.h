// CARMA's own layer lists: one JSON object per model, docs/layer-lists.md.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/layers.h"

namespace carma::model {

// Keeps its buffers from one object to the next.
class LayerListReader {
 public:
  LayerListReader();
  ~LayerListReader();
  LayerListReader(const LayerListReader&) = delete;
  LayerListReader& operator=(const LayerListReader&) = delete;

  // Reads the object that is the whole of `text`. Errors: kInvalid "place: /layers/3/1: expected
  // …", for broken JSON without the pointer.
  base::Result<LayerList> Read(std::string_view text, std::string_view place);

 private:
  class Parser;  // hides the library
  std::unique_ptr<Parser> parser_;
};

}  // namespace carma::model
