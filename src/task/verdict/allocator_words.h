// Memory figures of PyTorch's allocator in the task's output: from out-of-memory errors, and at the
// end of a training run with carma_summary.py.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace carma::task {

// For one GPU, from the last line that has them.
struct AllocatorWords {
  std::int64_t allocated_mib = 0;  // used by tensors
  std::int64_t reserved_mib = 0;   // taken from the GPU: tensors, gaps and cache
  friend bool operator==(const AllocatorWords&, const AllocatorWords&) = default;
};

// The figures; empty: there are none, or they are impossible. For PyTorch 1.10 and newer.
std::optional<AllocatorWords> FindAllocatorWords(std::string_view stderr_tail);

// A size as people read it, "2.50 GiB …", "2.5GiB …", "512 bytes …", at the start of the text: in
// MiB, rounded up; 0 for anything else, and for more than a GPU has.
std::int64_t SizeInMib(std::string_view text);

}  // namespace carma::task
