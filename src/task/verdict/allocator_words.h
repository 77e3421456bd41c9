// What PyTorch's allocator says of a task's memory in the task's own output: when it runs out, and
// at the end of a training that carma_summary.py looks after.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace carma::task {

// On one GPU, of the last line that tells.
struct AllocatorWords {
  std::int64_t allocated_mib = 0;  // given out to tensors
  std::int64_t reserved_mib = 0;  // taken from the GPU: the former, gaps and what is kept for later
  friend bool operator==(const AllocatorWords&, const AllocatorWords&) = default;
};

// Empty: nothing is told, or what is told cannot be. Of PyTorch 1.10 and newer.
std::optional<AllocatorWords> FindAllocatorWords(std::string_view stderr_tail);

// A size as people read it, "2.50 GiB …", "2.5GiB …", "512 bytes …", at the start of the text: in
// MiB, rounded up; 0 for anything else, and for more than a GPU has.
std::int64_t SizeInMib(std::string_view text);

}  // namespace carma::task
