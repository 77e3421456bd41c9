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

TEST(TransformerConfig, ReadsHeadAndActivation) {
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

TEST(TransformerConfig, ReadsTheKeysOfOtherFamilies) {
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
      {"BigCode: one key head",
       R"({"model_type":"gpt_bigcode","n_layer":24,"n_embd":2048,"n_head":16,"n_inner":8192,
           "n_positions":2048,"vocab_size":49280,"multi_query":true})",
       1124.6},
      {"ChatGLM: grouped keys under a different name",
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

// The relevant part of a public model's config.json, and the number of parameters from its model
// card.
struct PublicModel {
  const char* name;
  const char* what;  // the special property
  const char* text;
  double parameters;
};

constexpr PublicModel kPublicModels[] = {
    {"llama-3.2-1b", "tied",
     R"({"model_type":"llama","num_hidden_layers":16,"hidden_size":2048,
         "num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":8192,
         "vocab_size":128256,"tie_word_embeddings":true,"head_dim":64})",
     1235.81e6},
    {"mistral-nemo", "heads with their own width",
     R"({"model_type":"mistral","num_hidden_layers":40,"hidden_size":5120,
         "num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,
         "vocab_size":131072,"head_dim":128})",
     12247.8e6},
    {"qwen1.5-moe", "experts and a shared part",
     R"({"model_type":"qwen2_moe","num_hidden_layers":24,"hidden_size":2048,
         "num_attention_heads":16,"num_key_value_heads":16,"intermediate_size":5632,
         "vocab_size":151936,"moe_intermediate_size":1408,
         "shared_expert_intermediate_size":5632,"num_experts":60,"num_experts_per_tok":4,
         "decoder_sparse_step":1,"mlp_only_layers":[]})",
     14315.8e6},
    {"qwen3-30b-a3b", "experts with their own width",
     R"({"model_type":"qwen3_moe","num_hidden_layers":48,"hidden_size":2048,
         "num_attention_heads":32,"num_key_value_heads":4,"intermediate_size":6144,
         "vocab_size":151936,"head_dim":128,"moe_intermediate_size":768,
         "num_experts":128,"num_experts_per_tok":8,"decoder_sparse_step":1})",
     30532.1e6},
    {"gemma-3-1b", "one key head",
     R"({"model_type":"gemma3_text","num_hidden_layers":26,"hidden_size":1152,
         "num_attention_heads":4,"num_key_value_heads":1,"intermediate_size":6912,
         "vocab_size":262144,"head_dim":256})",
     999.886e6},
    {"gemma-3-4b", "sizes missing in the text part, an image encoder",
     R"({"architectures":["Gemma3ForConditionalGeneration"],"model_type":"gemma3",
         "text_config":{"hidden_size":2560,"intermediate_size":10240,
         "model_type":"gemma3_text","num_hidden_layers":34,"sliding_window":1024},
         "vision_config":{"hidden_size":1152,"image_size":896,"intermediate_size":4304,
         "model_type":"siglip_vision_model","num_attention_heads":16,
         "num_hidden_layers":27,"patch_size":14,"vision_use_head":false},
         "torch_dtype":"bfloat16"})",
     4300.08e6},
    {"phi-2", "no kv heads",
     R"({"model_type":"phi","num_hidden_layers":32,"hidden_size":2560,
         "num_attention_heads":32,"num_key_value_heads":null,"intermediate_size":10240,
         "vocab_size":51200,"tie_word_embeddings":false})",
     2779.68e6},
    {"phi-3.5-moe", "two of sixteen experts",
     R"({"model_type":"phimoe","num_hidden_layers":32,"hidden_size":4096,
         "num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":6400,
         "vocab_size":32064,"num_local_experts":16,"num_experts_per_tok":2})",
     41873.2e6},
    {"gpt2-xl", "n_inner left out",
     R"({"model_type":"gpt2","n_layer":48,"n_embd":1600,"n_head":25,"n_positions":1024,
         "vocab_size":50257})",
     1557.61e6},
    {"gpt-neo-1.3b", "num_heads",
     R"({"model_type":"gpt_neo","num_layers":24,"hidden_size":2048,"num_heads":16,
         "max_position_embeddings":2048,"vocab_size":50257,"intermediate_size":null,
         "resid_dropout":0})",
     1315.58e6},
    {"gpt-j-6b", "untied",
     R"({"model_type":"gptj","n_layer":28,"n_embd":4096,"n_head":16,"n_inner":null,
         "n_positions":2048,"vocab_size":50400,"tie_word_embeddings":false,
         "resid_pdrop":0.0})",
     6050.88e6},
    {"pythia-1.4b", "LayerNorm",
     R"({"model_type":"gpt_neox","num_hidden_layers":24,"hidden_size":2048,
         "num_attention_heads":16,"num_key_value_heads":null,"intermediate_size":8192,
         "vocab_size":50304,"tie_word_embeddings":false})",
     1414.65e6},
    {"opt-350m", "a table narrower than the stream",
     R"({"model_type":"opt","num_hidden_layers":24,"hidden_size":1024,
         "num_attention_heads":16,"ffn_dim":4096,"vocab_size":50272,
         "max_position_embeddings":2048,"word_embed_proj_dim":512,"dropout":0.1})",
     331.196e6},
    {"bloom-560m", "n_embed or hidden_size",
     R"({"model_type":"bloom","n_layer":24,"hidden_size":1024,"num_attention_heads":16,
         "vocab_size":250880,"hidden_dropout":0.0})",
     559.215e6},
    {"mpt-7b", "d_model and expansion_ratio",
     R"({"model_type":"mpt","d_model":4096,"n_layers":32,"n_heads":32,
         "expansion_ratio":4,"vocab_size":50432})",
     6649.29e6},
    {"falcon-7b", "one key head because of multi_query",
     R"({"model_type":"falcon","num_hidden_layers":32,"hidden_size":4544,
         "num_attention_heads":71,"vocab_size":65024,"multi_query":true,
         "new_decoder_architecture":false})",
     6921.72e6},
    {"falcon-40b", "eight key heads despite multi_query",
     R"({"model_type":"falcon","num_hidden_layers":60,"hidden_size":8192,
         "num_attention_heads":128,"num_kv_heads":8,"vocab_size":65024,
         "multi_query":true,"new_decoder_architecture":true})",
     41303.3e6},
    {"deepseek-v2-lite", "latent attention, full queries",
     R"({"model_type":"deepseek_v2","num_hidden_layers":27,"hidden_size":2048,
         "num_attention_heads":16,"num_key_value_heads":16,"intermediate_size":10944,
         "vocab_size":102400,"kv_lora_rank":512,"q_lora_rank":null,
         "qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,
         "moe_intermediate_size":1408,"n_routed_experts":64,"n_shared_experts":2,
         "num_experts_per_tok":6,"first_k_dense_replace":1,"moe_layer_freq":1,
         "tie_word_embeddings":false})",
     15706.5e6},
    {"deepseek-v3", "latent attention, stored in 8 bits",
     R"({"model_type":"deepseek_v3","num_hidden_layers":61,"hidden_size":7168,
         "num_attention_heads":128,"num_key_value_heads":128,"intermediate_size":18432,
         "vocab_size":129280,"kv_lora_rank":512,"q_lora_rank":1536,
         "qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,
         "moe_intermediate_size":2048,"n_routed_experts":256,"n_shared_experts":1,
         "num_experts_per_tok":8,"first_k_dense_replace":3,"moe_layer_freq":1,
         "quantization_config":{"quant_method":"fp8","fmt":"e4m3"}})",
     671026e6},
    {"gpt-oss-20b", "experts of every block, stored in 4 bits",
     R"({"model_type":"gpt_oss","num_hidden_layers":24,"hidden_size":2880,
         "num_attention_heads":64,"num_key_value_heads":8,"intermediate_size":2880,
         "vocab_size":201088,"head_dim":64,"num_local_experts":32,
         "num_experts_per_tok":4,"experts_per_token":4,
         "quantization_config":{"quant_method":"mxfp4","modules_to_not_convert":["x"]}})",
     20914.8e6},
    {"llama4-scout", "a shared expert, and images",
     R"({"model_type":"llama4","text_config":{"model_type":"llama4_text",
         "hidden_size":5120,"num_hidden_layers":48,"num_attention_heads":40,
         "num_key_value_heads":8,"head_dim":128,"intermediate_size":8192,
         "intermediate_size_mlp":16384,"interleave_moe_layer_step":1,
         "num_local_experts":16,"num_experts_per_tok":1,"vocab_size":202048},
         "vision_config":{"hidden_size":1408,"intermediate_size":5632,
         "num_hidden_layers":34,"num_attention_heads":16}})",
     108642e6},
    {"minicpm3-4b", "values as wide as a head",
     R"({"model_type":"minicpm3","num_hidden_layers":62,"hidden_size":2560,
         "num_attention_heads":40,"num_key_value_heads":40,"intermediate_size":6400,
         "vocab_size":73448,"q_lora_rank":768,"kv_lora_rank":256,"qk_nope_head_dim":64,
         "qk_rope_head_dim":32,"tie_word_embeddings":true})",
     4074e6},
    {"xlm-roberta-base", "a name with a dash",
     R"({"model_type":"xlm-roberta","num_hidden_layers":12,"hidden_size":768,
         "num_attention_heads":12,"intermediate_size":3072,"vocab_size":250002,
         "max_position_embeddings":514})",
     278.295e6},
    {"distilbert", "dim and hidden_dim",
     R"({"model_type":"distilbert","n_layers":6,"dim":768,"n_heads":12,
         "hidden_dim":3072,"vocab_size":30522,"max_position_embeddings":512,
         "dropout":0.1,"tie_weights_":true})",
     66.9855e6},
    {"electra-small", "embedding_size",
     R"({"model_type":"electra","num_hidden_layers":12,"hidden_size":256,
         "num_attention_heads":4,"intermediate_size":1024,"vocab_size":30522,
         "max_position_embeddings":512,"embedding_size":128})",
     13.5488e6},
    {"deberta-v3-base", "a table of relative positions instead of absolute ones",
     R"({"model_type":"deberta-v2","num_hidden_layers":12,"hidden_size":768,
         "num_attention_heads":12,"intermediate_size":3072,"vocab_size":128100,
         "max_position_embeddings":512,"position_buckets":256,"share_att_key":true,
         "pos_att_type":"p2c|c2p","position_biased_input":false,"type_vocab_size":0})",
     183.8315e6},
    {"albert-base", "one block for all layers",
     R"({"model_type":"albert","num_hidden_layers":12,"hidden_size":768,
         "num_attention_heads":12,"intermediate_size":3072,"vocab_size":30000,
         "max_position_embeddings":512,"embedding_size":128,"hidden_dropout_prob":0})",
     11.6836e6},
    {"modernbert-base", "a gated encoder",
     R"({"model_type":"modernbert","num_hidden_layers":22,"hidden_size":768,
         "num_attention_heads":12,"intermediate_size":1152,"vocab_size":50368})",
     149.655e6},
    {"t5-base", "d_kv, num_decoder_layers left out",
     R"({"model_type":"t5","d_model":768,"d_kv":64,"d_ff":3072,"num_layers":12,
         "num_heads":12,"vocab_size":32128})",
     222.904e6},
    {"flan-t5-xl", "gated by feed_forward_proj",
     R"({"model_type":"t5","d_model":2048,"d_kv":64,"d_ff":5120,"num_layers":24,
         "num_decoder_layers":24,"num_heads":32,"vocab_size":32128,
         "feed_forward_proj":"gated-gelu","tie_word_embeddings":false})",
     2849.76e6},
    {"mt5-small", "d_kv other than d_model / heads",
     R"({"model_type":"mt5","d_model":512,"d_kv":64,"d_ff":1024,"num_layers":8,
         "num_decoder_layers":8,"num_heads":6,"vocab_size":250112,
         "feed_forward_proj":"gated-gelu","tie_word_embeddings":false})",
     300.177e6},
    {"bart-large", "encoder_layers and decoder_layers",
     R"({"model_type":"bart","d_model":1024,"encoder_layers":12,"decoder_layers":12,
         "encoder_attention_heads":16,"decoder_attention_heads":16,
         "encoder_ffn_dim":4096,"decoder_ffn_dim":4096,"vocab_size":50265,
         "max_position_embeddings":1024,"num_hidden_layers":12})",
     406.291e6},
    {"pegasus-large", "positions that are not learned",
     R"({"model_type":"pegasus","d_model":1024,"encoder_layers":16,"decoder_layers":16,
         "encoder_attention_heads":16,"encoder_ffn_dim":4096,"vocab_size":96103,
         "max_position_embeddings":1024})",
     568.7e6},
    {"vit-base", "image patches",
     R"({"model_type":"vit","num_hidden_layers":12,"hidden_size":768,
         "num_attention_heads":12,"intermediate_size":3072,"image_size":224,
         "patch_size":16})",
     86.5677e6},
    {"dinov2-giant", "use_swiglu_ffn",
     R"({"model_type":"dinov2","num_hidden_layers":40,"hidden_size":1536,
         "num_attention_heads":24,"mlp_ratio":4,"image_size":518,"patch_size":14,
         "use_swiglu_ffn":true})",
     1136.48e6},
    {"llava-1.5-7b", "a text part without sizes",
     R"({"model_type":"llava","text_config":{"model_type":"llama","vocab_size":32064,
         "torch_dtype":"float16","max_position_embeddings":4096},
         "vision_config":{"hidden_size":1024,"image_size":336,"intermediate_size":4096,
         "model_type":"clip_vision_model","num_attention_heads":16,
         "num_hidden_layers":24,"patch_size":14,"projection_dim":768,"vocab_size":32000},
         "tie_word_embeddings":false})",
     7063.43e6},
    {"qwen2-vl-7b", "flat, with vision_config",
     R"({"model_type":"qwen2_vl","num_hidden_layers":28,"hidden_size":3584,
         "num_attention_heads":28,"num_key_value_heads":4,"intermediate_size":18944,
         "vocab_size":152064,"tie_word_embeddings":false,"vision_config":{"depth":32,
         "embed_dim":1280,"mlp_ratio":4,"num_heads":16,"in_chans":3,"hidden_size":3584,
         "patch_size":14}})",
     8291.38e6},
    {"mllama-11b", "a text part with all its sizes",
     R"({"model_type":"mllama","text_config":{"model_type":"mllama_text_model",
         "num_hidden_layers":40,"hidden_size":4096,"num_attention_heads":32,
         "num_key_value_heads":8,"intermediate_size":14336,"vocab_size":128256,
         "tie_word_embeddings":false},"vision_config":{"hidden_size":1280,
         "intermediate_size":5120,"num_hidden_layers":32,"num_global_layers":8,
         "attention_heads":16}})",
     10670.2e6},
};

