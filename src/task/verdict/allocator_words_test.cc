#include "task/verdict/allocator_words.h"

#include <gtest/gtest.h>

#include <string>

namespace carma::task {
namespace {

TEST(AllocatorWords, ReadsEveryVersionAndTheHelper) {
  const struct {
    const char* name;
    std::string text;
    std::optional<AllocatorWords> words;
  } cases[] = {
      {"2.1 and newer",
       "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
       "capacity of 39.39 GiB of which 1.06 GiB is free. Including non-PyTorch memory, this "
       "process "
       "has 38.33 GiB memory in use. Of the allocated memory 30.00 GiB is allocated by PyTorch, "
       "and "
       "7.50 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is "
       "large "
       "try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.\n",
       AllocatorWords{30'720, 38'400}},
      {"2.0 and older",
       "RuntimeError: CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 15.78 GiB total "
       "capacity; 14.00 GiB already allocated; 35.75 MiB free; 14.50 GiB reserved in total by "
       "PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb\n",
       AllocatorWords{14'336, 14'848}},
      {"the last of several helper lines",
       "carma_summary: allocated 1000 MiB, reserved 1200 MiB\nstep 7\n"
       "carma_summary: allocated 1500 MiB, reserved 1700 MiB\n",
       AllocatorWords{1'500, 1'700}},
      {"nothing about memory", "Traceback (most recent call last):\nKeyError: 'x'\n", std::nullopt},
      {"less reserved than allocated is impossible",
       "carma_summary: allocated 1500 MiB, reserved 200 MiB\n", std::nullopt},
      {"not numbers", "carma_summary: allocated much, reserved more\n", std::nullopt},
      {"no size before the words",
       " is allocated by PyTorch, is reserved by PyTorch but unallocated", std::nullopt},
      {"nothing", "", std::nullopt},
  };
  for (const auto& each : cases) EXPECT_EQ(FindAllocatorWords(each.text), each.words) << each.name;
}

}  // namespace
}  // namespace carma::task
