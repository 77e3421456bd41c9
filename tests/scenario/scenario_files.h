// Finds the scenario files for the tests that play them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <vector>

#include "test_paths.h"

namespace carma::sim {

// Returns every tests/scenarios/*.scenario, sorted by name.
inline std::vector<std::string> ScenarioFiles() {
  std::vector<std::string> files;
  const std::string folder = std::string(CARMA_SOURCE_DIR) + "/tests/scenarios";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".scenario") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Turns the file name into a valid GoogleTest name.
inline std::string ScenarioName(const ::testing::TestParamInfo<std::string>& param) {
  std::string name = std::filesystem::path(param.param).stem().string();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); },
      '_');
  return name;
}

}  // namespace carma::sim
