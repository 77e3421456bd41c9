// End-to-end tests of carma estimate --hf-config and estimate evaluate --runs with a made-up model
// and made-up runs.
#include "cli/estimate/transformer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "cli/fake_daemon.h"
#include "lab/verbs/lab.h"

namespace carma::cli {
namespace {

using ::testing::HasSubstr;

class Transformers : public ::testing::Test {
 protected:
  void SetUp() override {
    Write("config.json", R"({"model_type":"llama","num_hidden_layers":16,"hidden_size":1024,)"
                         R"("num_attention_heads":8,"intermediate_size":2816,"vocab_size":32000,)"
                         R"("torch_dtype":"bfloat16"})");
    Write("models.csv",
          "model,aliases,layers,hidden,heads,kv_heads,head_dim,intermediate,vocab,mlp,norm,tied,"
          "params_b,family\n"
          "lab/small,,16,1024,8,8,128,2816,32000,gated,rms,0,0.271,lab\n");
    Write("runs.csv",
          "id,source,framework,model,method,wquant,wdtype,amp,optimizer,seq_len,seq_note,"
          "micro_batch,ckpt,fused,parallel,shards,gpu,n_gpu,mem_gib,mem_def,mem2_gib,mem2_def\n"
          "1,one,HF Trainer,lab/small,full,,bf16,,adamw,8,packed,1,full,,,1,,1,3.3,nvidia-smi,2.5,"
          "torch max allocated\n"
          "2,two,HF Trainer,lab/small,full,,bf16,,adamw,8,packed,1,full,,,1,,1,3.1,nvidia-smi,2.4,"
          "torch max allocated\n"
          "3,two,HF Trainer,lab/small,full,,bf16,,adamw,,packed,1,full,,,1,,1,3.1,nvidia-smi,,\n"
          "4,two,HF Trainer,lab/other,full,,bf16,,adamw,8,packed,1,full,,,1,,1,3.1,nvidia-smi,,\n");
  }
  std::string Path(const std::string& name) { return daemon_.dir() + "/" + name; }
  void Write(const std::string& name, const std::string& text) {
    EXPECT_TRUE(base::WriteFileAtomic(Path(name), text));
  }
  Ran Run(std::vector<std::string> more) {
    std::vector<std::string> words = {"estimate"};
    words.insert(words.end(), more.begin(), more.end());
    return RunWords(daemon_.socket_path(), std::move(words), "", LabProgram());
  }
  Ran Ask(std::vector<std::string> more) {
    more.insert(more.begin(), {"--hf-config", Path("config.json")});
    return Run(std::move(more));
  }
  base::Json Asked(std::vector<std::string> more) {
    more.emplace_back("--json");
    const Ran ran = Ask(std::move(more));
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return base::ParseJson(ran.out).value_or(base::Json::object());
  }
  FakeDaemon daemon_;
};

TEST_F(Transformers, AreAnsweredInPartsWithoutADaemon) {
  const base::Json json = Asked({"--seq-len", "8", "--batch", "2", "--method", "full"});
  double sum = 0;
  for (const auto& [name, mib] : json["parts"].items()) sum += mib.get<double>();
  EXPECT_NEAR(sum, json["shown"]["point_mib"].get<double>(), 1);
  EXPECT_EQ(json["parts"].size(), 9U);
  EXPECT_EQ(json["phase"], "step");
  EXPECT_EQ(json["point_mib"], json["shown"]["point_mib"]);
  EXPECT_GE(json["bound_mib"], json["point_mib"]);
  const Ran text = Ask({"--seq-len", "8", "--batch", "2"});
  EXPECT_THAT(text.out, HasSubstr("llama, 16 layers, 271.1 M parameters"));
  EXPECT_THAT(text.out, HasSubstr("the peak is reached in the optimizer's step"));
  EXPECT_THAT(text.out, HasSubstr(" 824M\n")) << "all outputs use the same unit";
}

TEST_F(Transformers, OptionsChangeTheAnswer) {
  const auto needed = [&](std::vector<std::string> words) {
    return Asked(std::move(words))["needed"]["point_mib"].get<std::int64_t>();
  };
  const std::int64_t full = needed({"--seq-len", "512"});
  EXPECT_LT(needed({"--seq-len", "512", "--method", "lora"}), full);
  EXPECT_LT(needed({"--seq-len", "512", "--method", "qlora"}),
            needed({"--seq-len", "512", "--method", "lora"}));
  EXPECT_LT(needed({"--seq-len", "512", "--optimizer", "adamw_8bit"}), full);
  EXPECT_LT(needed({"--seq-len", "512", "--gpus", "4", "--dp", "fsdp"}), full);
  EXPECT_GT(needed({"--seq-len", "512", "--weights", "fp32"}), full);
  EXPECT_LT(needed({"--seq-len", "8192", "--fused-loss"}), needed({"--seq-len", "8192"}));
  EXPECT_LT(needed({"--seq-len", "8192", "--gradient-checkpointing", "full"}),
            needed({"--seq-len", "8192"}));
}

TEST_F(Transformers, FilesOfThePlanReplaceOptions) {
  Write("ds.json", R"({"zero_optimization":{"stage":3}})");
  Write("adapter.json", R"({"r":8,"target_modules":["q_proj"]})");
  const base::Json zero = Asked({"--gpus", "4", "--deepspeed", Path("ds.json")});
  const base::Json same = Asked({"--gpus", "4", "--dp", "zero3"});
  EXPECT_EQ(zero["needed"], same["needed"]);
  const base::Json adapters = Asked({"--adapter-config", Path("adapter.json")});
  EXPECT_EQ(adapters["trained_parameters"], 16 * 8 * 2048);
  const auto quantised = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--weights", "nf4", "--lora-rank", "8", "--lora-targets", "q"});
    return Asked(std::move(words))["needed"];
  };
  EXPECT_EQ(quantised({"--adapter-config", Path("adapter.json")}),
            quantised({"--method", "qlora"}));
}

TEST_F(Transformers, AreFoundInACommandAndInAScript) {
  const std::vector<std::string> command = {"python",
                                            "t.py",
                                            "--model_name_or_path",
                                            Path("config.json"),
                                            "--lr",
                                            "1",
                                            "--max_length",
                                            "512",
                                            "--per_device_train_batch_size",
                                            "2"};
  std::vector<std::string> words = {"--explain", "--"};
  words.insert(words.end(), command.begin(), command.end());
  const Ran ran = Run(words);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("2 x 512 tokens per GPU and step"));
  EXPECT_THAT(ran.out, ::testing::ContainsRegex("seq-len +512 +--max_length\n"));
  EXPECT_THAT(ran.out, HasSubstr("transformer"));
  Write("train.sh", "#!/bin/sh\npython t.py --model_name_or_path " + Path("config.json") +
                        " --lr 1 --max_length 512\n");
  const auto point = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {Path("train.sh"), "--json", "-e", "transformer"});
    const Ran asked = Run(std::move(more));
    EXPECT_EQ(asked.exit_code, 0) << asked.err;
    const auto json = base::ParseJson(asked.out);
    return json ? (*json)["estimates"][0]["point_mib"].get<std::int64_t>() : 0;
  };
  EXPECT_LT(point({"--method", "lora"}), point({})) << "options override settings that were read";
}