TEST(TransformerConfig, CountsTheParametersOfPublicModels) {
  for (const PublicModel& each : kPublicModels) {
    const TransformerConfig config = Parsed(each.text);
    EXPECT_NEAR(config.TotalParameters() / each.parameters, 1, 0.013)
        << each.name << ": " << each.what;
  }
}

TEST(TransformerConfig, ReadsTheTextPartOfAVisionModel) {
  const auto config = Parsed(
      R"({"model_type":"llava","tie_word_embeddings":false,"torch_dtype":"float16",
          "text_config":{"model_type":"llama","vocab_size":32064},
          "vision_config":{"hidden_size":1024,"intermediate_size":4096,"num_hidden_layers":24}})");
  EXPECT_EQ(config.family, "llama");
  EXPECT_EQ(config.layers, 32) << "as in the family's code";
  EXPECT_EQ(config.vocabulary, 32'064);
  EXPECT_EQ(config.dtype, Dtype::kFp16);
  EXPECT_NEAR(config.other_parameters, 302e6, 1e6);
  const auto alone = ParseTransformerConfig(R"({"model_type":"llama","vocab_size":32064})", "c");
  EXPECT_FALSE(alone) << "a separate file must state its sizes";
  const auto strange = ParseTransformerConfig(
      R"({"model_type":"strange","text_config":{"model_type":"rwkv"}})", "c");
  ASSERT_FALSE(strange);
  EXPECT_NE(strange.error().message.find("/text_config/model_type: expected one of the"),
            std::string::npos)
      << strange.error().message;
}

