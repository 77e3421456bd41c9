// Tests the parser of `dcgmi dmon`, the child process that writes this output, and the probe that
// combines it with NVML. The children are shell scripts that print what dcgmi would print.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/file.h"
#include "gpu/combined_probe.h"
#include "gpu/dmon_parser.h"
#include "gpu/dmon_reader.h"
#include "gpu/fake_probe.h"

namespace carma::gpu {
namespace {

using ::testing::HasSubstr;

// A line in dcgmi's layout: the entity is padded to 10 characters, and each cell to 22.
std::string Line(const std::string& entity, const std::vector<std::string>& cells) {
  std::string line = entity;
  line.resize(std::max<std::size_t>(line.size(), 10), ' ');
  for (const std::string& cell : cells) {
    std::string padded = cell;
    padded.resize(std::max<std::size_t>(padded.size(), 22), ' ');
    line += padded;
  }
  return line + "\n";
}

const std::vector<std::string> kTitles = {"PCBID", "SMACT", "SMOCC", "GRACT", "TENSO",
                                          "DRAMA", "FP64A", "FP32A", "FP16A", "PCITX",
                                          "PCIRX", "NVLTX", "NVLRX", "POWER", "TOTEC"};
std::string Titles() {
  return Line("#Entity", kTitles) + Line("ID", {"#", "", "", "", "W", "mJ"});
}
std::vector<std::string> Row(const std::string& pci, const std::string& smact) {
  return {pci,     smact,     "0.125",   "0.990", "0.400", "0.300",   "0.000",  "0.075",
          "0.002", "1000000", "2000000", "0",     "N/A",   "214.500", "1234567"};
}

TEST(DmonParser, ReadsARowInCarmasUnits) {
  DmonParser parser;
  const auto rows = parser.Feed(Titles() + Line("GPU 3", Row("00000000:0F:00.0", "0.625")));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].kind, DmonRow::Kind::kGpu);
  EXPECT_EQ(rows[0].id, 3);
  EXPECT_EQ(rows[0].pci, "0000:0f:00.0");
  EXPECT_EQ(rows[0].objection, "");
  Reading expected;
  expected.counters = CounterSource::kDcgm;
  expected.sm_active = 0.625;
  expected.sm_occupancy = 0.125;
  expected.graphics_active = 0.99;
  expected.tensor_active = 0.4;
  expected.dram_active = 0.3;
  expected.fp64_active = 0;
  expected.fp32_active = 0.075;
  expected.fp16_active = 0.002;
  expected.pcie_tx_bytes_s = 1e6;
  expected.pcie_rx_bytes_s = 2e6;
  expected.nvlink_tx_bytes_s = 0;
  expected.power_w = 214.5;
  expected.energy_j = 1'234.567;
  EXPECT_EQ(rows[0].values, expected);
}

TEST(DmonParser, AcceptsOutputInAnyPieces) {
  const std::string text = Titles() + Line("GPU 0", Row("0000:07:00.0", "0.5")) + Titles() +
                           Line("GPU 1", Row("0000:0f:00.0", "0.25"));
  for (std::size_t piece = 1; piece < 40; ++piece) {
    DmonParser parser;
    std::vector<DmonRow> rows;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      for (DmonRow& row : parser.Feed(std::string_view(text).substr(at, piece)))
        rows.push_back(std::move(row));
    }
    ASSERT_EQ(rows.size(), 2u) << piece;
    EXPECT_EQ(rows[1].values.sm_active, 0.25);
  }
}

