// SHA-256 (FIPS 180-4), in the format that sha256sum(1) prints.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace carma::base {

class Sha256 {
 public:
  void Add(std::string_view bytes);
  // Returns 64 hexadecimal digits. Do not call Add afterwards.
  std::string FinishHex();

 private:
  static constexpr std::size_t kBlockBytes = 64;
  void Digest(const unsigned char* block);

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, kBlockBytes> pending_{};
  std::size_t pending_bytes_ = 0;
  std::uint64_t total_bytes_ = 0;
};

}  // namespace carma::base
