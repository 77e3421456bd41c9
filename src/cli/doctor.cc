#include "cli/doctor.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "base/text.h"
#include "cli/doctor_context.h"
#include "cli/doctor_gpu.h"

namespace carma::cli {
namespace {

base::Json GpuJson(const GpuFacts& known) {
  base::Json gpu = {{"uuid", known.info.uuid}, {"name", known.info.name}, {"pci", known.info.pci}};
  if (known.info.mig) {
    gpu["mig_profile"] = known.info.mig->profile_name;
    gpu["mig_parent"] = known.info.mig->parent_uuid;
  }
  if (!known.reading) return gpu;
  gpu["activity"] = gpu::CounterSourceName(known.reading->counters);
  gpu["counters"] = CountersTold(*known.reading);
  gpu["values"] = ValuesTold(*known.reading);
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

}  // namespace

std::string_view LevelName(Level level) {
  switch (level) {
    case Level::kOk:
      return "ok";
    case Level::kWarn:
      return "warn";
    case Level::kBad:
      return "bad";
  }
  return "bad";
}

std::vector<Finding> CheckDriver(const DriverFacts& facts, const config::Settings& settings) {
  std::vector<Finding> findings;
  if (!facts.versions) {
    const char* const remedy =
        facts.hangs ? "see the kernel's log (dmesg) for NVRM and Xid lines; a reset or a reboot is "
                      "likely to be needed"
                    : "install the NVIDIA driver so that nvidia-smi works, or name its library "
                      "with monitor.nvml_library";
    findings.push_back(
        {"driver", Level::kBad, base::Printable(facts.versions.error().message), remedy});
    return findings;
  }
  std::vector<std::string> pieces;
  const auto add = [&](const char* name, const std::string& version) {
    if (!version.empty()) pieces.push_back(name + base::Printable(version, 60));
  };
  add(facts.simulated ? "simulated driver " : "driver ", facts.versions->driver);
  add("NVML ", facts.versions->nvml);
  add("CUDA up to ", facts.versions->cuda);
  findings.push_back({"driver", Level::kOk, base::Join(pieces, ", "), ""});
  if (!facts.gpus) {
    findings.push_back({"gpus", Level::kBad, base::Printable(facts.gpus.error().message),
                        "see the kernel's log (dmesg) for NVRM lines; a reboot may be needed"});
    return findings;
  }
  if (facts.gpus->empty()) {
    findings.push_back({"gpus", Level::kBad, "the driver knows no GPU",
                        "see lspci and the kernel's log (dmesg) for NVRM lines"});
  }
  for (std::size_t i = 0; i < facts.gpus->size(); ++i) {
    std::vector<Finding> of_gpu = CheckGpu(i, facts, settings);
    std::move(of_gpu.begin(), of_gpu.end(), std::back_inserter(findings));
  }
  std::vector<Finding> of_mig = CheckMig(*facts.gpus, settings);
  std::move(of_mig.begin(), of_mig.end(), std::back_inserter(findings));
  return findings;
}

Level Worst(const std::vector<Finding>& findings) {
  Level worst = Level::kOk;
  for (const Finding& finding : findings) worst = std::max(worst, finding.level);
  return worst;
}

std::string DoctorText(const std::vector<Finding>& findings, const Screen& screen) {
  constexpr Colour kColours[] = {Colour::kGood, Colour::kWaiting, Colour::kBad};
  std::size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.topic.size());
  std::string text;
  for (const Finding& finding : findings) {
    const std::string level(LevelName(finding.level));
    text += Paint(level, kColours[static_cast<int>(finding.level)], screen) +
            std::string(6 - level.size(), ' ') +
            fmt::format("{:<{}}  {}\n", finding.topic, width, finding.text);
    if (!finding.remedy.empty()) {
      text += fmt::format("{:{}}-> {}\n", "", width + 8, finding.remedy);
    }
  }
  const auto count = [&](Level level) {
    return std::count_if(findings.begin(), findings.end(),
                         [level](const Finding& finding) { return finding.level == level; });
  };
  const auto bad = count(Level::kBad), warnings = count(Level::kWarn);
  if (bad == 0 && warnings == 0) return text + "All is well.\n";
  return text + fmt::format("{} bad, {} to be looked at.\n", bad, warnings);
}

std::string DoctorJson(const std::vector<Finding>& findings, const DriverFacts& facts,
                       const std::vector<ContextFacts>& contexts) {
  base::Json json = {{"worst", LevelName(Worst(findings))},
                     {"findings", base::Json::array()},
                     {"gpus", base::Json::array()},
                     {"contexts", base::Json::array()}};
  for (const Finding& finding : findings) {
    json["findings"].push_back({{"topic", finding.topic},
                                {"level", LevelName(finding.level)},
                                {"text", finding.text},
                                {"remedy", finding.remedy}});
  }
  if (facts.versions && facts.gpus) {
    for (const GpuFacts& known : *facts.gpus) json["gpus"].push_back(GpuJson(known));
  }
  for (const ContextFacts& context : contexts) json["contexts"].push_back(ContextJson(context));
  return base::DumpJson(json) + "\n";
}

}  // namespace carma::cli
