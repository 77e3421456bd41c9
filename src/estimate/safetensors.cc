#include "estimate/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/try.h"

namespace carma::estimate {
namespace {

using base::Json;

constexpr std::size_t kLengthBytes = 8;
constexpr const char* kMetadata = "__metadata__";

static_assert(std::endian::native == std::endian::little, "tensor data is little endian");

struct Extent {
  std::size_t begin = 0;
  std::size_t end = 0;  // one past the last byte
  std::string name;
};

class Parser {
 public:
  Parser(std::string_view bytes, std::string_view path) : bytes_(bytes), path_(path) {}

  Result<TensorFile> Parse() {
    const auto header = CARMA_TRY(Header());
    TensorFile file;
    for (const auto& [name, entry] : header.items())
      CARMA_TRY(name == kMetadata ? TakeMetadata(entry, file) : Take(name, entry, file));
    CARMA_TRY(CheckExtents());
    return file;
  }

 private:
  std::unexpected<base::Error> Bad(std::string_view what) const {
    return Invalid("{}: {}", path_, what);
  }
  std::unexpected<base::Error> Bad(std::string_view tensor, std::string_view what) const {
    // Shortens the name, because the input is untrusted and names may be long.
    return Bad(fmt::format("tensor '{}': {}", tensor.substr(0, 80), what));
  }

  // Reads the header and makes data_ start at the first byte after it.
  Result<Json> Header() {
    if (bytes_.size() > kMaxTensorFileBytes)
      return Bad(fmt::format("the file is {} bytes long, expected at most {}", bytes_.size(),
                             kMaxTensorFileBytes));
    if (bytes_.size() < kLengthBytes) return Bad("the file is too short for a safetensors header");
    std::uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), kLengthBytes);
    const std::size_t left = bytes_.size() - kLengthBytes;
    if (length > std::min(left, kMaxTensorHeaderBytes)) {
      return Bad(fmt::format("the header is {} bytes long, expected at most {}", length,
                             std::min(left, kMaxTensorHeaderBytes)));
    }
    data_ = bytes_.substr(kLengthBytes + length);
    auto header = base::ParseJson(bytes_.substr(kLengthBytes, length));
    if (!header) return base::Wrap(header.error(), fmt::format("{}: header", path_));
    if (!header->is_object()) return Bad("header: expected an object");
    if (header->size() > kMaxTensors)
      return Bad(
          fmt::format("the file has {} tensors, expected at most {}", header->size(), kMaxTensors));
    return header;
  }

  Result<Unit> TakeMetadata(const Json& entry, TensorFile& file) const {
    if (!entry.is_object()) return Bad("__metadata__: expected an object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) return Bad("__metadata__: expected strings only");
      file.metadata.emplace(key, value.get<std::string>());
    }
    return Unit{};
  }

  Result<Unit> Take(const std::string& name, const Json& entry, TensorFile& file) {
    if (!entry.is_object()) return Bad(name, "expected an object");
    if (const auto dtype = entry.find("dtype"); dtype == entry.end() || *dtype != "F32")
      return Bad(name, "expected dtype F32");
    Tensor tensor;
    std::size_t elements = 1;
    const auto shape = entry.find("shape");
    if (shape == entry.end() || !shape->is_array() || shape->size() > kMaxTensorRank)
      return Bad(name, fmt::format("expected a shape with at most {} dimensions", kMaxTensorRank));
    for (const Json& dimension : *shape) {
      const auto size = Whole(dimension, kMaxTensorFileBytes);
      if (!size || *size == 0) return Bad(name, "expected dimensions of at least 1");
      // Both factors are below 2^24, so the product does not overflow.
      elements *= *size;
      if (elements > kMaxTensorFileBytes) return Bad(name, "the shape has too many elements");
      tensor.shape.push_back(static_cast<std::int64_t>(*size));
    }
    const auto offsets = entry.find("data_offsets");
    if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2)
      return Bad(name, "expected data_offsets [begin, end]");
    const auto begin = Whole((*offsets)[0], data_.size());
    const auto end = Whole((*offsets)[1], data_.size());
    if (!begin || !end || *begin > *end) {
      return Bad(name,
                 fmt::format("expected data_offsets within the {} bytes of data", data_.size()));
    }
    if (*end - *begin != elements * sizeof(float)) {
      return Bad(name, fmt::format("{} bytes of data, but the shape needs {}", *end - *begin,
                                   elements * sizeof(float)));
    }
    tensor.values.resize(elements);
    std::memcpy(tensor.values.data(), data_.data() + *begin, elements * sizeof(float));
    if (!std::ranges::all_of(tensor.values, [](float each) { return std::isfinite(each); }))
      return Bad(name, "expected finite numbers");
    extents_.push_back({*begin, *end, name});
    file.tensors.emplace(name, std::move(tensor));
    return Unit{};
  }

  static std::optional<std::size_t> Whole(const Json& json, std::size_t most) {
    if (!json.is_number_unsigned()) return std::nullopt;
    const auto value = json.get<std::uint64_t>();
    if (value > most) return std::nullopt;
    return static_cast<std::size_t>(value);
  }

  // The tensors must cover the data without gaps or overlaps, because a file with shared or unused
  // bytes is suspicious.
  Result<Unit> CheckExtents() {
    std::ranges::sort(extents_, {}, &Extent::begin);
    std::size_t reached = 0;
    for (const Extent& extent : extents_) {
      if (extent.begin != reached) {
        return Bad(extent.name, fmt::format("data begins at byte {}, expected {}: {}", extent.begin,
                                            reached, extent.begin < reached ? "overlap" : "gap"));
      }
      reached = extent.end;
    }
    if (reached != data_.size())
      return Bad(fmt::format("the file has {} bytes of data, but the tensors use only {}",
                             data_.size(), reached));
    return Unit{};
  }

  std::string_view bytes_;
  std::string_view path_;
  std::string_view data_;
  std::vector<Extent> extents_;
};

}  // namespace

Result<TensorFile> ParseTensors(std::string_view bytes, std::string_view path) {
  return Parser(bytes, path).Parse();
}

}  // namespace carma::estimate
