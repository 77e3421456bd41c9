#include "cli/client/gpu_text.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "cli/client/sample_views_test.h"
#include "cli/terminal.h"

namespace carma::cli {
namespace {

class GpuHistoryTextTest : public InUtc {};

const HistorySpan kSomeSpan{.from_ms = kNow - 600'000, .to_ms = kNow, .points = 10};

api::GpuHistoryView SomeHistory() {
  api::GpuHistoryView gpu{.index = 1, .uuid = "GPU-1", .name = "H100", .points = {}};
  for (const int minute : {0, 1, 2, 5, 9}) {
    const double part = minute / 9.0;
    gpu.points.push_back({.from_ms = kSomeSpan.from_ms + minute * 60'000,
                          .to_ms = kSomeSpan.from_ms + (minute + 1) * 60'000,
                          .sm_active = part,
                          .sm_peak = minute < 9 ? std::optional(part) : std::nullopt,
                          .used_mib = part * 40'960,
                          .used_peak_mib = part * 40'960,
                          .power_w = 100 + 90.0 * minute,
                          .tasks = minute == 5 ? 12 : minute / 2});
  }
  return gpu;
}

TEST_F(GpuHistoryTextTest, HistoryHasBlanksForUnknownSpans) {
  EXPECT_EQ(HistoryTitle(kSomeSpan) + HistoryBars(SomeHistory(), 40'960, kSomeSpan), R"(
From 2026-03-01 12:50:00 to 2026-03-01 13:00:00, 1:00 per character
GPU 1 H100
  SM mean   ▁▂▃  ▅   █ 38%
  SM peak   ▁▂▃  ▅     56%
  Mem peak  ▁▂▃  ▅   █ 40.0G
  Power     ▂▂▃  ▅   █ 406W
  Tasks     001  +   4
)" + 1);
}

TEST_F(GpuHistoryTextTest, HistoryFitsEightyColumns) {
  HistorySpan span = kSomeSpan;
  span.points = 60;
  const std::string bars = HistoryBars(SomeHistory(), 1'000'000, span);
  for (std::string_view line : base::Split(bars, '\n')) EXPECT_LE(ShownWidth(line), 80u) << line;
}

TEST_F(GpuHistoryTextTest, HistoryAsCsvLeavesOutUnknownValues) {
  api::GpuHistoryView gpu = SomeHistory();
  gpu.points = {gpu.points[0], gpu.points[4]};
  EXPECT_EQ(HistoryCsv({gpu}),
            "gpu,uuid,from_ms,to_ms,sm_active,sm_peak,dram_active,used_mib,used_peak_mib,power_w,"
            "tasks\n"
            "1,GPU-1,1772369400000,1772369460000,0,0,,0,0,100,0\n"
            "1,GPU-1,1772369940000,1772370000000,1,,,40960,40960,910,4\n");
}

}  // namespace
}  // namespace carma::cli
