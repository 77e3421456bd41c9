// The entry point for libFuzzer. CARMA_FUZZ_ENTRY names the function of entries.h that this program
// drives.
#include <cstddef>
#include <cstdint>

#include "entries.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  carma::fuzz::CARMA_FUZZ_ENTRY({reinterpret_cast<const char*>(data), size});
  return 0;
}
