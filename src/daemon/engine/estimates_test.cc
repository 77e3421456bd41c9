#include "daemon/engine/estimates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <map>
#include <mutex>
#include <new>

namespace carma::daemon {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The output of torchsummary for two fully connected layers.
constexpr const char* kSummary =
    "----------------------------------------------------------------\n"
    "        Layer (type)               Output Shape         Param #\n"
    "================================================================\n"
    "            Linear-1                 [-1, 1024]         803,840\n"
    "              ReLU-2                 [-1, 1024]               0\n"
    "            Linear-3                   [-1, 10]          10,250\n"
    "================================================================\n"
    "Total params: 814,090\n"
    "Trainable params: 814,090\n"
    "Non-trainable params: 0\n"
    "----------------------------------------------------------------\n"
    "Input size (MB): 0.00\n"
    "Forward/backward pass size (MB): 0.02\n"
    "Params size (MB): 3.11\n"
    "Estimated Total Size (MB): 3.12\n"
    "----------------------------------------------------------------\n";

EstimateJob Job(std::uint64_t id, const std::string& summary = "") {
  EstimateJob job;
  job.id = core::TaskId{id};
  job.spec.command = {"python", "train.py"};
  job.spec.workdir = "/home/ada";
  job.spec.optimizer = "adam";
  job.spec.batch_size = 32;
  if (!summary.empty()) job.spec.model_summary = summary;
  job.uid = 1000;
  return job;
}

estimate::AppraisalRules Rules(std::shared_ptr<const estimate::History> history = nullptr) {
  estimate::AppraisalRules rules;
  rules.gpu_type = "A100";
  rules.gpu_mib = 40'000;
  rules.history = std::move(history);
  return rules;
}

bool WasRead(const EstimateResult& result) {
  return !result.forecast.model.empty();
}

// A file system on which reads of some files hang until they are released.
class HangingFiles {
 public:
  Result<std::string> Read(const std::string& path) {
    std::unique_lock lock(mutex_);
    ++reads_[path];
    changed_.notify_all();
    if (path.starts_with("/hangs")) changed_.wait(lock, [&] { return free_; });
    if (path.starts_with("/none")) return FailErrno(ENOENT, path);
    if (path.starts_with("/too-much")) throw std::bad_alloc();
    return kSummary;
  }
  void LetGo() {
    const std::lock_guard lock(mutex_);
    free_ = true;
    changed_.notify_all();
  }
  int reads(const std::string& path) {
    const std::lock_guard lock(mutex_);
    return reads_[path];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int> reads_;
  bool free_ = false;
};

class EstimateServiceTest : public ::testing::Test {
 protected:
  EstimateService& Open(base::Duration limit,
                        std::shared_ptr<const estimate::History> history = nullptr) {
    return service_.emplace(
        loop_, Rules(std::move(history)), limit,
        [this](std::vector<EstimateResult> results) {
          for (EstimateResult& each : results) {
            order_.push_back(core::Number(each.id));
            results_[core::Number(each.id)] = std::move(each);
          }
        },
        [files = files_](const EstimateJob& job) { return files->Read(*job.spec.model_summary); });
  }
  // Runs the loop until this many jobs have been answered.
  void Await(std::size_t count) {
    Await([&] { return results_.size() >= count; });
    ASSERT_EQ(results_.size(), count);
  }
  void Await(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!done() && std::chrono::steady_clock::now() < deadline) {
      loop_->restart();
      loop_->run_one_for(std::chrono::milliseconds(100));
    }
    ASSERT_TRUE(done());
  }
  void TearDown() override { files_->LetGo(); }

