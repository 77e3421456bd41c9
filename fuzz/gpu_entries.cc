#include <string>
#include <vector>

#include "base/result.h"
#include "entries.h"
#include "gpu/counters.h"
#include "gpu/dmon_parser.h"
#include "gpu/kernel_log.h"
#include "gpu/reader/reader_wire.h"
#include "gpu/recording.h"

namespace carma::fuzz {
namespace {

void CheckCounters(const gpu::Reading& reading) {
  for (const gpu::Counter& counter : gpu::Counters()) {
    const double high = counter.unit == gpu::CounterUnit::kFraction ? 1 : gpu::kMaxBytesPerSecond;
    const double value = (reading.*counter.value).value_or(0);
    CARMA_CHECK(value >= 0 && value <= high, "a counter is within its range or absent");
  }
}

}  // namespace

void FuzzDcgmi(std::string_view bytes) {
  gpu::DmonParser whole, pieces;
  const std::vector<gpu::DmonRow> rows = whole.Feed(bytes);
  for (const gpu::DmonRow& row : rows) CheckCounters(row.values);
  std::size_t in_pieces = 0;
  for (std::size_t at = 0; at < bytes.size(); at += 7) {
    in_pieces += pieces.Feed(bytes.substr(at, 7)).size();
  }
  CARMA_CHECK(in_pieces == rows.size(), "rows do not depend on how the input is split");
  CARMA_CHECK(whole.remark() == pieces.remark(), "remarks do not depend on how the input is split");
  CARMA_CHECK(whole.remark().find('\n') == std::string::npos, "a remark is one line");
}

void FuzzRecording(std::string_view bytes) {
  const auto recording = gpu::ParseRecording(bytes);
  if (!recording) {
    CARMA_CHECK(recording.error().message.find('\n') == std::string::npos,
                "an error message is one line");
    return;
  }
  std::string again = gpu::RecordingHead(*recording);
  for (const gpu::RecordedAnswer& answer : recording->answers) {
    if (answer.reading) CheckCounters(*answer.reading);
    again += gpu::RecordingLine(answer);
  }
  const auto twice = gpu::ParseRecording(again);
  CARMA_CHECK(twice && twice->devices == recording->devices &&
                  twice->answers.size() == recording->answers.size(),
              "a recording survives a round trip");
}

void FuzzReader(std::string_view bytes) {
  if (const auto request = gpu::ParseRequest(bytes)) {
    const std::string text = gpu::FormatRequest(*request);
    const auto again = gpu::ParseRequest(text);
    CARMA_CHECK(again && gpu::FormatRequest(*again) == text, "a request survives a round trip");
  }
  const auto answer = gpu::ParseAnswer(bytes);
  if (!answer) {
    CARMA_CHECK(answer.error().message.find('\n') == std::string::npos,
                "an error message is one line");
    return;
  }
  if (const auto* reading = std::get_if<gpu::Reading>(&*answer)) CheckCounters(*reading);
  const std::string text = gpu::FormatAnswer(*answer);
  CARMA_CHECK(text.find('\n') == std::string::npos, "an answer is one line");
  const auto again = gpu::ParseAnswer(text);
  CARMA_CHECK(again && gpu::FormatAnswer(*again) == text, "an answer survives a round trip");
}

void FuzzKernelLog(std::string_view bytes) {
  const auto found = gpu::ParseKernelXid(bytes);
  if (!found) return;
  CARMA_CHECK(found->xid >= 0 && found->pid.value_or(1) > 0,
              "an Xid is not negative and a pid is positive");
  CARMA_CHECK(gpu::IsSamePlace(found->pci, found->pci), "a PCI address equals itself");
}

}  // namespace carma::fuzz