TEST(DmonParser, LeavesBlankValuesAbsent) {
  const struct {
    const char* name;
    const char* cell;
    std::optional<double> expected;
    const char* objection;
  } cases[] = {
      {"a value", "0.250", 0.25, ""},
      {"a hair above everything", "1.004", 1.0, ""},
      {"not available", "N/A", {}, ""},
      {"cut", "0.12...", {}, ""},
      {"DCGM's blank for doubles", "140737488355330.000", {}, ""},
      {"DCGM's blank for integers", "9223372036854775794", {}, ""},
      {"a percentage", "57.000", {}, "SMACT is 57.000"},
      {"negative", "-0.100", {}, "SMACT is -0.100"},
      {"no number", "nan", {}, "SMACT is nan"},
      {"a word", "busy", {}, "SMACT is busy"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    DmonParser parser;
    const auto rows = parser.Feed(Titles() + Line("GPU 0", Row("0000:07:00.0", c.cell)));
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].values.sm_active, c.expected);
    EXPECT_EQ(rows[0].objection, c.objection);
    EXPECT_EQ(rows[0].values.counters, c.expected ? CounterSource::kDcgm : CounterSource::kNone);
    EXPECT_EQ(rows[0].values.dram_active, 0.3) << "the other cells are still read";
  }
}

TEST(DmonParser, SeparatesMigRows) {
  DmonParser parser;
  std::vector<std::string> blank = Row("", "0.5");
  // The long name of an instance leaves no blank between the name and the first value.
  const auto rows =
      parser.Feed(Titles() + Line("GPU 0", Row("0000:07:00.0", "N/A")) + Line("GPU-I 7", blank) +
                  Line("GPU-CI 123", Row("0000:07:00.0", "0.25")));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1].kind, DmonRow::Kind::kGpuInstance);
  EXPECT_EQ(rows[1].id, 7);
  EXPECT_EQ(rows[1].pci, "");
  EXPECT_EQ(rows[1].values.sm_active, 0.5);
  EXPECT_EQ(rows[2].kind, DmonRow::Kind::kComputeInstance);
  EXPECT_EQ(rows[2].id, 123);
  EXPECT_EQ(rows[2].values.sm_active, 0.25);
}

TEST(DmonParser, FindsColumnsByTitleOrElseByPosition) {
  std::vector<std::string> titles = kTitles;
  std::vector<std::string> row = Row("0000:07:00.0", "0.5");
  std::swap(titles[1], titles[5]);  // columns in a different order
  std::swap(row[1], row[5]);
  DmonParser swapped;
  EXPECT_EQ(swapped.Feed(Line("#Entity", titles) + Line("GPU 0", row))[0].values.sm_active, 0.5);
  titles = kTitles;
  titles[1] = "SMUTR";
  DmonParser renamed;
  const auto rows =
      renamed.Feed(Line("#Entity", titles) + Line("GPU 0", Row("0000:07:00.0", "0.5")));
  EXPECT_EQ(rows[0].values.sm_active, 0.5);
  titles.push_back("EXTRA");  // positions are now meaningless
  row = Row("0000:07:00.0", "0.5");
  row.push_back("7");
  DmonParser extended;
  const auto more = extended.Feed(Line("#Entity", titles) + Line("GPU 0", row));
  EXPECT_FALSE(more[0].values.sm_active);
  EXPECT_EQ(more[0].values.dram_active, 0.3);
}

TEST(DmonParser, FindsColumnsOfAShorterListByPosition) {
  EXPECT_EQ(DmonFieldList(DmonFields::kCommon),
            "57,1002,1003,1001,1004,1005,1007,1008,1009,1010,155,156");
  EXPECT_EQ(DmonFieldList(DmonFields::kFew), "57,1002,155,156");
  DmonParser parser(DmonFields::kFew);
  const auto rows = parser.Feed(Line("#Entity", {"PCBID", "SMUTR", "POWER", "TOTEC"}) +
                                Line("GPU 0", {"0000:07:00.0", "0.5", "214.5", "1234567"}));
  EXPECT_EQ(rows.at(0).values.sm_active, 0.5);
}

