#include "cli/doctor/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/json.h"
#include "base/text.h"
#include "cli/doctor/context.h"
#include "cli/doctor/gpu.h"
#include "cli/doctor/packages.h"
#include "cli/ids.h"
#include "gpu/nvml_abi.h"

namespace carma::cli {
namespace {

std::string_view LevelName(Level level) {
  constexpr std::string_view kNames[] = {"ok", "warn", "bad"};
  return kNames[static_cast<std::size_t>(level)];
}

base::Json GpuJson(const GpuFacts& known) {
  base::Json gpu = {{"uuid", known.info.uuid}, {"name", known.info.name}, {"pci", known.info.pci}};
  if (known.info.mig) {
    gpu["mig_profile"] = known.info.mig->profile_name;
    gpu["mig_parent"] = known.info.mig->parent_uuid;
  }
  if (!known.reading) return gpu;
  gpu["activity"] = base::WordOf(known.reading->counters);
  gpu["counters"] = CounterNames(*known.reading, true);
  gpu["values"] = ValueNames(*known.reading, true);
  return gpu;
}

base::Json ContextJson(const ContextFacts& context) {
  base::Json json = {{"gpu_type", context.gpu_type},
                     {"gpu", context.gpu},
                     {"assumed_mib", context.assumed.mib},
                     {"taught_by", context.assumed.taught_by}};
  if (!context.not_measured.empty()) {
    json["not_measured"] = context.not_measured;
  } else if (!context.cost) {
    json["not_measured"] = context.cost.error().text;
  } else {
    json["measured_mib"] = context.cost->mib;
    json["measured_by"] = context.cost->of_process ? "process" : "growth";
  }
  return json;
}

std::string RemedyWithoutDriver(const DriverFacts& facts, const config::Settings& settings) {
  const std::optional<gpu::nvml::Return> answer = facts.versions.error().nvml_code;
  if (facts.hangs) {
    return "see the kernel log (dmesg) for NVRM and Xid lines; a reset or a reboot is likely to be "
           "needed";
  }
  if (facts.simulated) {
    return "recreate the simulated server: carma-simgpu create --state " +
           base::Printable(settings.simgpu_state);
  }
  if (answer == gpu::nvml::kLibRmVersionMismatch) {
    return "the driver was updated while its old module was loaded: stop all GPU programs and "
           "reload the module, or reboot";
  }
  if (answer == gpu::nvml::kDriverNotLoaded)
    return "load the module (modprobe nvidia), and see the kernel log (dmesg) if that fails";
  return "install the NVIDIA driver" + InstallCommand("", Missing::kDriver) +
         " so that nvidia-smi works, or name its library with monitor.nvml_library; for simulated "
         "GPUs: carmad --background --simulate 4xA100-40GB";
}

// Merges equal findings for several GPUs, and puts them after findings for single GPUs.
std::vector<Finding> Folded(const std::vector<Finding>& findings) {
  struct Group {
    const Finding* finding;
    std::vector<std::size_t> gpus;
  };
  std::vector<Group> groups;
  std::vector<Finding> folded;
  const auto flush = [&] {
    for (const bool several : {false, true}) {
      for (const Group& group : groups) {
        if ((group.gpus.size() > 1) != several) continue;
        folded.push_back(*group.finding);
        folded.back().topic = fmt::format("gpu {}", RangesText(group.gpus));
      }
    }
    groups.clear();
  };
  for (const Finding& finding : findings) {
    if (!finding.gpu) {
      flush();
      folded.push_back(finding);
      continue;
    }
    const auto same = std::ranges::find_if(groups, [&](const Group& group) {
      return group.finding->level == finding.level && group.finding->text == finding.text &&
             group.finding->remedy == finding.remedy;
    });
    if (same == groups.end()) {
      groups.push_back({&finding, {*finding.gpu}});
    } else {
      same->gpus.push_back(*finding.gpu);
    }
  }
  flush();
  return folded;
}

}  // namespace

std::vector<Finding> CheckDriver(const DriverFacts& facts, const config::Settings& settings) {
  std::vector<Finding> findings;
  if (!facts.versions) {
    findings.push_back({"driver", Level::kBad, base::Printable(facts.versions.error().message),
                        RemedyWithoutDriver(facts, settings)});
    return findings;
  }
  std::vector<std::string> pieces;
  const auto add = [&](const char* name, const std::string& version) {
    if (!version.empty()) pieces.push_back(name + base::Printable(version, 60));
  };
  add(facts.simulated ? "simulated driver " : "driver ", facts.versions->driver);
  add("NVML ", facts.versions->nvml);
  add("CUDA up to ", facts.versions->cuda);
  findings.push_back({"driver", Level::kOk, base::Join(pieces, ", ")});
  if (!facts.gpus) {
    findings.push_back({"gpus", Level::kBad, base::Printable(facts.gpus.error().message),
                        "see the kernel log (dmesg) for NVRM lines; a reboot may be needed"});
    return findings;
  }
  if (facts.gpus->empty()) {
    findings.push_back({"gpus", Level::kBad, "the driver lists no GPUs",
                        "check lspci, and the kernel log (dmesg) for NVRM lines"});
  }
  for (std::size_t i = 0; i < facts.gpus->size(); ++i)
    std::ranges::move(CheckGpu(i, facts, settings), std::back_inserter(findings));
  std::ranges::move(CheckMig(facts, settings), std::back_inserter(findings));
  return findings;
}

Level Worst(const std::vector<Finding>& findings) {
  Level worst = Level::kOk;
  for (const Finding& finding : findings) worst = std::max(worst, finding.level);
  return worst;
}

std::string DoctorText(const std::vector<Finding>& all, const Screen& screen) {
  const std::vector<Finding> findings = Folded(all);
  constexpr Colour kColours[] = {Colour::kGood, Colour::kWaiting, Colour::kBad};
  std::size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.topic.size());
  std::string text;
  for (const Finding& finding : findings) {
    const std::string level(LevelName(finding.level));
    const std::size_t indent = width + 8;
    // Wraps the text before adding colours, because colour codes take no space on the screen.
    const std::string line =
        WrapTo(fmt::format("{:<6}{:<{}}  {}\n", level, finding.topic, width, finding.text), screen,
               indent);
    text +=
        Paint(level, kColours[static_cast<int>(finding.level)], screen) + line.substr(level.size());
    if (!finding.remedy.empty())
      text += WrapTo(fmt::format("{:{}}-> {}\n", "", indent, finding.remedy), screen, indent + 3);
  }
  const auto bad = std::ranges::count(findings, Level::kBad, &Finding::level);
  const auto warnings = std::ranges::count(findings, Level::kWarn, &Finding::level);
  if (bad == 0 && warnings == 0) return text + "No problems found.\n";
  std::vector<std::string> counts;
  if (bad > 0) counts.push_back(base::Counted(bad, "problem"));
  if (warnings > 0) counts.push_back(base::Counted(warnings, "warning"));
  return text + base::Join(counts, ", ") + ".\n";
}

base::Json FindingsJson(const std::vector<Finding>& findings) {
  base::Json json = {{"worst", LevelName(Worst(findings))}, {"findings", base::Json::array()}};
  for (const Finding& finding : findings) {
    json["findings"].push_back({{"topic", finding.topic},
                                {"level", LevelName(finding.level)},
                                {"text", finding.text},
                                {"remedy", finding.remedy}});
  }
  return json;
}

std::string DoctorJson(const std::vector<Finding>& findings, const DriverFacts& facts,
                       const std::vector<ContextFacts>& contexts) {
  base::Json json = FindingsJson(findings);
  json["gpus"] = json["contexts"] = base::Json::array();
  if (facts.versions && facts.gpus) {
    for (const GpuFacts& known : *facts.gpus) json["gpus"].push_back(GpuJson(known));
  }
  for (const ContextFacts& context : contexts) json["contexts"].push_back(ContextJson(context));
  return base::DumpJson(json) + "\n";
}

}  // namespace carma::cli
