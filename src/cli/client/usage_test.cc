// Tests `carma usage` by running the whole command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/usage_view.h"
#include "base/json.h"
#include "cli/fake_daemon.h"

namespace carma::cli {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class Usage : public ::testing::Test {
 protected:
  void SetUp() override {
    daemon_.On("GET /v1/usage", [](const api::Request&) {
      base::Json rows = base::Json::array();
      for (const api::UsageView& row :
           {api::UsageView{.user = "ada",
           .period = "2026-03",
           .tasks = 1,
           .attempts = 2,
           .gpu_s = 5400.5,
           .share_s = 2700,
           .waiting_s = 3600,
           .energy_j = 7.2e6,
           .ooms = 1,
           .promised_mib_s = 1000,
           .unused_mib_s = 250},
            api::UsageView{
                .user = "bob, the second", .period = "2026-03", .attempts = 1, .gpu_s = 1800}}) {
        rows.push_back(ToJson(row));
      }
      return api::Response{.body = base::DumpJson({{"usage", rows}})};
    });
  }
  Ran Run(std::vector<std::string> words) {
    return RunWords(daemon_.socket_path(), std::move(words));
  }
  FakeDaemon daemon_;
};

TEST_F(Usage, IsATableWithItsSum) {
  const Ran ran = Run({"usage", "--by", "user,month"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("USER"));
  EXPECT_THAT(ran.out, HasSubstr("MONTH"));
  EXPECT_THAT(ran.out, HasSubstr("2026-03"));
  EXPECT_THAT(ran.out, HasSubstr("25 %"));
  EXPECT_THAT(ran.out, HasSubstr("2.00"));  // kWh
  EXPECT_THAT(ran.out, ::testing::ContainsRegex("all +3 +2.00 "));
  EXPECT_THAT(daemon_.requests(), Contains(HasSubstr("/v1/usage?by=user,month")));
}

TEST_F(Usage, NamesClassesByEitherWord) {
  for (const char* word : {"class", "qos"}) {
    const Ran ran = Run({"usage", "--by", word});
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_TRUE(ran.out.starts_with("CLASS")) << ran.out;
  }
}

TEST_F(Usage, IsCsvOrJsonForPrograms) {
  const Ran csv = Run({"usage", "--csv", "--since", "2026-03-01"});
  EXPECT_EQ(csv.exit_code, 0) << csv.err;
  EXPECT_THAT(csv.out, HasSubstr("user,account,qos,period,tasks,attempts,gpu_s"));
  EXPECT_THAT(csv.out,
              HasSubstr("ada,,,2026-03,1,2,5400.500,2700.000,3600.000,7200000.0,1,1000,250\n"));
  EXPECT_THAT(csv.out, HasSubstr("\"bob, the second\","));
  EXPECT_THAT(daemon_.requests(), Contains(HasSubstr("&after_ms=")));
  const Ran json = Run({"usage", "--json"});
  EXPECT_EQ(base::ParseJson(json.out)->at("usage").size(), 2u);
}

TEST_F(Usage, ReportsThatNothingWasUsed) {
  daemon_.On("GET /v1/usage",
             [](const api::Request&) { return api::Response{.body = R"({"usage":[]})"}; });
  const Ran ran = Run({"usage"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_THAT(ran.err, HasSubstr("no task held a GPU"));
  EXPECT_EQ(Run({"usage", "--since=yesterday"}).exit_code, 2);
}

}  // namespace
}  // namespace carma::cli
