#include "api/task_pointer.h"

#include <gtest/gtest.h>

namespace carma::api {
namespace {

TEST(TaskPointer, IsFoundInAMessage) {
  for (const std::size_t index : {0U, 7U, 99'999U}) {
    EXPECT_EQ(TaskNamedBy(TaskPointer(index) + "/gpus: expected 1 to 64"), index);
    EXPECT_EQ(TaskNamedBy(TaskPointer(index) + ": expected an object"), index);
  }
}

TEST(TaskPointer, OtherMessagesNameNoTask) {
  for (const char* message : {"", "/tasks", "/tasks/", "/tasks/x", "/common/gpus: expected 1 to 64",
                              "/home/ann/tasks/3: no such file"}) {
    EXPECT_EQ(TaskNamedBy(message), std::nullopt) << message;
  }
}

}  // namespace
}  // namespace carma::api