TEST(TransformerConfig, CountsTheBlocksOfADecoderThatReadsAnEncoder) {
  const auto config = Parsed(
      R"({"model_type":"t5","d_model":512,"d_kv":64,"d_ff":2048,"num_layers":6,"num_heads":8,
          "num_decoder_layers":2,"vocab_size":32128})");
  EXPECT_EQ(config.layers, 8);
  EXPECT_EQ(config.decoder_layers, 2);
  EXPECT_DOUBLE_EQ(config.Attentions(), 1.25);
  EXPECT_TRUE(config.unfused_attention && config.rms_norm && config.tied && config.drops_out);
}

TEST(TransformerConfig, ReadsSoundPiecesAndTheTextLimit) {
  const auto config = Parsed(
      R"({"model_type":"whisper","d_model":768,"encoder_layers":12,"decoder_layers":12,
          "encoder_attention_heads":12,"encoder_ffn_dim":3072,"vocab_size":51865,
          "num_mel_bins":80,"max_source_positions":1500,"max_target_positions":448,
          "num_hidden_layers":12,"dropout":0.0})");
  EXPECT_NEAR(config.TotalParameters(), 241.7e6, 1e6) << "as its model card says";
  EXPECT_TRUE(config.one_length && !config.drops_out && !config.classifies);
  EXPECT_EQ(config.positions, 1500);
  EXPECT_EQ(config.decoder_positions, 448);
}

