// A test fixture with a loop and two scripts in a temporary folder that stand in for Slurm's
// programs.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/file.h"
#include "daemon/slurm/slurm_programs.h"

namespace carma::daemon {

class SlurmProgramsFixture : public ::testing::Test {
 protected:
  // Prints job 10 with the values from the file `job`. The file `excluded` lists the nodes that the
  // job excludes.
  static constexpr const char* kSqueue = R"(#!/bin/sh
[ -e DIR/job ] || { echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1; }
case $* in *--format=*) echo "10|$(cat DIR/excluded 2>/dev/null)|"; exit ;; esac
IFS='|' read state restarts gib reason < DIR/job
echo "10|10|$state|$reason|1|1|$restarts|gres:carma:$gib|1|n0||main|(null)|cpu=1,mem=1000M|9|(null)|"
)";
  // Changes job 10 and appends each request to the file `asked`.
  static constexpr const char* kScontrol = R"(#!/bin/sh
echo "$*" >> DIR/asked
IFS='|' read state restarts gib reason < DIR/job
case $1 in
requeuehold)
  [ "$state" = RUNNING ] || { echo "Job is pending execution for job 10"; exit 1; }
  echo "PENDING|1|$gib|job requeued in held state" > DIR/job ;;
update)
  [ "$3" = Gres=carma:15 ] || exit 1
  echo "$state|$restarts|15|$reason" > DIR/job ;;
release) echo "$state|$restarts|$gib|BeginTime" > DIR/job ;;
esac
)";

  void SetUp() override {
    std::string folder = ::testing::TempDir() + "/carma-slurm-XXXXXX";
    folder_ = ::mkdtemp(folder.data());
    WriteProgram("squeue", kSqueue);
    WriteProgram("scontrol", kScontrol);
    WriteText("job", "RUNNING|0|10|None\n");
    NewLoop();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  SlurmPrograms Programs() const {
    return {.scontrol = folder_ + "/scontrol", .squeue = folder_ + "/squeue"};
  }
  void NewLoop() {
    work_.reset();
    loop_ = std::make_shared<boost::asio::io_context>(1);
    work_.emplace(loop_->get_executor());
  }

  // Writes a script after replacing DIR in its text with the folder's path.
  void WriteProgram(const std::string& name, std::string text) {
    for (std::size_t at = 0; (at = text.find("DIR", at)) != std::string::npos;)
      text.replace(at, 3, folder_);
    ASSERT_TRUE(base::WriteFileAtomic(folder_ + "/" + name, text, 0700));
  }
  void WriteText(const std::string& name, const std::string& text) {
    ASSERT_TRUE(base::WriteFileAtomic(folder_ + "/" + name, text, 0600));
  }
  std::string Read(const std::string& name) {
    return base::ReadFile(folder_ + "/" + name, 100'000).value_or("");
  }

  // Runs the loop until the condition is true. Returns false if that takes longer than 20 s.
  template <class Condition>
  bool RunUntil(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition() && std::chrono::steady_clock::now() < end) loop_->run_one_until(end);
    return condition();
  }

  std::string folder_;
  std::shared_ptr<boost::asio::io_context> loop_;
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work_;
};

}  // namespace carma::daemon
