#include "lab/sim/model_words.h"

#include <gtest/gtest.h>

#include <set>

namespace carma::sim {
namespace {

TEST(ModelWords, HaveUniqueNamesAndRefuseInvalidValues) {
  std::set<std::string_view> names;
  for (const ModelWord& word : ModelWords()) {
    EXPECT_TRUE(names.insert(word.name).second) << word.name;
    RunOptions options;
    for (const char* bad : {"", "-1", "perhaps", "1e99x"})
      EXPECT_FALSE(word.set(options, bad)) << word.name << "=" << bad;
  }
}

TEST(ModelWords, SetTheirOption) {
  RunOptions options;
  for (const auto& [name, value] : {std::pair("memory_first", "0.6"),
                                    {"memory_ramp", "10m"},
                                    {"memory_growth", "0.1"},
                                    {"memory_fragments", "1G"},
                                    {"checkpoint", "30m"},
                                    {"checkpoint_on_stop", "true"},
                                    {"oversubscription", "0.05"},
                                    {"time_slot", "2h"}}) {
    EXPECT_TRUE(SetModelWord(options, name, value)) << name;
  }
  EXPECT_EQ(options.memory.first_share, 0.6);
  EXPECT_EQ(options.memory.ramp, base::Duration{600'000});
  EXPECT_EQ(options.memory.growth_per_hour, 0.1);
  EXPECT_EQ(options.memory.fragmentation_mib, 1'024);
  EXPECT_EQ(options.checkpoints.every, base::Duration{1'800'000});
  EXPECT_TRUE(options.checkpoints.on_stop);
  EXPECT_EQ(options.interference.mps_oversubscription, 0.05);
  EXPECT_EQ(options.time_slot, base::Duration{7'200'000});

  EXPECT_EQ(SetModelWord(options, "memory_frst", "1").error().message,
            "memory_frst: unknown keyword, did you mean memory_first?");
  EXPECT_EQ(SetModelWord(options, "magic", "1").error().message, "magic: unknown keyword");
  EXPECT_EQ(SetModelWord(options, "memory_first", "2").error().message,
            "memory_first: expected share from 0 to 1, not '2'");
}

}  // namespace
}  // namespace carma::sim
