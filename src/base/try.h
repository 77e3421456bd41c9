// Unwraps a Result: yields its value, or returns its error from the enclosing function.
#pragma once

#include <expected>
#include <utility>

// `const std::string text = CARMA_TRY(base::ReadFile(path, kMaxBytes));` yields the value, or makes
// the enclosing function return the error. Do not use it inside a braced initialiser: if it
// returns, g++ does not destroy the members that are already initialised. (Statement expressions
// are an extension of g++ and clang.)
#define CARMA_TRY(...)                                                        \
  ({                                                                          \
    auto carma_tried = (__VA_ARGS__);                                         \
    if (!carma_tried) return std::unexpected(std::move(carma_tried).error()); \
    *std::move(carma_tried);                                                  \
  })
