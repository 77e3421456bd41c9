// Reads and writes named arrays of numbers in the safetensors format. The input is untrusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace carma::estimate {

inline constexpr std::size_t kMaxTensorFileBytes = 8 << 20;
inline constexpr std::size_t kMaxTensorHeaderBytes = 1 << 20;
inline constexpr std::size_t kMaxTensors = 4096;
inline constexpr std::size_t kMaxTensorRank = 4;

struct Tensor {
  std::vector<std::int64_t> shape;  // every dimension is at least 1
  std::vector<float> values;        // row-major; one for each element of the shape; all finite
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

struct TensorFile {
  std::map<std::string, Tensor, std::less<>> tensors;
  std::map<std::string, std::string, std::less<>> metadata;  // "__metadata__"
  friend bool operator==(const TensorFile&, const TensorFile&) = default;
};

// Layout: the header's length (8 bytes, little endian); the header, a JSON object of tensors with
// dtype, shape and data_offsets; the data. Only F32 is accepted. `path` is used in messages.
// Returns kInvalid ("path: what, expected") for exceeded limits, a shape that does not match the
// number of bytes, bytes that belong to two tensors or to none, NaN and infinity.
Result<TensorFile> ParseTensors(std::string_view bytes, std::string_view path);

}  // namespace carma::estimate
