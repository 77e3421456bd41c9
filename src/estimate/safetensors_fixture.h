// Writes safetensors files for tests and fuzzers.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "base/json.h"
#include "estimate/safetensors.h"

namespace carma::estimate {

// Serialises a file so that ParseTensors() returns the same contents. Identical contents produce
// identical bytes. The shapes and values must meet the requirements of `Tensor`.
inline std::string DumpTensors(const TensorFile& file) {
  constexpr std::size_t kLengthBytes = 8;
  base::Json header = base::Json::object();
  if (!file.metadata.empty()) header["__metadata__"] = file.metadata;
  std::string data;
  for (const auto& [name, tensor] : file.tensors) {
    const std::size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(tensor.values.data()),
                tensor.values.size() * sizeof(float));
    header[name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text = base::DumpJson(header);
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  const std::uint64_t length = text.size();
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, kLengthBytes);
  return bytes + text + data;
}

}  // namespace carma::estimate
