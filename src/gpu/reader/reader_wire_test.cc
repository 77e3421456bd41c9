#include "gpu/reader/reader_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carma::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ReaderWire, RoundTripsRequests) {
  const auto list = ParseRequest(FormatRequest(ListRequest{{3, 5}}));
  ASSERT_TRUE(list) << list.error().message;
  EXPECT_THAT(std::get<ListRequest>(*list).leave_out, ElementsAre(3U, 5U));
  EXPECT_TRUE(
      std::get<ListRequest>(ParseRequest(FormatRequest(ListRequest{})).value()).leave_out.empty());
  const auto read = ParseRequest(FormatRequest(ReadRequest{7, base::FromMs(1'700'000'000'123)}));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(std::get<ReadRequest>(*read).device, 7U);
  EXPECT_EQ(std::get<ReadRequest>(*read).now, base::FromMs(1'700'000'000'123));
}

TEST(ReaderWire, RoundTripsAnswers) {
  EXPECT_EQ(std::get<Asking>(ParseAnswer(FormatAnswer(Asking{4})).value()).number, 4U);

  DeviceInfo whole{.uuid = "GPU-a", .name = "A100", .pci = "0:1", .total_mib = 40'000};
  DeviceInfo hung{.uuid = "GPU-unknown-1", .name = "", .pci = ""};
  hung.trouble = {"it is currently excluded from queries", TroubleCause::kHangs, "1"};
  const auto listing = ParseAnswer(FormatAnswer(ReaderListing{{whole, hung}, {0, 1}}));
  ASSERT_TRUE(listing) << listing.error().message;
  EXPECT_THAT(std::get<ReaderListing>(*listing).devices, ElementsAre(whole, hung));
  EXPECT_THAT(std::get<ReaderListing>(*listing).numbers, ElementsAre(0U, 1U));

  Reading reading;
  reading.total_mib = 40'000;
  reading.used_mib = 17;
  reading.sm_active = 0.123456789012345;
  reading.processes = {
      {.pid = 7, .used_mib = 16, .kernel_time = 0.5, .group = "/carma-7", .group_mib = 20}};
  reading.xids = {31};
  const auto read = ParseAnswer(FormatAnswer(reading));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(std::get<Reading>(*read), reading);

  const auto error =
      ParseAnswer(FormatAnswer(ReadError(ErrorCode::kNotFound, "it is lost", "GPU-a")));
  ASSERT_TRUE(error) << error.error().message;
  EXPECT_EQ(std::get<ReadError>(*error).code, ErrorCode::kNotFound);
  EXPECT_EQ(std::get<ReadError>(*error).Sentence(), "GPU GPU-a: it is lost");
}

TEST(ReaderWire, RejectsInvalidMessagesWithTheirPlace) {
  for (const char* line : {"", "lost", "read 1", "read x 5", "read -1 5", "list 1 x", "list -3"})
    EXPECT_FALSE(ParseRequest(line)) << line;
  const auto refused = [](const char* line) {
    const auto answer = ParseAnswer(line);
    return answer ? "" : answer.error().message;
  };
  EXPECT_THAT(refused("{}"), HasSubstr("/reading"));
  EXPECT_THAT(refused("[]"), HasSubstr("object"));
  EXPECT_THAT(refused(R"({"asking":-1})"), HasSubstr("/asking"));
  EXPECT_THAT(refused(R"({"devices":[],"numbers":[1]})"), HasSubstr("/devices"));
  EXPECT_THAT(refused(R"({"devices":[{"uuid":"GPU-a","total_mib":5}],"numbers":["0"]})"),
              HasSubstr("/numbers"));
  EXPECT_THAT(refused(R"({"reading":{"total_mib":-5}})"), HasSubstr("/reading/total_mib"));
}

}  // namespace
}  // namespace carma::gpu
