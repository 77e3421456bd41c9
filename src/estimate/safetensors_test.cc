#include "estimate/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>

#include "estimate/safetensors_fixture.h"

namespace carma::estimate {
namespace {

// A file with this header, followed by `data` zero bytes.
std::string FileOf(const std::string& header, std::size_t data) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data, '\0');
}

TensorFile Small() {
  TensorFile file;
  file.metadata = {{"kind", "mlp"}, {"words", "ä \" \\"}};
  file.tensors["b"] = {{2, 3}, {1, 2, 3, 4, 5, -6.5F}};
  file.tensors["a"] = {{1}, {0.25F}};
  file.tensors["scalar"] = {{}, {7}};
  return file;
}

TEST(Safetensors, ReadsItsOwnOutput) {
  const std::string bytes = DumpTensors(Small());
  const auto read = ParseTensors(bytes, "w");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, Small());
  EXPECT_EQ(DumpTensors(*read), bytes);
}

TEST(Safetensors, AcceptsTensorsInAnyOrder) {
  const auto read = ParseTensors(FileOf(R"({"z":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                        R"("a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                                        12),
                                 "w");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->tensors.at("a").values.size(), 2U);
}

TEST(Safetensors, RefusesBadFilesInOneLine) {
  const std::string huge_length = std::string(8, '\x7f');
  const std::string one = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  struct Case {
    const char* name;
    std::string bytes;
    const char* message;
  };
  const Case cases[] = {
      {"empty", "", "too short for a safetensors header"},
      {"shorter than its length field", "abc", "too short for a safetensors header"},
      {"length of exabytes", huge_length + "{}", "the header is 9187201950435737471 bytes long"},
      {"length beyond the end", FileOf(one, 4).substr(0, 30), "the header is"},
      {"no JSON", FileOf("weights!", 0), "header"},
      {"not an object", FileOf("[]", 0), "expected an object"},
      {"the same tensor twice", FileOf(R"({"a":1,"a":2})", 0), "header"},
      {"tensor is not an object", FileOf(R"({"a":1})", 0), "tensor 'a': expected an object"},
      {"wrong type", FileOf(R"({"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})", 8),
       "tensor 'a': expected dtype F32"},
      {"no shape", FileOf(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4), "expected a shape"},
      {"rank 5", FileOf(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1],"data_offsets":[0,4]}})", 4),
       "at most 4 dimensions"},
      {"dimension 0", FileOf(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})", 0),
       "dimensions of at least 1"},
      {"negative dimension",
       FileOf(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4),
       "dimensions of at least 1"},
      {"a product that overflows",
       FileOf(
           R"({"a":{"dtype":"F32","shape":[8000000,8000000,8000000,8000000],"data_offsets":[0,4]}})",
           4),
       "too many elements"},
      {"shape and bytes differ",
       FileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
       "4 bytes of data, but the shape needs 8"},
      {"offsets beyond the end",
       FileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4),
       "within the 4 bytes of data"},
      {"offsets backwards", FileOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4),
       "within the 4 bytes of data"},
      {"one offset", FileOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4),
       "expected data_offsets [begin, end]"},
      {"shared bytes",
       FileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
              R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
              12),
       "begins at byte 4, expected 8: overlap"},
      {"a gap",
       FileOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
              R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
              12),
       "begins at byte 8, expected 4: gap"},
      {"bytes that belong to no tensor", FileOf(one, 8),
       "8 bytes of data, but the tensors use only 4"},
      {"metadata that is not text", FileOf(R"({"__metadata__":{"a":1}})", 0),
       "expected strings only"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    const auto read = ParseTensors(each.bytes, "weights.bin");
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::kInvalid);
    EXPECT_TRUE(read.error().message.starts_with("weights.bin: ")) << read.error().message;
    EXPECT_NE(read.error().message.find(each.message), std::string::npos) << read.error().message;
    EXPECT_EQ(read.error().message.find('\n'), std::string::npos);
  }
}

TEST(Safetensors, NumbersMustBeFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    TensorFile file = Small();
    file.tensors["b"].values[4] = bad;
    const auto read = ParseTensors(DumpTensors(file), "w");
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().message, "w: tensor 'b': expected finite numbers");
  }
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string bytes = DumpTensors(Small());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(ParseTensors(std::string_view(bytes).substr(0, size), "w")) << size;
}

}  // namespace
}  // namespace carma::estimate
