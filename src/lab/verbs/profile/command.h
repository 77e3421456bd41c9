// Runs `carma profile`; verb.cc defines its options.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"

namespace carma::cli {

struct ProfileFlags {
  std::string file;
  std::vector<std::string> built_in;
  std::string output = "carma-profile";
  std::vector<std::size_t> gpus;
  std::vector<std::string> methods{"streams", "mps", "mig"};
  std::string degrees = "1-7";
  bool pairs = true;
  bool watching = true;
  int repeats = 3;
  std::optional<double> seconds;
  std::string python = "python3";
  std::string config;
  bool beside_others = false;
  bool dry_run = false;
};

void RunProfile(Context& context, const ProfileFlags& flags);

}  // namespace carma::cli
