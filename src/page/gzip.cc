#include "page/gzip.h"

#include <zlib.h>

#include "base/result.h"

namespace carma::page {

std::string Gzip(std::string_view text, Effort effort) {
  constexpr int kGzipFormat = 15 + 16;  // the largest window, and a gzip header
  constexpr int kMemory = 8;            // zlib's default
  z_stream stream{};
  const int level = effort == Effort::kOnce ? Z_BEST_COMPRESSION : Z_BEST_SPEED;
  CARMA_CHECK(
      ::deflateInit2(&stream, level, Z_DEFLATED, kGzipFormat, kMemory, Z_DEFAULT_STRATEGY) == Z_OK,
      "not enough memory to compress text");
  std::string packed(::deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // only read by zlib
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  CARMA_CHECK(::deflate(&stream, Z_FINISH) == Z_STREAM_END,
              "the compressed text exceeds zlib's bound");
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

}  // namespace carma::page
