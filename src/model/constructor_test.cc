#include "model/reading.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace carma::model {
namespace {

// The expected numbers were computed in PyTorch with sum(p.numel() for p in module.parameters()),
// for modules whose printed form is type(arguments).
TEST(Constructor, DerivesTheParametersOfAModule) {
  const struct {
    const char* type;
    const char* arguments;
    std::optional<std::int64_t> params;
  } cases[] = {
      {"Conv2d", "3, 8, kernel_size=(3, 3), stride=(1, 1)", 224},
      {"Conv2d", "16, 16, kernel_size=(5, 5), groups=16, bias=False", 400},
      {"Conv3d", "2, 4, kernel_size=(1, 2, 3), stride=(1, 1, 1), bias=False", 48},
      {"ConvTranspose2d", "8, 4, kernel_size=(2, 3), stride=(1, 1), groups=2", 100},
      {"Linear", "in_features=4, out_features=3, bias=True", 15},
      {"Linear", "in_features=4, out_features=3, bias=False", 12},
      {"Conv1D", "nf=6, nx=4", 30},
      {"Bilinear", "in1_features=3, in2_features=4, out_features=5, bias=True", std::nullopt},
      {"BatchNorm2d", "4, eps=1e-05, momentum=0.1, affine=False, track_running_stats=True", 0},
      {"BatchNorm1d", "4, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True", 8},
      {"InstanceNorm2d", "4, eps=1e-05, momentum=0.1, affine=False", 0},
      {"InstanceNorm2d", "4, eps=1e-05, momentum=0.1, affine=True", 8},
      {"GroupNorm", "2, 4, eps=1e-05, affine=True", 8},
      {"LayerNorm", "(4, 5), eps=1e-05, elementwise_affine=True", 40},
      {"LayerNorm", "(4, 5), eps=1e-05, elementwise_affine=False", 0},
      {"RMSNorm", "(6,), eps=None, elementwise_affine=True", 6},
      {"Embedding", "7, 3, padding_idx=0", 21},
      {"EmbeddingBag", "7, 3, mode='mean'", 21},
      {"PReLU", "num_parameters=4", 4},
      {"ReLU", "inplace=True", 0},
      {"LSTM", "5, 7, num_layers=3, bidirectional=True", 3'360},
      {"LSTM", "8, 16, proj_size=4", 960},
      {"GRU", "5, 7, num_layers=2, bias=False", 546},
      {"RNN", "4, 6", 72},
      {"LSTMCell", "3, 4", 144},
      {"Own", "7", std::nullopt},
      {"Linear", "", std::nullopt},
      {"Linear", "in_features=99999999999, out_features=99999999999", std::nullopt},
      {"Conv2d", "3, 8, kernel_size=(3, 3), groups=2", std::nullopt},
      {"Conv2d", "(((", std::nullopt},
  };
  for (const auto& c : cases) {
    Layer layer{.type = c.type};
    EXPECT_EQ(ReadConstructor(c.arguments, layer), c.params) << c.type << '(' << c.arguments << ')';
  }
}

TEST(Constructor, ReadsWidthsKernelsAndRates) {
  Layer conv{.type = "Conv2d"};
  ReadConstructor("3, 8, kernel_size=(3, 5), stride=(1, 1)", conv);
  EXPECT_EQ(conv.in_features, 3);
  EXPECT_EQ(conv.out_features, 8);
  EXPECT_EQ(conv.kernel, 15);
  Layer lstm{.type = "LSTM"};
  ReadConstructor("5, 7, bidirectional=True", lstm);
  EXPECT_EQ(lstm.out_features, 14);
  Layer dropout{.type = "Dropout"};
  ReadConstructor("p=0.25, inplace=True", dropout);
  EXPECT_EQ(dropout.dropout, 0.25);
  EXPECT_TRUE(dropout.inplace);
  Layer path{.type = "DropPath"};
  ReadConstructor("drop_prob=0.033", path);
  EXPECT_EQ(path.dropout, 0.033);
  Layer old{.type = "ReLU"};
  ReadConstructor("inplace", old);
  EXPECT_TRUE(old.inplace);
}

}  // namespace
}  // namespace carma::model
