#include "core/values/gpu_choice.h"

#include <gtest/gtest.h>

namespace carma::core {
namespace {

TEST(GpuChoice, MatchesTypesAsPeopleWriteThem) {
  constexpr struct {
    const char* wanted;
    const char* model;
    bool meant;
  } kCases[] = {
      {"a100", "NVIDIA A100-SXM4-40GB", true},
      {"A100", "A100-40GB", true},
      {"a100-40", "NVIDIA A100-SXM4-40GB", true},
      {"a100-40g", "NVIDIA A100-SXM4-40GB", true},
      {"a100-80", "NVIDIA A100-SXM4-40GB", false},
      {"nvidia_a100_80gb_pcie", "NVIDIA A100 80GB PCIe", true},
      {"a100", "NVIDIA RTX A1000", false},
      {"a40", "NVIDIA A100-SXM4-40GB", false},
      {"100", "NVIDIA A100-SXM4-40GB", false},
      {"4", "NVIDIA A100-SXM4-40GB", false},
      {"t4", "Tesla T4", true},
      {"l4", "NVIDIA L40", false},
      {"l40", "NVIDIA L40S", false},
      {"h200", "NVIDIA GH200 480GB", false},
      {"h100-80gb", "NVIDIA H100 80GB HBM3", true},
      {"rtx4090", "NVIDIA GeForce RTX 4090", true},
      {"RTX 4090", "NVIDIA GeForce RTX 4090", true},
      {"2080ti", "NVIDIA GeForce RTX 2080 Ti", true},
      {"4090 rtx", "NVIDIA GeForce RTX 4090", false},
      {"3g.20gb", "NVIDIA A100-SXM4-40GB MIG 3g.20gb", true},
      {"", "Tesla T4", false},
      {"-", "Tesla T4", false},
      {"t4", "", false},
  };
  for (const auto& each : kCases)
    EXPECT_EQ(NamesType(each.wanted, each.model), each.meant) << each.wanted << " " << each.model;
}

std::vector<GpuInfo> MixedServer() {
  return {{.uuid = "GPU-aaaa1111", .type = "NVIDIA A100-SXM4-40GB", .total_mib = 40'960},
          {.uuid = "GPU-bbbb2222", .type = "NVIDIA A100-SXM4-80GB", .total_mib = 81'920},
          {.uuid = "GPU-cccc3333", .type = "Tesla T4", .total_mib = 15'360}};
}

std::string AllowedBy(const TaskRequest& request) {
  const std::vector<GpuInfo> gpus = MixedServer();
  const GpuChoice choice(request, gpus);
  std::string text;
  for (std::uint32_t i = 0; i < gpus.size(); ++i) {
    EXPECT_EQ(choice.Allows(GpuIndex{i}), choice.WhyNot(GpuIndex{i}).empty());
    if (choice.Allows(GpuIndex{i})) text += std::to_string(i);
  }
  return text;
}

TEST(GpuChoice, OptionsNarrowTheChoice) {
  EXPECT_EQ(AllowedBy({}), "012");
  EXPECT_EQ(AllowedBy({.gpu_type = "a100"}), "01");
  EXPECT_EQ(AllowedBy({.gpu_type = "a100-80"}), "1");
  EXPECT_EQ(AllowedBy({.gpu_memory_min_mib = 16 * 1024}), "012") << "16 GB, minus ECC";
  EXPECT_EQ(AllowedBy({.gpu_memory_min_mib = 20 * 1024}), "01");
  EXPECT_EQ(AllowedBy({.on_gpus = {"0", "GPU-CCCC"}}), "02");
  EXPECT_EQ(AllowedBy({.not_on_gpus = {"0"}}), "12");
  EXPECT_EQ(AllowedBy({.gpu_type = "a100", .not_on_gpus = {"GPU-aaaa1111"}}), "1");
  EXPECT_EQ(AllowedBy({.on_gpus = {"2"}, .not_on_gpus = {"2"}}), "");
}

TEST(GpuChoice, ReportsWhyAGpuIsNotChosen) {
  const std::vector<GpuInfo> gpus = MixedServer();
  const GpuChoice choice({.gpu_type = "a100", .gpu_memory_min_mib = 80 * 1024}, gpus);
  EXPECT_EQ(choice.WhyNot(GpuIndex{0}),
            "GPU 0 (NVIDIA A100-SXM4-40GB) has 40.0G of memory, but the task asks for a GPU with "
            "at least 80.0G.");
  EXPECT_EQ(choice.WhyNot(GpuIndex{1}), "");
  EXPECT_EQ(choice.WhyNot(GpuIndex{2}),
            "GPU 2 (Tesla T4) is not of type a100, which the task asks for.");
}

TEST(GpuChoice, GivesOneReasonForAllUnwantedGpus) {
  const std::vector<GpuInfo> gpus = MixedServer();
  const GpuChoice choice({.on_gpus = {"0"}}, gpus);
  EXPECT_EQ(choice.WhyNot(GpuIndex{1}), "The task asks for GPU 0 only.");
  EXPECT_EQ(choice.WhyNot(GpuIndex{2}), choice.WhyNot(GpuIndex{1}));
}

TEST(GpuChoice, NamesTheConditionThatTooFewGpusMeet) {
  const std::vector<GpuInfo> gpus = MixedServer();
  EXPECT_EQ(TooFewChosen({.gpus = 1, .gpu_memory_min_mib = 100 * 1024}, gpus, 0),
            "The task needs 1 GPU (at least 100.0G of memory); none of this server's 3 matches "
            "that; the largest has 80.0G.");
  EXPECT_EQ(TooFewChosen({.gpus = 1, .on_gpus = {"0"}, .not_on_gpus = {"0"}}, gpus, 0),
            "The task needs 1 GPU (only GPU 0, not GPU 0); none of this server's 3 matches that.");
  EXPECT_EQ(TooFewChosen({.gpus = 3, .gpu_type = "a100"}, gpus, 2),
            "The task needs 3 GPUs (type a100); 2 of this server's 3 match that.");
}

TEST(GpuChoice, ReportsUnknownNamesWithTheExistingGpus) {
  const std::vector<GpuInfo> gpus = MixedServer();
  EXPECT_EQ(MisnamedGpus({.gpu_type = "t4", .on_gpus = {"0"}}, gpus), std::nullopt);
  EXPECT_EQ(MisnamedGpus({.gpu_type = "h100"}, gpus),
            "There is no GPU of type h100 here; this server has 1x NVIDIA A100-SXM4-40GB, 1x "
            "NVIDIA A100-SXM4-80GB, 1x Tesla T4.");
  EXPECT_TRUE(MisnamedGpus({.on_gpus = {"3"}}, gpus));
  EXPECT_TRUE(MisnamedGpus({.not_on_gpus = {"GPU-dddd"}}, gpus));
  EXPECT_TRUE(MisnamedGpus({.not_on_gpus = {"GPU-"}}, gpus)) << "the prefix is too short";
}

}  // namespace
}  // namespace carma::core
