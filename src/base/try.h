// Unwraps a Result: yields its value, or returns its error from the enclosing function.
#pragma once

#include <expected>
#include <utility>

// `const std::string text = CARMA_TRY(base::ReadFile(path, kMaxBytes));` yields the value, or makes
// the enclosing function return the error. Do not use it for members within braces: if it returns
// there, g++ does not destroy the members before it. (It is a statement expression, an extension of
// g++ and clang.)
#define CARMA_TRY(...)                                                        \
  ({                                                                          \
    auto carma_tried = (__VA_ARGS__);                                         \
    if (!carma_tried) return std::unexpected(std::move(carma_tried).error()); \
    *std::move(carma_tried);                                                  \
  })
