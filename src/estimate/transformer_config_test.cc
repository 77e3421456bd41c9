#include "estimate/transformer_config.h"

#include <gtest/gtest.h>

#include <string>

namespace carma::estimate {
namespace {

constexpr const char* kLlama =
    R"({"model_type":"llama","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,
        "num_key_value_heads":8,"intermediate_size":14336,"vocab_size":128256,
        "tie_word_embeddings":false,"torch_dtype":"bfloat16"})";

TransformerConfig Parsed(const std::string& text) {
  const auto config = ParseTransformerConfig(text, "config.json");
  EXPECT_TRUE(config) << config.error().message;
  return config.value_or(TransformerConfig{});
}

TEST(TransformerConfig, CountsTheParametersOfALlama) {
  const TransformerConfig config = Parsed(kLlama);
  EXPECT_EQ(config.head_width, 128);
  EXPECT_EQ(config.kv_heads, 8);
  EXPECT_EQ(config.dtype, Dtype::kBf16);
  EXPECT_NEAR(config.TotalParameters(), 8'030'261'248.0, 1) << "as its model card says";
}

TEST(TransformerConfig, TellsWhatTheHeadAndTheActivationMake) {
  const std::string bert =
      R"({"model_type":"bert","num_hidden_layers":12,"hidden_size":768,"num_attention_heads":12,
          "vocab_size":30522,"hidden_act":"gelu","architectures":["BertForMaskedLM"]})";
  EXPECT_FALSE(Parsed(bert).classifies || Parsed(bert).written_out_gelu);
  std::string other = bert;
  other.replace(other.find("MaskedLM"), 8, "TokenClassification");
  other.replace(other.find("\"gelu\""), 6, "\"gelu_new\"");
  EXPECT_TRUE(Parsed(other).classifies && Parsed(other).written_out_gelu);
  const std::string gemma =
      R"({"model_type":"gemma2","num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,
          "intermediate_size":128,"vocab_size":1000,"final_logit_softcapping":)";
  EXPECT_TRUE(Parsed(gemma + "30.0}").capped_scores);
  EXPECT_FALSE(Parsed(gemma + "null}").capped_scores);
}

TEST(TransformerConfig, KnowsTheKeysOfOtherFamilies) {
  struct Case {
    const char* what;
    const char* text;
    double parameters;  // in millions
  };
  const Case cases[] = {
      {"GPT-2: n_layer, n_embd, learned positions, tied",
       R"({"model_type":"gpt2","n_layer":12,"n_embd":768,"n_head":12,"n_positions":1024,
           "vocab_size":50257,"n_inner":null})",
       124.3},
      {"Qwen 1: intermediate_size counts both halves",
       R"({"model_type":"qwen","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,
           "intermediate_size":22016,"vocab_size":151936,"kv_channels":128,
           "tie_word_embeddings":false})",
       7721.3},
      {"BigCode: one head of keys",
       R"({"model_type":"gpt_bigcode","n_layer":24,"n_embd":2048,"n_head":16,"n_inner":8192,
           "n_positions":2048,"vocab_size":49280,"multi_query":true})",
       1124.6},
      {"ChatGLM: grouped keys under a name of its own",
       R"({"model_type":"chatglm","num_layers":28,"hidden_size":4096,"num_attention_heads":32,
           "multi_query_attention":true,"multi_query_group_num":2,"kv_channels":128,
           "ffn_hidden_size":13696,"padded_vocab_size":65024})",
       6243.6},
      {"Mixtral: eight experts",
       R"({"model_type":"mixtral","num_hidden_layers":32,"hidden_size":4096,
           "num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,
           "vocab_size":32000,"num_local_experts":8,"num_experts_per_tok":2})",
       46702.8},
  };
  for (const Case& each : cases) {
    const TransformerConfig config = Parsed(each.text);
    EXPECT_NEAR(config.TotalParameters() / 1e6, each.parameters, 0.002 * each.parameters)
        << each.what;
  }
}

TEST(TransformerConfig, AnEncoderDropsOutUnlessItSaysOtherwise) {
  const std::string bert =
      R"({"model_type":"bert","num_hidden_layers":12,"hidden_size":768,"num_attention_heads":12,
          "intermediate_size":3072,"vocab_size":30522)";
  EXPECT_TRUE(Parsed(bert + "}").drops_out);
  EXPECT_FALSE(Parsed(bert + R"(,"hidden_dropout_prob":0})").drops_out);
  EXPECT_FALSE(Parsed(kLlama).drops_out);
}

TEST(TransformerConfig, ReadsHowTheWeightsAreStored) {
  const std::string head = std::string(kLlama, std::string(kLlama).size() - 1);
  struct Case {
    const char* text;
    Quantisation expected;
  };
  const Case cases[] = {
      {R"({"quant_method":"gptq","bits":4})", Quantisation::kGptq4},
      {R"({"quant_method":"awq","bits":4})", Quantisation::kGptq4},
      {R"({"load_in_4bit":true,"bnb_4bit_quant_type":"nf4"})", Quantisation::kNf4},
      {R"({"load_in_4bit":true,"bnb_4bit_use_double_quant":true})", Quantisation::kNf4Double},
      {R"({"load_in_8bit":true})", Quantisation::kInt8},
  };
  for (const Case& each : cases) {
    const auto config = Parsed(head + ",\"quantization_config\":" + each.text + "}");
    EXPECT_EQ(config.quantisation, each.expected) << each.text;
  }
}

TEST(TransformerConfig, NamesWhatIsMissing) {
  struct Case {
    const char* text;
    const char* expected;
  };
  const Case cases[] = {
      {"", "config.json: "},
      {"[]", "config.json: /: expected an object"},
      {R"({"model_type":"mamba"})", "'mamba' is not one"},
      {R"({"hidden_size":64})", "/model_type: expected a family"},
      {R"({"model_type":"llama","hidden_size":64})",
       "/num_hidden_layers: expected a number, and the file has no such key or n_layer"},
      {R"({"model_type":"llama","num_hidden_layers":2,"hidden_size":64,"num_attention_heads":0})",
       "/num_attention_heads: expected"},
      {R"({"model_type":"llama","num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,
           "vocab_size":100})",
       "/intermediate_size: expected"},
      {R"({"model_type":"llama","num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,
           "vocab_size":100,"intermediate_size":128,"quantization_config":{"quant_method":"aqlm"}})",
       "/quantization_config: expected bitsandbytes"},
  };
  for (const Case& each : cases) {
    const auto config = ParseTransformerConfig(each.text, "config.json");
    ASSERT_FALSE(config) << each.text;
    EXPECT_EQ(config.error().code, base::ErrorCode::kInvalid);
    EXPECT_NE(config.error().message.find(each.expected), std::string::npos)
        << config.error().message;
    EXPECT_EQ(config.error().message.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace carma::estimate
