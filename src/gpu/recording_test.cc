#include "gpu/recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "gpu/counters.h"
#include "gpu/window.h"
#include "test_paths.h"

namespace carma::gpu {
namespace {

using ::testing::HasSubstr;

// Replays a recording. Each Read() of a device returns the device's next answer, regardless of
// timing. `taken` is the time of the first Read() of any device plus the answer's recorded time.
// After the last answer, Read() returns kUnavailable "the recording has ended".
class ReplayProbe : public Probe {
 public:
  explicit ReplayProbe(Recording recording);
  ReadResult<std::vector<DeviceInfo>> Devices() override { return recording_.devices; }
  ReadResult<Reading> Read(std::size_t device, base::Time now) override;

 private:
  Recording recording_;
  std::vector<std::vector<std::size_t>> of_device_;  // indices of each device's answers
  std::vector<std::size_t> next_;
  std::optional<base::Time> began_;
};

ReplayProbe::ReplayProbe(Recording recording)
    : recording_(std::move(recording)),
      of_device_(recording_.devices.size()),
      next_(recording_.devices.size(), 0) {
  for (std::size_t i = 0; i < recording_.answers.size(); ++i)
    of_device_[recording_.answers[i].device].push_back(i);
}

ReadResult<Reading> ReplayProbe::Read(std::size_t device, base::Time now) {
  if (device >= of_device_.size()) return NotFound("no GPU " + std::to_string(device));
  if (next_[device] == of_device_[device].size()) return Unavailable("the recording has ended");
  if (!began_) began_ = now;
  const RecordedAnswer& answer = recording_.answers[of_device_[device][next_[device]++]];
  if (!answer.reading) return answer.reading;
  Reading reading = *answer.reading;
  reading.taken = *began_ + answer.at;
  return reading;
}

Reading FullReading() {
  Reading reading;
  reading.total_mib = 40'960;
  reading.reserved_mib = 424;
  reading.used_mib = 10'000;
  reading.counters = CounterSource::kDcgm;
  double value = 0.1;
  for (const Counter& counter : Counters()) reading.*counter.value = value += 0.01;
  for (const Gauge& gauge : Gauges()) reading.*gauge.value = value += 0.01;
  reading.condition = {.ecc_corrected = 1,
                       .ecc_uncorrected = 2,
                       .rows_remapped = 3,
                       .remap_pending = true,
                       .remap_failed = false,
                       .compute_mode = ComputeMode::kExclusiveProcess,
                       .mig = true,
                       .recovery = RecoveryAction::kDrainP2p};
  reading.processes = {{.pid = 11, .used_mib = 9'000, .kernel_time = 0.25},
                       {.pid = 12},
                       {.pid = 13, .mps_server = true},
                       {.pid = 14, .used_mib = 100, .mps_client = true}};
  reading.xids = {79, 154};
  return reading;
}

Recording TwoGpus() {
  Recording recording{.made_by = "carma test", .driver = "550.1", .devices = {}, .answers = {}};
  recording.devices = {
      {"GPU-a", "A", "00000000:07:00.0", 40'960, 424, true},
      {"GPU-b", "B", "00000000:0F:00.0", 40'960, 424, false},
      {.uuid = "MIG-c",
       .name = "C MIG 3g.20gb",
       .pci = "00000000:1F:00.0",
       .total_mib = 19'968,
       .mig = MigPlace{"GPU-c", 2, 1, 9, "3g.20gb"}},
      {.uuid = "GPU-unknown-3", .trouble = {"GPU is lost (NVML 15)", TroubleCause::kOther, "3"}},
      {.uuid = "GPU-e", .trouble = {"no instance", TroubleCause::kNoInstance, "GPU-e"}}};
  recording.answers = {
      {base::Duration(0), 0, FullReading()},
      {base::Duration(0), 1, Reading{.total_mib = 40'960}},
      {base::Duration(1'000), 0,
       std::unexpected(ReadError(ErrorCode::kNotFound, "GPU is lost", "GPU-a"))},
      {base::Duration(1'001), 1, Reading{.total_mib = 40'960, .used_mib = 7}},
  };
  return recording;
}

std::string TextOf(const Recording& recording) {
  std::string text = RecordingHead(recording);
  for (const RecordedAnswer& answer : recording.answers) text += RecordingLine(answer);
  return text;
}

TEST(Recording, RoundTrips) {
  const Recording before = TwoGpus();
  const auto after = ParseRecording(TextOf(before));
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_EQ(after->made_by, before.made_by);
  EXPECT_EQ(after->driver, before.driver);
  EXPECT_EQ(after->devices, before.devices);
  ASSERT_EQ(after->answers.size(), before.answers.size());
  for (std::size_t i = 0; i < after->answers.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(after->answers[i].at, before.answers[i].at);
    EXPECT_EQ(after->answers[i].device, before.answers[i].device);
    ASSERT_EQ(after->answers[i].reading.has_value(), before.answers[i].reading.has_value());
    EXPECT_EQ(after->answers[i].reading.value_or(Reading{}),
              before.answers[i].reading.value_or(Reading{}));
  }
  EXPECT_EQ(after->answers[2].reading.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(after->answers[2].reading.error().Sentence(), "GPU GPU-a: GPU is lost");
}

TEST(Recording, IgnoresAnIncompleteLastLine) {
  std::string text = TextOf(TwoGpus());
  text.resize(text.size() - 20);
  const auto recording = ParseRecording(text);
  ASSERT_TRUE(recording) << recording.error().message;
  EXPECT_EQ(recording->answers.size(), 3u);
}

TEST(Recording, ReportsMistakesWithTheirLine) {
  const std::string head = RecordingHead(TwoGpus());
  const struct {
    const char* name;
    std::string text;
    const char* says;
  } cases[] = {
      {"nothing", "", "line 1"},
      {"something else", "{\"tasks\":[]}\n", "not a recording"},
      {"another version", "{\"carma_recording\":2,\"devices\":[]}\n", "a different version"},
      {"no GPUs", "{\"carma_recording\":1}\n", "/devices"},
      {"a GPU without memory", "{\"carma_recording\":1,\"devices\":[{\"uuid\":\"GPU-a\"}]}\n",
       "total_mib"},
      {"an instance without a number",
       "{\"carma_recording\":1,\"devices\":[{\"uuid\":\"MIG-a\",\"total_mib\":9,"
       "\"mig\":{\"gpu_instance\":-1}}]}\n",
       "/devices/mig/gpu_instance"},
      {"a kernel time of 17 times the elapsed time",
       head + "{\"at_ms\":0,\"gpu\":0,\"reading\":{\"processes\":[{\"pid\":1,"
              "\"kernel_time\":17}]}}\n",
       "kernel_time"},
      {"broken JSON", head + "{\"at_ms\":\n", "line 2"},
      {"a GPU that does not exist", head + "{\"at_ms\":0,\"gpu\":5,\"reading\":{}}\n", "/gpu"},
      {"no GPU", head + "{\"at_ms\":0,\"reading\":{}}\n", "/gpu"},
      {"neither answer nor error", head + "{\"at_ms\":0,\"gpu\":0}\n", "/error"},
      {"a percentage instead of a fraction",
       head + "{\"at_ms\":0,\"gpu\":0,\"reading\":{\"sm_active\":57}}\n", "sm_active"},
      {"an unknown source", head + "{\"at_ms\":0,\"gpu\":0,\"reading\":{\"counters\":\"cupti\"}}\n",
       "none, gpm or dcgm"},
      {"a negative pid",
       head + "{\"at_ms\":0,\"gpu\":0,\"reading\":{\"processes\":[{\"pid\":-1}]}}\n", "pid"},
      {"decreasing times",
       head + "{\"at_ms\":5,\"gpu\":0,\"reading\":{}}\n{\"at_ms\":4,\"gpu\":0,\"reading\":{}}\n",
       "line 3: /at_ms"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const auto recording = ParseRecording(c.text);
    ASSERT_FALSE(recording);
    EXPECT_EQ(recording.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(recording.error().message, HasSubstr(c.says));
    EXPECT_EQ(recording.error().message.find('\n'), std::string::npos);
  }
}

// Values that older versions did not record are absent.
TEST(Recording, ReadsRecordingsOfEarlierVersions) {
  const auto recording =
      ParseRecording(R"({"carma_recording":1,"devices":[{"uuid":"GPU-a","total_mib":40960}]})"
                     "\n"
                     R"({"at_ms":0,"gpu":0,"reading":{"total_mib":40960,"processes":[{"pid":7}]}})"
                     "\n");
  ASSERT_TRUE(recording) << recording.error().message;
  EXPECT_EQ(recording->devices[0], (DeviceInfo{.uuid = "GPU-a", .total_mib = 40'960}));
  EXPECT_EQ(recording->answers[0].reading->processes[0], ProcessUse{.pid = 7});
}

TEST(ReplayProbe, ReturnsEveryAnswerOnceAtItsTime) {
  ReplayProbe probe(TwoGpus());
  EXPECT_EQ(probe.Devices()->size(), 5u);
  const base::Time began = base::FromMs(50'000);
  const auto first = probe.Read(0, began);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->taken, began);
  EXPECT_EQ(first->xids, (std::vector<int>{79, 154}));
  EXPECT_EQ(probe.Read(0, began).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(probe.Read(0, began).error().code, ErrorCode::kUnavailable) << "it has ended";
  EXPECT_EQ(probe.Read(1, began)->used_mib, 0);
  EXPECT_EQ(probe.Read(1, began)->taken, began + base::Duration(1'001));
  EXPECT_EQ(probe.Read(5, began).error().code, ErrorCode::kNotFound);
}

// Recorded from the simulated driver with two A100s. One was idle, and a task started on the other.
TEST(ReplayProbe, ReplaysTheStartOfATask) {
  const auto text = base::ReadFile(
      std::string(CARMA_SOURCE_DIR) + "/fuzz/corpus/recording/simulated-2xA100.jsonl", 1 << 20);
  ASSERT_TRUE(text) << text.error().message;
  const auto recording = ParseRecording(*text);
  ASSERT_TRUE(recording) << recording.error().message;
  ASSERT_EQ(recording->devices.size(), 2u);
  EXPECT_EQ(recording->devices[0].name, "NVIDIA A100-SXM4-40GB");
  ReplayProbe probe(*recording);
  Window busy(std::chrono::seconds(60));
  std::int64_t most_mib = 0;
  while (const auto reading = probe.Read(0, base::FromMs(0))) {
    busy.Add(*reading);
    most_mib = std::max(most_mib, reading->used_mib);
    const auto idle = probe.Read(1, base::FromMs(0));
    ASSERT_TRUE(idle);
    EXPECT_EQ(idle->used_mib, 0);
    EXPECT_EQ(idle->sm_active, 0.0);
  }
  EXPECT_EQ(most_mib, 9'000);
  EXPECT_GT(busy.SmActive().value(), 0.1);
  EXPECT_GT(busy.SmActiveP95().value(), busy.SmActive().value());
}

// Recorded from the simulated driver with an A100 divided into three instances, an H100 divided
// into two, and a whole A100.
TEST(ReplayProbe, ReplaysInstances) {
  const auto text = base::ReadFile(
      std::string(CARMA_SOURCE_DIR) + "/fuzz/corpus/recording/simulated-mig.jsonl", 1 << 20);
  ASSERT_TRUE(text) << text.error().message;
  const auto recording = ParseRecording(*text);
  ASSERT_TRUE(recording) << recording.error().message;
  std::vector<std::string> places;
  double power_w = 0;
  ReplayProbe probe(*recording);
  for (std::size_t i = 0; i < recording->devices.size(); ++i) {
    const DeviceInfo& device = recording->devices[i];
    places.push_back(device.mig ? device.mig->profile_name : "whole");
    const auto reading = probe.Read(i, base::FromMs(0));
    ASSERT_TRUE(reading);
    EXPECT_EQ(reading->condition.mig, device.mig.has_value());
    power_w += reading->power_w.value_or(0);
  }
  EXPECT_EQ(places, (std::vector<std::string>{"3g.20gb", "2g.10gb", "1g.5gb", "3g.40gb", "1g.10gb",
                                              "whole"}));
  EXPECT_DOUBLE_EQ(power_w, 53.8 + 136.9 + 53.8) << "each GPU once";
}

// Recorded from an H100 (driver 580) that several PyTorch tasks shared through streams.
TEST(ReplayProbe, AnswersOfARealDriverAreConsistent) {
  const auto text = base::ReadFile(
      std::string(CARMA_SOURCE_DIR) + "/fuzz/corpus/recording/h100-580.jsonl", 1 << 20);
  ASSERT_TRUE(text) << text.error().message;
  const auto recording = ParseRecording(*text);
  ASSERT_TRUE(recording) << recording.error().message;
  EXPECT_EQ(recording->devices.at(0).reserved_mib, 480);
  ReplayProbe probe(*recording);
  std::size_t most_processes = 0;
  double most_active = 0;
  while (const auto reading = probe.Read(0, base::FromMs(0))) {
    std::int64_t of_processes = 0;
    for (const ProcessUse& use : reading->processes) of_processes += use.used_mib.value_or(0);
    EXPECT_LE(of_processes, reading->used_mib);
    EXPECT_LE(reading->used_mib, of_processes + 16) << "the driver's own memory";
    for (const Counter& counter : Counters())
      EXPECT_TRUE(((*reading).*counter.value).has_value()) << counter.name;
    EXPECT_LE(reading->sm_active.value_or(0), reading->graphics_active.value_or(0) + 0.01);
    most_processes = std::max(most_processes, reading->processes.size());
    most_active = std::max(most_active, reading->sm_active.value_or(0));
  }
  EXPECT_EQ(most_processes, 2u);
  EXPECT_GT(most_active, 0.9);
}

}  // namespace
}  // namespace carma::gpu
