// Propagates an error to the caller: the value of a Result, or a return with its error.
#pragma once

#include <expected>
#include <utility>

// `const std::string text = CARMA_TRY(base::ReadFile(path, kMaxBytes));` is the value, or returns
// the error from the enclosing function. Not for members within braces: where it returns there, g++
// does not destroy the members before it. (It is a statement expression of g++ and clang.)
#define CARMA_TRY(...)                                                        \
  ({                                                                          \
    auto carma_tried = (__VA_ARGS__);                                         \
    if (!carma_tried) return std::unexpected(std::move(carma_tried).error()); \
    *std::move(carma_tried);                                                  \
  })
