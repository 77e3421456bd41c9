// Checks whether a Slurm node is set up for CARMA, and writes the lines for its configuration,
// based on facts gathered by command.cc.
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

// GPU memory available to tasks, in GiB, rounded down for each GPU.
std::int64_t UsableGib(const std::vector<api::GpuView>& gpus);
// GPU memory available to tasks, in GiB, on the node's smallest and largest GPU; 0 if there are
// none.
std::int64_t SmallestGib(const std::vector<api::GpuView>& gpus);
std::int64_t LargestGib(const std::vector<api::GpuView>& gpus);

// Names and paths used in the configuration lines. folder: where the carma-slurm package is
// installed.
struct SiteLines {
  std::string node;
  std::string folder;
  std::string socket;
};
// Lines for slurm.conf, gres.conf, plugstack.conf and job_submit.lua, each below a comment that
// names its file.
std::string ConfigText(const SiteLines& site, const std::vector<api::GpuView>& gpus);

// The line in plugstack.conf that loads the plug-in.
struct PluginLine {
  bool required = false;
  std::string path;
  std::string socket;  // empty for the default socket
};

struct SlurmFacts {
  std::string node;
  std::string socket;  // socket of the carmad that responded
  Result<std::vector<api::GpuView>> gpus;
  // Output of `scontrol show config` and `scontrol -o show node`; empty if there was no response.
  std::map<std::string, std::string> config, node_config;
  // Output of `scontrol -o show partition` for each partition of the node, by name.
  std::map<std::string, std::map<std::string, std::string>> partitions;
  // Contents of Prolog, Epilog and job_submit.lua; empty if not readable on this host.
  std::string prolog, epilog, submission;
  bool requeues = true;  // slurm.enabled
  bool restart = false;  // slurm.enabled has changed since carmad started
  std::optional<PluginLine> plugin;
  std::string release;         // version of Slurm: "22.05.8"
  std::string plugin_release;  // Slurm version that the plug-in was built for; empty if none
};
std::vector<Finding> CheckSlurm(const SlurmFacts& facts);

// Parse scontrol's output, which consists of lines "Name = value" or of words "Name=value".
std::map<std::string, std::string> ReadLines(std::string_view text);
std::map<std::string, std::string> ReadWords(std::string_view text);
// Reads the words of each line and returns them, keyed by PartitionName.
std::map<std::string, std::map<std::string, std::string>> ReadPartitions(std::string_view text);
std::optional<PluginLine> FindPlugin(std::string_view plugstack);
// The node that `scontrol show aliases` lists for this host; `host` if it lists none. Returns
// kInvalid if it lists several.
Result<std::string> OnlyNode(std::string_view aliases, const std::string& host);
// Returns 158 for "gpu:a100:4,carma:158"; empty if the text does not name carma.
std::optional<std::int64_t> CarmaCount(std::string_view gres);
// Returns "22.05.8" for "slurm-wlm 22.05.8"; empty if the text has no version.
std::string ReleaseOf(std::string_view text);
// The Slurm version that a plug-in was built for, read from the bytes of its file.
std::string PluginRelease(std::string_view bytes);

}  // namespace carma::cli