TEST_F(Transformers, ReportAMistakeInOneLineWithExitCodeTwo) {
  Write("sweep.csv", "gpu,benchmark,batch,mem_mib_median\na,net,8,1000\n");
  Write("other.json", R"({"model_type":"rwkv"})");
  const struct {
    std::vector<std::string> words;
    const char* expected;
  } cases[] = {
      {{"--hf-config", Path("none.json")}, "none.json"},
      {{"--hf-config", Path("other.json")}, "other.json: /model_type: expected one of the"},
      {{"--hf-config", Path("config.json"), "--method", "dora"}, "--method: 'dora': expected full"},
      {{"--hf-config", Path("config.json"), "--batch", "0"}, "--batch: '0': expected a number"},
      {{"--hf-config", Path("config.json"), "--weights", "fp7"}, "--weights: 'fp7': expected bf16"},
      {{"--hf-config", Path("config.json"), "--dp", "magic"}, "--dp: 'magic': expected ddp"},
      {{"--hf-config", Path("config.json"), "--lora-targets", "x"}, "--lora-targets: 'x'"},
      {{"--hf-config", Path("config.json"), "--gpus", "3", "--tp", "2"}, "--gpus: '3'"},
      {{"--hf-config", Path("config.json"), "--deepspeed", Path("none.json")}, "none.json"},
      {{"--hf-config", Path("config.json"), "--packed", "--variable-length"},
       "--packed cannot be combined with"},
      {{"--hf-config", Path("config.json"), "--pp", "17"}, "17 pipeline stages"},
      {{"--hf-config", Path("config.json"), "--offload", "x"}, "--offload: 'x'"},
      {{"--hf-config", Path("config.json"), Path("models.csv")},
       "expected either a file or --hf-config, not both"},
      {{"evaluate", "--runs", Path("runs.csv")}, "expected --runs and --models together"},
      {{"evaluate", "--runs", Path("runs.csv"), "--runs", Path("none.csv"), "--models",
        Path("models.csv")},
       "none.csv"},
      {{"evaluate", "--runs", Path("runs.csv"), "--models", Path("models.csv"), "--by", "colour"},
       "--by: 'colour': expected one or more of source"},
      {{"evaluate", "--runs", Path("runs.csv"), "--models", Path("models.csv"), "--exact"},
       "--exact cannot be combined with --runs"},
      {{"evaluate", "--runs", Path("sweep.csv"), "--by", "source"},
       "batch sweeps take only --by benchmark"},
      {{"evaluate", "--runs", Path("sweep.csv"), "--coverage", "0.9"},
       "batch sweeps take only --by benchmark"},
  };
  for (const auto& each : cases) {
    const Ran ran = Run(each.words);
    EXPECT_EQ(ran.exit_code, 2) << each.expected;
    EXPECT_THAT(ran.err, HasSubstr(each.expected));
    EXPECT_EQ(ran.err.find('\n'), ran.err.size() - 1) << ran.err;
  }
}