  std::shared_ptr<boost::asio::io_context> loop_ = std::make_shared<boost::asio::io_context>(1);
  std::shared_ptr<HangingFiles> files_ = std::make_shared<HangingFiles>();
  std::vector<std::uint64_t> order_;
  std::map<std::uint64_t, EstimateResult> results_;
  std::optional<EstimateService> service_;
};

TEST_F(EstimateServiceTest, TasksOfOneSummaryShareOneReading) {
  EstimateService& service = Open(base::Duration(30'000));
  service.Ask({Job(1, "/a"), Job(2, "/a"), Job(3), Job(4, "/b"), Job(5, "/none"), Job(6, "/a")});
  Await(6);
  EXPECT_EQ(files_->reads("/a"), 2);
  EXPECT_EQ(files_->reads("/b"), 1);
  EXPECT_EQ(results_[2].estimate, results_[1].estimate);
  EXPECT_EQ(results_[2].forecast.task, core::TaskId{2});
  EXPECT_TRUE(WasRead(results_[6]));
  EXPECT_FALSE(results_[5].estimate);
  EXPECT_THAT(results_[5].forecast.remarks, ElementsAre(HasSubstr("no estimate: /none")));
  EXPECT_GT(results_[1].took.count(), 0);
}

TEST_F(EstimateServiceTest, TasksThatDifferOnlyInTheIndexShareAnEstimate) {
  EstimateJob first = Job(1);
  first.spec.command.clear();
  first.spec.script = "#!/bin/sh\n./run\n";
  first.spec.name = "a";
  std::vector<std::string> remarks;
  task::Observation run;
  run.gpu_type = "A100";
  run.measured_mib = 4'000;
  run.kin = estimate::QuestionOf(first.spec, first.uid, {}, remarks).kin;
  auto history = std::make_shared<estimate::History>();
  for (const char* signature : {"x", "y", "z"}) {
    run.signature = signature;
    history->Add(run);
  }
  EstimateJob same = first, other = first;
  same.id = core::TaskId{2};
  same.spec.array_index = 7;
  other.id = core::TaskId{3};
  other.spec.name = "b";  // a script that names no program is identified by the task's name
  Open(base::Duration(30'000), history).Ask({first, same, other});
  Await(3);
  ASSERT_TRUE(results_[1].estimate);
  EXPECT_EQ(results_[1].estimate->method, "prior");
  EXPECT_EQ(results_[2].estimate, results_[1].estimate);
  EXPECT_EQ(results_[2].forecast.task, core::TaskId{2});
  EXPECT_FALSE(results_[3].estimate);
}

TEST_F(EstimateServiceTest, ReportsASummaryThatTakesAllMemory) {
  EstimateService& service = Open(base::Duration(30'000));
  service.Ask({Job(1, "/too-much"), Job(2, "/good")});
  Await(2);
  EXPECT_THAT(results_[1].forecast.remarks, ElementsAre(HasSubstr("no estimate: /too-much: ")));
  EXPECT_TRUE(WasRead(results_[2]));
}

TEST_F(EstimateServiceTest, AFileThatHangsDelaysNoOtherTasks) {
  EstimateService& service = Open(base::Duration(100));
  service.Ask({Job(1, "/hangs"), Job(2)});
  EstimateJob stated = Job(3, "/hangs");
  stated.spec.memory_mib = 5'000;
  EstimateJob of_another_user = Job(4, "/good");
  of_another_user.uid = 1001;
  service.Ask({stated, of_another_user});
  Await(4);
  EXPECT_EQ(order_.front(), 2U) << "a task without a summary does not wait for files";
  EXPECT_FALSE(results_[1].estimate);
  EXPECT_THAT(results_[1].forecast.remarks,
              ElementsAre(HasSubstr("no estimate: /hangs: could not be read within 0.1 s")));
  EXPECT_EQ(results_[3].estimate, (core::Estimate{5'000, "given", std::nullopt}));
  EXPECT_THAT(results_[3].forecast.remarks,
              Contains(HasSubstr("/hangs: not read: reading another file of this user hangs")));
  EXPECT_EQ(files_->reads("/hangs"), 1) << "a second read would only delay other users";
  EXPECT_TRUE(WasRead(results_[4]));
}

TEST_F(EstimateServiceTest, AbandonsNoMoreThanAFewThreads) {
  EstimateService& service = Open(base::Duration(50));
  constexpr std::uint64_t kTasks = EstimateService::kMostStuck + 3;
  for (std::uint64_t id = 1; id <= kTasks; ++id) {
    EstimateJob job = Job(id, "/hangs/" + std::to_string(id));
    job.uid = static_cast<std::uint32_t>(id);
    service.Ask({job});
  }
  Await(kTasks);
  EXPECT_EQ(files_->reads("/hangs/" + std::to_string(kTasks)), 0) << "it was not even opened";
  EXPECT_THAT(results_[kTasks].forecast.remarks,
              ElementsAre(HasSubstr("not read: reading files of 4 other users hangs")));
  files_->LetGo();
  // Files can be read again once a hung read returns. The result of the hung read comes too late to
  // be used.
  bool read_again = false;
  for (int round = 0; round < 1'000 && !read_again; ++round) {
    results_.clear();
    service.Ask({Job(100, "/good")});
    Await(1);
    read_again = WasRead(results_[100]);
  }
  EXPECT_TRUE(read_again);
}

TEST_F(EstimateServiceTest, NewRulesApplyToLaterRequests) {
  EstimateService& service = Open(base::Duration(30'000));
  service.Ask({Job(1, "/good")});
  Await(1);
  estimate::AppraisalRules rules = service.rules();
  rules.coverage = 0;
  service.Follow(rules, base::Duration(30'000));
  service.Ask({Job(2, "/good")});
  Await(2);
  ASSERT_TRUE(results_[1].estimate && results_[2].estimate);
  EXPECT_LT(results_[2].estimate->peak_mib, results_[1].estimate->peak_mib)
      << "the most likely value is used";
}

TEST_F(EstimateServiceTest, ACallbackOfItsOwnGetsTheResults) {
  EstimateService& service = Open(base::Duration(30'000));
  std::vector<EstimateResult> taken;
  service.Ask({Job(7, "/a"), Job(8)}, [&](std::vector<EstimateResult> results) {
    for (EstimateResult& each : results) taken.push_back(std::move(each));
  });
  service.Ask({Job(9, "/b")});
  Await([&] { return taken.size() == 2 && results_.size() == 1; });
  EXPECT_TRUE(results_.contains(9));
}

}  // namespace
}  // namespace carma::daemon