TEST(DmonParser, TreatsOtherLinesAsRemarks) {
  const struct {
    const char* name;
    std::string text;
    const char* remark;
  } cases[] = {
      {"an error", "Error setting watches. Result: -33: profiling module\n", "Result: -33"},
      {"a row without titles", Line("GPU 0", Row("", "0.5")), "GPU 0"},
      {"a row that is too short", Titles() + "GPU 0 0000:07:00.0 0.5 0.1 x y z zz yy xx ww\n",
       "GPU 0"},
      {"a GPU without number", Titles() + Line("GPU x", Row("", "0.5")), "GPU x"},
      {"a line without end", Titles() + std::string(100'000, 'x'), ""},
      {"an endless line", Titles() + std::string(100'000, 'x') + "\n", ""},
      {"control bytes", "\x1b[31mred\n", "?[31mred"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    DmonParser parser;
    EXPECT_TRUE(parser.Feed(c.text).empty());
    EXPECT_THAT(parser.remark(), HasSubstr(c.remark));
    EXPECT_EQ(parser.Feed("\n" + Titles() + Line("GPU 0", Row("", "0.5"))).size(), 1u)
        << "it goes on";
  }
}

TEST(PciKey, NormalisesAllSpellings) {
  const struct {
    const char* address;
    const char* key;
  } cases[] = {{"00000000:0F:00.0", "0000:0f:00.0"},
               {"0000:0f:00.0", "0000:0f:00.0"},
               {"0f:00.0", "0000:0f:00.0"},
               {"00010000:81:00.1", "10000:81:00.1"},
               {"", ""},
               {"N/A", ""},
               {"0000:zz:00.0", ""},
               {"0000:0f:00.0.1", ""},
               {"x:0f:00.0", ""},
               {"1:2:3:4", ""}};
  for (const auto& c : cases) EXPECT_EQ(PciKey(c.address), c.key) << c.address;
}

// A folder with a `dcgmi` script. The test sets the script's body.
class DmonChildTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/carma-dmon-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    ASSERT_TRUE(base::WriteFileAtomic(folder_ + "/rows",
                                      Titles() + Line("GPU 0", Row("0000:07:00.0", "0.5")) +
                                          Line("GPU 1", Row("00000000:0F:00.0", "0.25"))));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Each time the script starts, it appends a line with its arguments to the file `starts`.
  DmonOptions Script(const std::string& body) {
    const std::string path = folder_ + "/dcgmi";
    EXPECT_TRUE(base::WriteFileAtomic(
        path, "#!/bin/sh\ncd " + folder_ + "\necho \"$*\" >> starts\n" + body + "\n", 0755));
    DmonOptions options;
    options.program = path;
    return options;
  }
  std::size_t Starts() {
    const auto text = base::ReadFile(folder_ + "/starts", 1 << 20);
    return text ? static_cast<std::size_t>(std::ranges::count(*text, '\n')) : 0;
  }
  // Polls at time `now` until `holds` returns true.
  static bool Until(DmonReader& reader, base::Time now, const std::function<bool()>& holds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!holds()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      reader.Poll(now);
      reader.Wait(std::chrono::milliseconds(5));
    }
    return true;
  }

  std::string folder_;
};

constexpr const char* kServes = "cat rows; exec sleep 1000";

// Like dcgmi, refuses the whole list if it contains a field that a GPU lacks.
std::string ServesWithout(const std::string& field) {
  return "case \"$3\" in *" + field +
         "*) head -n 2 rows; echo Error setting watches. Result: -6: Feature not supported; echo; "
         "exit 250;; esac; " +
         kServes;
}

TEST_F(DmonChildTest, FindsFreshRowsByAddress) {
  DmonReader reader(Script(kServes));
  const base::Time now = base::FromMs(1'000'000);
  ASSERT_TRUE(Until(reader, now, [&] { return reader.Find("0000:0f:00.0", 9, now) != nullptr; }));
  EXPECT_EQ(reader.Find("0000:0f:00.0", 9, now)->values.sm_active, 0.25);
  EXPECT_EQ(reader.Find("0000:99:00.0", 0, now), nullptr);
  EXPECT_NE(reader.Find("0000:0f:00.0", 9, now + base::Duration(3'000)), nullptr);
  EXPECT_EQ(reader.Find("0000:0f:00.0", 9, now + base::Duration(3'001)), nullptr) << "stale";
  EXPECT_EQ(reader.trouble(), "");
  EXPECT_EQ(*base::ReadFile(folder_ + "/starts", 1'000),
            "dmon -e " + DmonFieldList() + " -d 1000\n");
}

TEST_F(DmonChildTest, RestartsAnEndedChildAfterGrowingPauses) {
  DmonReader reader(Script("echo Error: no host engine is running; exit 1"));
  base::Time now = base::FromMs(1'000'000);
  std::size_t starts = 0;
  for (const int pause_s : {1, 2, 4, 8, 16, 32, 60, 60}) {
    SCOPED_TRACE(pause_s);
    ++starts;
    ASSERT_TRUE(Until(reader, now, [&] { return !reader.running() && Starts() == starts; }));
    EXPECT_THAT(reader.trouble(), HasSubstr("no host engine"));
    now += std::chrono::seconds(pause_s) - base::Duration(1);
    reader.Poll(now);
    EXPECT_FALSE(reader.running()) << "too early";
    now += base::Duration(1);
  }
}

TEST_F(DmonChildTest, RestartsAWorkingChildAfterAShortPause) {
  DmonReader reader(Script("cat rows; exit 0"));
  base::Time now = base::FromMs(1'000'000);
  for (std::size_t starts = 1; starts < 5; ++starts) {
    ASSERT_TRUE(Until(reader, now, [&] {
      return !reader.running() && Starts() == starts &&
             reader.Find("0000:07:00.0", 0, now) != nullptr;
    }));
    now += std::chrono::seconds(1);
  }
}

TEST_F(DmonChildTest, RequestsFewerFieldsIfDcgmRefusesThem) {
  const auto started = [](DmonFields fields) {
    return "dmon -e " + DmonFieldList(fields) + " -d 1000\n";
  };
  const std::string two = started(DmonFields::kAll) + started(DmonFields::kCommon);
  const struct {
    const char* lacking;
    std::string starts;
  } cases[] = {{"1006", two}, {"1011", two}, {"1004", two + started(DmonFields::kFew)}};
  const base::Time now = base::FromMs(1'000'000);
  for (const auto& c : cases) {
    SCOPED_TRACE(c.lacking);
    std::filesystem::remove(folder_ + "/starts");
    DmonReader reader(Script(ServesWithout(c.lacking)));
    ASSERT_TRUE(Until(reader, now, [&] { return reader.Find("0000:07:00.0", 0, now) != nullptr; }))
        << "without a pause";
    EXPECT_EQ(reader.trouble(), "");
    EXPECT_EQ(*base::ReadFile(folder_ + "/starts", 1'000), c.starts);
  }
}

TEST_F(DmonChildTest, RequestsAllFieldsAgainIfDcgmRefusesEachList) {
  DmonReader reader(Script(ServesWithout("1002")));
  base::Time now = base::FromMs(1'000'000);
  for (const std::size_t starts : {3, 6}) {
    ASSERT_TRUE(Until(reader, now, [&] { return !reader.running() && Starts() == starts; }));
    EXPECT_THAT(reader.trouble(), HasSubstr("Feature not supported"));
    now += std::chrono::minutes(1);
  }
}

TEST_F(DmonChildTest, KillsAHangingChild) {
  DmonReader reader(Script("echo $$ > pid; exec sleep 1000"));
  base::Time now = base::FromMs(1'000'000);
  std::string pid;
  ASSERT_TRUE(Until(reader, now, [&] {
    pid = base::ReadFile(folder_ + "/pid", 100).value_or("");
    return pid.ends_with("\n");
  }));
  for (int second = 0; second < 9; ++second) reader.Poll(now += std::chrono::seconds(1));
  EXPECT_TRUE(reader.running());
  reader.Poll(now += std::chrono::seconds(1));
  EXPECT_FALSE(reader.running());
  EXPECT_THAT(reader.trouble(), HasSubstr("silent"));
  ASSERT_TRUE(Until(reader, now, [&] { return ::kill(std::stoi(pid), 0) != 0; })) << "reaped";
}

TEST_F(DmonChildTest, DiscardsOutputThatWasNotReadInTime) {
  DmonReader reader(Script("echo $$ > pid; cat rows; read line < gate; cat rows; exec sleep 1000"));
  ASSERT_EQ(::mkfifo((folder_ + "/gate").c_str(), 0600), 0);
  base::Time now = base::FromMs(1'000'000);
  ASSERT_TRUE(Until(reader, now, [&] { return reader.Find("0000:07:00.0", 0, now) != nullptr; }));
  ASSERT_EQ(::system(("echo go > " + folder_ + "/gate").c_str()), 0);
  reader.Wait(std::chrono::seconds(30));
  now += std::chrono::seconds(60);
  reader.Poll(now);
  EXPECT_EQ(reader.Find("0000:07:00.0", 0, now), nullptr);
  EXPECT_TRUE(reader.running());
}

TEST_F(DmonChildTest, NamesAMissingProgram) {
  DmonOptions options;
  options.program = folder_ + "/nothing";
  DmonReader reader(options);
  reader.Poll(base::FromMs(1'000'000));
  EXPECT_FALSE(reader.running());
  EXPECT_THAT(reader.trouble(), HasSubstr("nothing cannot be started"));
}

class CombinedProbeTest : public DmonChildTest {
 protected:
  // Makes a probe for two GPUs. gpm: true for each GPU with GPM counters.
  void Make(const std::string& body, std::vector<bool> gpm, bool dcgm_for_all = false) {
    std::vector<DeviceInfo> infos = FakeProbe::EqualDevices(2, 40'960, 424);
    infos[0].pci = "00000000:07:00.0";
    infos[1].pci = "00000000:0F:00.0";
    for (std::size_t i = 0; i < infos.size(); ++i) infos[i].reports_sm_activity = gpm[i];
    Make(body, infos, gpm, dcgm_for_all);
  }
  void Make(const std::string& body, const std::vector<DeviceInfo>& infos, std::vector<bool> gpm,
            bool dcgm_for_all) {
    auto nvml = std::make_unique<FakeProbe>(infos);
    nvml_ = nvml.get();
    for (std::size_t i = 0; i < infos.size(); ++i) {
      Reading reading{.total_mib = 40'960, .reserved_mib = 424, .used_mib = 1'000};
      reading.utilization = 1;
      if (gpm[i]) {
        reading.sm_active = 0.75;
        reading.counters = CounterSource::kGpm;
      }
      nvml_->Set(i, reading);
    }
    CombinedOptions options;
    options.dcgm_for_all = dcgm_for_all;
    options.dmon = Script(body);
    options.real_now = [this] { return now_; };
    probe_ = std::make_unique<CombinedProbe>(std::move(nvml), options);
  }
  Reading MustRead(std::size_t device) {
    const auto reading = probe_->Read(device, now_);
    EXPECT_TRUE(reading) << reading.error().message;
    return reading.value_or(Reading{});
  }

  base::Time now_ = base::FromMs(1'000'000);
  FakeProbe* nvml_ = nullptr;
  std::unique_ptr<CombinedProbe> probe_;
};

TEST_F(CombinedProbeTest, UsesDcgmIfTheDriverHasNoCounters) {
  Make(kServes, {false, true});
  const auto devices = probe_->Devices();
  ASSERT_TRUE(devices);
  EXPECT_TRUE((*devices)[0].reports_sm_activity);
  EXPECT_TRUE((*devices)[1].reports_sm_activity);
  const Reading dcgm = MustRead(0);
  EXPECT_EQ(dcgm.counters, CounterSource::kDcgm);
  EXPECT_EQ(dcgm.sm_active, 0.5);
  EXPECT_EQ(dcgm.dram_active, 0.3);
  EXPECT_EQ(dcgm.power_w, 214.5) << "NVML had none";
  EXPECT_EQ(dcgm.used_mib, 1'000) << "memory is NVML's";
  const Reading gpm = MustRead(1);
  EXPECT_EQ(gpm.counters, CounterSource::kGpm);
  EXPECT_EQ(gpm.sm_active, 0.75);
  EXPECT_FALSE(gpm.dram_active) << "sources are not mixed";
  now_ += std::chrono::seconds(4);
  const Reading stale = MustRead(0);
  EXPECT_EQ(stale.counters, CounterSource::kNone);
  EXPECT_FALSE(stale.sm_active);
}

TEST_F(CombinedProbeTest, ListsSmActivityIfDcgmRefusesOtherFields) {
  Make(ServesWithout("1006"), {false, false});
  const auto devices = probe_->Devices();
  ASSERT_TRUE(devices);
  EXPECT_TRUE((*devices)[0].reports_sm_activity);
}

TEST_F(CombinedProbeTest, StartsNoChildIfTheDriverHasCounters) {
  Make(kServes, {true, true});
  ASSERT_TRUE(probe_->Devices());
  MustRead(0);
  EXPECT_EQ(Starts(), 0u);
  EXPECT_EQ(probe_->DcgmTrouble(), "");
}

TEST_F(CombinedProbeTest, UsesDcgmForAllGpusOnRequest) {
  Make(kServes, {true, true}, /*dcgm_for_all=*/true);
  ASSERT_TRUE(probe_->Devices());
  EXPECT_EQ(MustRead(1).sm_active, 0.25);
}

// Rows without an address describe whole GPUs. They are matched to whole GPUs by number, and never
// to an instance.
TEST_F(CombinedProbeTest, GivesInstancesNoDcgmCounters) {
  ASSERT_TRUE(base::WriteFileAtomic(folder_ + "/rows", Titles() + Line("GPU 0", Row("N/A", "0.9")) +
                                                           Line("GPU-I 0", Row("N/A", "0.8")) +
                                                           Line("GPU-CI 0", Row("N/A", "0.7")) +
                                                           Line("GPU 1", Row("N/A", "0.25"))));
  std::vector<DeviceInfo> infos = FakeProbe::EqualDevices(3, 40'960, 424);
  infos[0].mig = MigPlace{"GPU-07", 1, 0, 9, "3g.20gb"};
  infos[1].mig = MigPlace{"GPU-07", 2, 0, 9, "3g.20gb"};
  for (DeviceInfo& info : infos) info.reports_sm_activity = false;
  Make(kServes, infos, {false, false, false}, /*dcgm_for_all=*/true);
  const auto devices = probe_->Devices();
  ASSERT_TRUE(devices);
  EXPECT_FALSE((*devices)[0].reports_sm_activity || (*devices)[1].reports_sm_activity);
  for (const std::size_t instance : {0, 1}) {
    EXPECT_FALSE(MustRead(instance).sm_active);
    EXPECT_EQ(MustRead(instance).counters, CounterSource::kNone);
    EXPECT_FALSE(MustRead(instance).power_w);
  }
  EXPECT_EQ(MustRead(2).sm_active, 0.25);
}

TEST_F(CombinedProbeTest, UsesTheCoarseUtilisationWithoutDcgm) {
  Make("echo Error: unable to connect; exit 1", {false, false});
  const auto devices = probe_->Devices();
  ASSERT_TRUE(devices);
  EXPECT_FALSE((*devices)[0].reports_sm_activity);
  const Reading reading = MustRead(0);
  EXPECT_FALSE(reading.sm_active);
  EXPECT_EQ(reading.utilization, 1.0);
  EXPECT_THAT(probe_->DcgmTrouble(), HasSubstr("unable to connect"));
}

TEST_F(CombinedProbeTest, RejectsImpossibleValues) {
  ASSERT_TRUE(base::WriteFileAtomic(folder_ + "/rows",
                                    Titles() + Line("GPU 0", Row("0000:07:00.0", "57.0")) +
                                        Line("GPU 1", Row("0000:0f:00.0", "0.000"))));
  Make(kServes, {false, false});
  nvml_->Set(0, {.total_mib = 40'960, .xids = {48}});
  ASSERT_TRUE(probe_->Devices());
  const auto percent = probe_->Read(0, now_);
  ASSERT_FALSE(percent);
  EXPECT_EQ(percent.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(percent.error().message, HasSubstr("SMACT is 57.0"));
  now_ += std::chrono::seconds(4);  // the row is too old to count
  EXPECT_EQ(MustRead(0).xids, (std::vector<int>{48, 48})) << "a failed reading loses no Xid";
}

}  // namespace
}  // namespace carma::gpu
