// Test helpers that load settings from text and return the settings or the expected error.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "config/settings.h"

namespace carma::config {

inline Loaded FromText(const std::string& text) {
  Result<Loaded> loaded = LoadText("f.toml", text, /*root=*/true);
  EXPECT_TRUE(loaded) << text << "\n" << loaded.error().message;
  return loaded ? *std::move(loaded) : Loaded{};
}

inline std::string ErrorOf(const std::string& text) {
  const Result<Loaded> loaded = LoadText("f.toml", text, /*root=*/true);
  if (loaded) return "no error";
  EXPECT_EQ(loaded.error().code, ErrorCode::kInvalid) << text;
  return loaded.error().message;
}

}  // namespace carma::config
