#include "networks.h"

#include <cmath>
#include <string>

namespace carma::train {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

constexpr std::int64_t kAggregates = estimate::kAggregateNames.size();
constexpr std::int64_t kLayerInputs =
    estimate::kLayerTypes.size() + estimate::kLayerSizeNames.size();

class Mlp : public Member {
 public:
  Mlp(std::int64_t hidden, std::int64_t width, std::int64_t classes)
      : hidden_(register_module("hidden", nn::ModuleList())),
        output_(register_module("output", nn::Linear(hidden == 0 ? kAggregates : width, classes))) {
    for (std::int64_t i = 0; i < hidden; ++i) {
      hidden_->push_back(nn::Linear(i == 0 ? kAggregates : width, width));
    }
  }
  Tensor Logits(const Batch& batch) override {
    Tensor x = batch.aggregates;
    for (const auto& layer : *hidden_) x = torch::relu(layer->as<nn::Linear>()->forward(x));
    return output_(x);
  }

 private:
  nn::ModuleList hidden_;
  nn::Linear output_;
};

// Two linear layers with an activation between them.
class InOut : public nn::Module {
 public:
  InOut(std::int64_t width, std::int64_t in_width, std::int64_t out_width)
      : in(register_module("in", nn::Linear(width, in_width))),
        out(register_module("out", nn::Linear(out_width, width))) {}
  nn::Linear in;
  nn::Linear out;
};

nn::LayerNorm NormOf(std::int64_t width) {
  return nn::LayerNorm(nn::LayerNormOptions({width}));
}

class Block : public nn::Module {
 public:
  explicit Block(const EncoderShape& shape)
      : heads_(shape.heads),
        norm1_(register_module("norm1", NormOf(shape.width))),
        attention_(register_module(
            "attention", std::make_shared<InOut>(shape.width, 3 * shape.width, shape.width))),
        norm2_(register_module("norm2", NormOf(shape.width))),
        feedforward_(register_module(
            "feedforward",
            std::make_shared<InOut>(shape.width, shape.feedforward, shape.feedforward))) {}

  Tensor forward(Tensor x, const Tensor& ln_repeats) {
    const std::int64_t examples = x.size(0);
    const std::int64_t tokens = x.size(1);
    const std::int64_t width = x.size(2);
    const std::int64_t size = width / heads_;
    const Tensor qkv = attention_->in(norm1_(x))
                           .view({examples, tokens, 3, heads_, size})
                           .permute({2, 0, 3, 1, 4});
    const Tensor scores =
        torch::matmul(qkv[0], qkv[1].transpose(-1, -2)) / std::sqrt(static_cast<double>(size)) +
        ln_repeats.unsqueeze(1).unsqueeze(1);
    const Tensor mixed = torch::matmul(torch::softmax(scores, -1), qkv[2])
                             .transpose(1, 2)
                             .reshape({examples, tokens, width});
    x = x + attention_->out(mixed);
    return x + feedforward_->out(torch::relu(feedforward_->in(norm2_(x))));
  }

 private:
  std::int64_t heads_;
  nn::LayerNorm norm1_;
  std::shared_ptr<InOut> attention_;
  nn::LayerNorm norm2_;
  std::shared_ptr<InOut> feedforward_;
};

class Encoder : public Member {
 public:
  Encoder(const EncoderShape& shape, std::int64_t classes)
      : aggregates_(register_module("aggregates", nn::Linear(kAggregates, shape.width))),
        layer_(register_module("layer", nn::Linear(kLayerInputs, shape.width))),
        blocks_(register_module("blocks", nn::ModuleList())),
        norm_(register_module("norm", NormOf(shape.width))),
        hidden_(register_module("hidden", nn::Linear(shape.width + kAggregates, shape.hidden))),
        output_(register_module("output", nn::Linear(shape.hidden, classes))) {
    for (std::int64_t i = 0; i < shape.blocks; ++i) {
      blocks_->push_back(std::make_shared<Block>(shape));
    }
  }
  Tensor Logits(const Batch& batch) override {
    Tensor x = torch::cat({aggregates_(batch.aggregates).unsqueeze(1), layer_(batch.layers)}, 1);
    for (const auto& block : *blocks_) x = block->as<Block>()->forward(x, batch.ln_repeats);
    const Tensor summary = torch::cat({norm_(x.select(1, 0)), batch.aggregates}, 1);
    return output_(torch::relu(hidden_(summary)));
  }

 private:
  nn::Linear aggregates_;
  nn::Linear layer_;
  nn::ModuleList blocks_;
  nn::LayerNorm norm_;
  nn::Linear hidden_;
  nn::Linear output_;
};

}  // namespace

std::shared_ptr<Member> MakeMlp(std::int64_t hidden, std::int64_t width, std::int64_t classes) {
  return std::make_shared<Mlp>(hidden, width, classes);
}

std::shared_ptr<Member> MakeEncoder(const EncoderShape& shape, std::int64_t classes) {
  return std::make_shared<Encoder>(shape, classes);
}

}  // namespace carma::train
