#include "cli/estimate/transformer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "base/json.h"
#include "cli/command.h"

namespace carma::cli {
namespace {

class TransformerVerbTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "carma-pipeline-" +
           ::testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  void File(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = dir_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  // Returns what the verb prints about `path`, as JSON.
  base::Json Answer(const std::string& path) const {
    char* text = nullptr;
    std::size_t size = 0;
    Context context;
    context.json = true;
    context.out = ::open_memstream(&text, &size);
    context.Report(RunTransformer(context, {.config = path}));
    std::fclose(context.out);
    const std::unique_ptr<char, decltype(&std::free)> owned(text, &std::free);
    EXPECT_EQ(context.exit_code, 0);
    return base::ParseJson(text).value_or(base::Json::object());
  }
  std::string dir_;
};

TEST_F(TransformerVerbTest, ReadsTrainedAndFrozenPartsFromAPipelineFolder) {
  File("model_index.json",
       R"({"_class_name":"SomePipeline","transformer":["diffusers","SD3Transformer2DModel"],)"
       R"("vae":["diffusers","AutoencoderKL"]})");
  File("transformer/config.json",
       R"({"_class_name":"SD3Transformer2DModel","num_layers":4,"num_attention_heads":4,)"
       R"("attention_head_dim":64,"sample_size":64,"patch_size":2})");
  File("vae/config.json", R"({"block_out_channels":[128,256,512,512]})");
  const base::Json answer = Answer(dir_);
  EXPECT_EQ(answer.value("family", ""), "SD3Transformer2DModel");
  EXPECT_GT(answer["parts"].value("beside_mib", 0.0), 100);
}

TEST_F(TransformerVerbTest, AModelsFolderStandsForItsConfig) {
  File("config.json",
       R"({"model_type":"llama","num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,)"
       R"("intermediate_size":128,"vocab_size":100})");
  EXPECT_EQ(Answer(dir_).value("family", ""), "llama");
}

}  // namespace
}  // namespace carma::cli
