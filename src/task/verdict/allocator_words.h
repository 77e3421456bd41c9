// Extracts the memory figures of PyTorch's allocator from the task's output. Out-of-memory errors
// contain such figures, and carma_summary.py prints them at the end of a training run.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace carma::task {

// Figures for one GPU, from the last line that has any.
struct AllocatorWords {
  std::int64_t allocated_mib = 0;  // used by tensors
  std::int64_t reserved_mib = 0;   // taken from the GPU: tensors, gaps and cache
  friend bool operator==(const AllocatorWords&, const AllocatorWords&) = default;
};

// Empty if there are no figures or they are implausible. Works for PyTorch 1.10 and newer.
std::optional<AllocatorWords> FindAllocatorWords(std::string_view stderr_tail);

// Parses a human-readable size at the start of the text, such as "2.50 GiB …", "2.5GiB …" or "512
// bytes …". Returns MiB, rounded up; 0 for any other text or for more memory than any GPU has.
std::int64_t SizeInMib(std::string_view text);

}  // namespace carma::task
