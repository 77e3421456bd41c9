// An open store in its own folder, for tests.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store/store.h"
#include "store/task_fixture.h"

namespace carma::store {

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "carma-store-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    Reopen();
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(dir_);
  }
  void Reopen() {
    store_.reset();
    Result<std::unique_ptr<Store>> opened = Store::Open(dir_);
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = *std::move(opened);
  }
  template <class Body>
  void Batch(Body body) {
    ASSERT_TRUE(store_->Begin());
    body();
    ASSERT_TRUE(store_->Commit());
  }
  void Put(const StoredTask& task) {
    Batch([&] { ASSERT_TRUE(store_->PutTask(task)); });
  }
  std::vector<std::uint64_t> Ids(const TaskFilter& filter) {
    const Result<std::vector<StoredTask>> tasks = store_->List(filter);
    EXPECT_TRUE(tasks) << tasks.error().message;
    std::vector<std::uint64_t> ids;
    for (const StoredTask& task : *tasks) ids.push_back(Number(task.record.id));
    return ids;
  }

  std::string dir_;
  std::unique_ptr<Store> store_;
};

}  // namespace carma::store