TEST(TransformerConfig, CountsTheTokensOfImages) {
  const auto config = Parsed(
      R"({"model_type":"vit","num_hidden_layers":12,"hidden_size":768,"num_attention_heads":12,
          "intermediate_size":3072,"image_size":384,"patch_size":16})");
  EXPECT_EQ(config.positions, 577);
  EXPECT_TRUE(config.sees_images && config.one_length && config.classifies);
}

TEST(TransformerConfig, EncodersHaveDropoutByDefault) {
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

TEST(TransformerConfig, NamesMissingKeys) {
  struct Case {
    const char* text;
    const char* expected;
  };
  const Case cases[] = {
      {"", "config.json: "},
      {"[]", "config.json: /: expected an object"},
      {R"({"model_type":"mamba"})", "/num_hidden_layers: expected a number"},
      {R"({"model_type":"lama"})", "(did you mean llama?)"},
      {R"({"_class_name":"StableDiffusionPipeline"})",
       "/_class_name: expected a single model, not a pipeline; pass the config.json in its "
       "unet or transformer folder, or use --hf-config with this file"},
      {R"({"_class_name":"UNet2DConditionModel","_diffusers_version":"0.30.0"})",
       "/block_out_channels: expected a list of numbers"},
      {R"({"_class_name":"UNet3DConditionModel","_diffusers_version":"0.30.0"})",
       "(did you mean UNet2DConditionModel?)"},
      {R"({"hidden_size":64})", "/model_type: expected one of the"},
      {R"({"model_type":"llama","hidden_size":64})",
       "/num_hidden_layers: expected a number, but the file does not have this key or n_layer"},
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
    EXPECT_EQ(config.error().code, ErrorCode::kInvalid);
    EXPECT_NE(config.error().message.find(each.expected), std::string::npos)
        << config.error().message;
    EXPECT_EQ(config.error().message.find('\n'), std::string::npos);
  }
}

TEST(TransformerConfig, CountsKnownEncodersAndNamesOtherParts) {
  const std::string text =
      R"({"model_type":"qwen","num_hidden_layers":4,"hidden_size":256,"num_attention_heads":4,)"
      R"("intermediate_size":1024,"vocab_size":1000,)"
      R"("visual":{"layers":48,"width":1664,"heads":16,"mlp_ratio":4.9231},)"
      R"("resampler":{"num_hidden_layers":6,"hidden_size":512},"rope_scaling":{"factor":2}})";
  const auto config = ParseTransformerConfig(text, "config.json");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_NEAR(config->other_parameters, 1.84e9, 0.02e9) << "encoders are found under any key";
  EXPECT_EQ(config->uncounted, std::vector<std::string>{"resampler"});
}

TEST(TransformerConfig, SuggestsTheNearestFamily) {
  const auto config = ParseTransformerConfig(R"({"model_type":"qwen9_moe"})", "config.json");
  ASSERT_FALSE(config);
  EXPECT_NE(config.error().message.find("(did you mean qwen"), std::string::npos);
  EXPECT_LT(config.error().message.size(), 200U) << "does not list all families";
}

// The numbers are taken from the model cards and exclude biases and norms.
TEST(TransformerConfig, CountsModelsOfOtherKinds) {
  const struct {
    const char* text;
    double millions;
    std::int64_t tokens;
  } cases[] = {
      {R"({"_class_name":"DiTTransformer2DModel","num_layers":28,"num_attention_heads":16,
           "attention_head_dim":72,"sample_size":32,"patch_size":2})",
       675, 256},
      {R"({"_class_name":"SD3Transformer2DModel","num_layers":24,"num_attention_heads":24,
           "attention_head_dim":64,"sample_size":128,"patch_size":2,"joint_attention_dim":4096})",
       2028, 4096 + 333},
      {R"({"_class_name":"FluxTransformer2DModel","num_layers":19,"num_single_layers":38,
           "num_attention_heads":24,"attention_head_dim":128,"patch_size":1,
           "joint_attention_dim":4096})",
       11901, 4096 + 512},
      {R"({"_class_name":"CogVideoXTransformer3DModel","num_layers":30,"num_attention_heads":30,
           "attention_head_dim":64,"patch_size":2,"sample_frames":49,"sample_height":60,
           "sample_width":90,"max_text_seq_length":226})",
       1693, 13 * 30 * 45 + 226},
      {R"({"model_type":"clip","vision_config":{"model_type":"clip_vision_model","patch_size":32},
           "text_config":{"model_type":"clip_text_model"}})",
       151, 50},
      {R"({"model_type":"mamba","num_hidden_layers":24,"hidden_size":768,"state_size":16,
           "intermediate_size":1536,"vocab_size":50280})",
       129, 0},
      {R"({"model_type":"wav2vec2","num_hidden_layers":12,"hidden_size":768,
           "num_attention_heads":12,"intermediate_size":3072,"vocab_size":32})",
       94.4, 0},
  };
  for (const auto& each : cases) {
    const TransformerConfig config = Parsed(each.text);
    EXPECT_NEAR(config.TotalParameters() / 1e6, each.millions, 0.03 * each.millions)
        << config.family;
    EXPECT_EQ(config.positions, each.tokens) << config.family;
  }
}

TEST(TransformerConfig, RecognisesNormsOfQueriesKeysAndResults) {
  const std::string rest = R"(,"num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,)"
                           R"("intermediate_size":128,"vocab_size":100})";
  EXPECT_TRUE(Parsed(R"({"model_type":"qwen3")" + rest).norms_heads);
  EXPECT_FALSE(Parsed(R"({"model_type":"qwen2")" + rest).norms_heads);
  EXPECT_EQ(Parsed(R"({"model_type":"gemma2")" + rest).norms, 4);
  EXPECT_TRUE(Parsed(R"({"model_type":"gpt_neox")" + rest).wide_scores);
  const TransformerConfig opt = Parsed(R"({"model_type":"opt","attention_dropout":0.0)" + rest);
  EXPECT_TRUE(opt.drops_out && !opt.drops_scores) << "each has its own rate";
}

}  // namespace
}  // namespace carma::estimate