TEST_F(Transformers, AreComparedWithTablesOfRunsByDefinitionAndGroup) {
  const std::vector<std::string> words = {"evaluate",     "--runs",           Path("runs.csv"),
                                          "--models",     Path("models.csv"), "--by",
                                          "source,method"};
  std::vector<std::string> as_json = words;
  as_json.emplace_back("--json");
  const Ran ran = Run(as_json);
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const auto json = base::ParseJson(ran.out);
  ASSERT_TRUE(json);
  EXPECT_EQ((*json)["runs"], 3);
  EXPECT_EQ((*json)["without_model"], 1);
  const base::Json& rows = (*json)["estimators"];
  ASSERT_EQ(rows.size(), 6U) << "two definitions, each with all runs and two groups";
  EXPECT_EQ(rows[0]["memory"], "allocated");
  EXPECT_EQ(rows[0]["family"], "");
  EXPECT_EQ(rows[0]["n"], 2);
  EXPECT_LT(rows[0]["median_error"], 0.06);
  EXPECT_GE(rows[0]["p90_error"], rows[0]["median_error"]);
  EXPECT_EQ(rows[3]["memory"], "shown");
  EXPECT_EQ(rows[3]["unanswered"], 1) << "a row without a length";
  EXPECT_EQ(rows[4]["family"], "one,full");
  for (const char* key : {"mape", "under_10", "coverage", "bound_over", "accuracy_8gib"})
    EXPECT_TRUE(rows[0].contains(key)) << key;
  const Ran text = Run(words);
  EXPECT_THAT(text.out, HasSubstr("two,full"));
  std::vector<std::string> as_rows = words;
  as_rows.emplace_back("--rows");
  const std::string lines = Run(as_rows).out;
  EXPECT_THAT(lines, HasSubstr("1,lab/small,allocated,2560,"));
  as_rows.insert(as_rows.end(), {"--leave-out", "source"});
  const std::string left_out = Run(as_rows).out;
  EXPECT_THAT(left_out, HasSubstr("1,lab/small,allocated,2560,"));
  EXPECT_NE(left_out, lines) << "predicted from the other source";
}

}  // namespace
}  // namespace carma::cli
