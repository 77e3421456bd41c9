// Checks a Slurm node's setup for CARMA and makes the lines for its configuration. Functions of
// facts; command.cc gathers them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/gpu_view.h"
#include "base/result.h"
#include "cli/doctor/doctor.h"

namespace carma::cli {

// GiB of GPU memory for tasks, rounded down per GPU.
std::int64_t UsableGib(const std::vector<api::GpuView>& gpus);
// The same for the smallest and the largest GPU of the node; 0 if the node has none.
std::int64_t SmallestGib(const std::vector<api::GpuView>& gpus);
std::int64_t LargestGib(const std::vector<api::GpuView>& gpus);

// Names for the lines of the configuration. folder: where the package carma-slurm has its files.
struct SiteLines {
  std::string node;
  std::string folder;
  std::string socket;
};
// Lines for slurm.conf, gres.conf, plugstack.conf and job_submit.lua, with their files as comments.
std::string ConfigText(const SiteLines& site, const std::vector<api::GpuView>& gpus);

// The line of plugstack.conf that loads the plug-in.
struct PluginLine {
  bool required = false;
  std::string path;
  std::string socket;  // empty: the default one
};

struct SlurmFacts {
  std::string node;
  std::string socket;  // of the carmad asked
  Result<std::vector<api::GpuView>> gpus;
  // Output of `scontrol show config` and `scontrol -o show node`; empty: no answer.
  std::map<std::string, std::string> config, node_config;
  // Output of `scontrol -o show partition` for each partition of the node, by name.
  std::map<std::string, std::map<std::string, std::string>> partitions;
  // Texts of Prolog, Epilog and job_submit.lua; empty: not readable here.
  std::string prolog, epilog, submission;
  bool requeues = true;  // slurm.enabled
  std::optional<PluginLine> plugin;
  std::string release;         // of Slurm: "22.05.8"
  std::string plugin_release;  // built for this release; empty: no such file
};
std::vector<Finding> CheckSlurm(const SlurmFacts& facts);

// "Name = value" lines, or words "Name=value", of scontrol.
std::map<std::string, std::string> ReadLines(std::string_view text);
std::map<std::string, std::string> ReadWords(std::string_view text);
// The same for each line, by its PartitionName.
std::map<std::string, std::map<std::string, std::string>> ReadPartitions(std::string_view text);
std::optional<PluginLine> FindPlugin(std::string_view plugstack);
// The node of `scontrol show aliases`, which lists those of this host; `host` if it lists none.
// Errors: kInvalid if there are several.
Result<std::string> OnlyNode(std::string_view aliases, const std::string& host);
// carma:158 of "gpu:a100:4,carma:158"; empty: none.
std::optional<std::int64_t> CarmaCount(std::string_view gres);
// "22.05.8" in "slurm-wlm 22.05.8"; empty: there is none.
std::string ReleaseOf(std::string_view text);
// The release for which a plug-in was built, from the file's bytes.
std::string PluginRelease(std::string_view bytes);

}  // namespace carma::cli
