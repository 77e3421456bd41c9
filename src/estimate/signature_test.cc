#include "estimate/signature.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/text.h"

namespace carma::estimate {
namespace {

task::TaskSpec SpecOf(const std::string& words) {
  task::TaskSpec spec;
  for (const std::string_view word : base::SplitWords(words)) spec.command.emplace_back(word);
  spec.workdir = "/home/ada/project";
  spec.name = "train";
  return spec;
}

TEST(Relation, OmitsTheAmounts) {
  const struct {
    const char* name;
    const char* one;
    const char* other;
    bool same;
  } cases[] = {
      {"another batch", "python train.py --batch-size 8", "python train.py --batch-size 16", true},
      {"another batch, with =", "python train.py --batch_size=8", "python train.py --batch_size=16",
       true},
      {"another length", "python train.py --max_seq_length 512",
       "python train.py --max_seq_length 64", true},
      {"a configuration framework's key", "python train.py data.batch_size=8",
       "python train.py data.batch_size=16", true},
      {"more layers", "python train.py --batch-size 8 --layers 2",
       "python train.py --batch-size 8 --layers 3", false},
      {"stated in only one command", "python train.py --batch-size 8", "python train.py", false},
      {"an option that is not a batch size", "python train.py --batch-size 8 --batches 4",
       "python train.py --batch-size 8 --batches 5", false},
      {"a word that is not a number", "python train.py --batch-size auto --b 8",
       "python train.py --batch-size all --b 8", false},
  };
  for (const auto& each : cases) {
    EXPECT_EQ(Relation(SpecOf(each.one), 1000, "m") == Relation(SpecOf(each.other), 1000, "m"),
              each.same)
        << each.name;
  }
  EXPECT_EQ(Relation(SpecOf("python train.py 32"), 1000, "m"), "")
      << "the command states no amount";
  task::TaskSpec stated = SpecOf("python train.py");
  stated.batch_size = 8;
  task::TaskSpec more = stated;
  more.batch_size = 16;
  EXPECT_EQ(Relation(stated, 1000, "m"), Relation(more, 1000, "m"));
  EXPECT_NE(Relation(stated, 1000, "m"), Relation(stated, 1001, "m"));
  EXPECT_NE(Relation(stated, 1000, "m"), Relation(stated, 1000, "n"));
}

TEST(Amounts, ComeFromTheTaskOrItsCommand) {
  const Amounts told = AmountsOf(SpecOf("python train.py -b 8 --block-size=1024"));
  EXPECT_EQ(told.batch, 8);
  EXPECT_EQ(told.length, 1024);
  EXPECT_EQ(AmountsOf(SpecOf("python train.py b 8")), Amounts{});
  EXPECT_EQ(AmountsOf(SpecOf("python train.py --batch-size --seq-len 128")).length, 128);
  task::TaskSpec stated = SpecOf("python train.py --batch-size 8");
  stated.training = {{"seq-len", "2048", ""}};
  stated.batch_size = 4;
  EXPECT_EQ(AmountsOf(stated).batch, 4) << "the description overrides the command";
  EXPECT_EQ(AmountsOf(stated).length, 2048);
}

TEST(Signature, DistinguishesTrainings) {
  struct Case {
    const char* name;
    const char* one;
    const char* other;
    bool same;
  };
  const Case cases[] = {
      {"the same", "python train.py --layers 12", "python train.py --layers 12", true},
      {"another seed", "python train.py --seed 1", "python train.py --seed 2", true},
      {"another seed, with =", "python train.py --seed=1", "python train.py --seed=2", true},
      {"another seed, in Hydra's syntax", "python train.py trainer.seed=1",
       "python train.py trainer.seed=2", true},
      {"another learning rate", "python train.py --lr 0.1", "python train.py --lr 0.01", true},
      {"an underscore in the name", "python train.py --learning_rate 0.1",
       "python train.py --learning_rate 0.2", true},
      {"the program in another folder", "python /home/ada/a/train.py", "python /tmp/train.py",
       true},
      {"the data in another folder", "python train.py /data/imagenet/",
       "python train.py /scratch/imagenet", true},
      {"another output folder", "python train.py --output-dir /tmp/run17",
       "python train.py --output-dir /tmp/run18", true},
      {"another date", "python train.py 2026-11-20", "python train.py 2026-11-21", true},
      {"another time", "python train.py run/2026-11-21_11-44-05",
       "python train.py run/2026-11-22T09:30:00", true},
      {"another date in a short form", "python train.py 261121_1144", "python train.py 261122_0930",
       true},
      {"the day first", "python train.py 21-11-2026", "python train.py 22-11-2026", true},
      {"a day and a random name", "python train.py 20261121-9f86d0",
       "python train.py 20261122-8e75c1", true},
      {"a date with a counter", "python train.py 2026-11-21-114405-1",
       "python train.py 2026-11-22-093000-12", true},
      {"job numbers", "python train.py 1234567_12", "python train.py 1234581_3", true},
      {"numbers of steps", "python train.py 1000000_32", "python train.py 2000000_32", false},
      {"sizes of layers", "python train.py 128_256_512", "python train.py 256_512_1024", false},
      {"sizes with dashes", "python train.py 128-256-512", "python train.py 256-512-1024", false},
      {"a size, layers and heads", "python train.py 2048-12-24", "python train.py 2048-24-24",
       false},
      {"a day and sizes", "python train.py 2026-11-21_128_256", "python train.py 2026-11-21_64_128",
       false},
      {"a random name in parts", "python train.py 9f86d081-884c-7d65",
       "python train.py 8e75c070-773b-6c54", true},
      {"a value after a switch is kept", "python train.py --resume --layers 3",
       "python train.py --resume --layers 4", false},
      {"a word after --", "python train.py -- big", "python train.py -- small", false},
      {"more layers", "python train.py --layers 12", "python train.py --layers 24", false},
      {"another model", "python train.py --model resnet50", "python train.py --model resnet101",
       false},
      {"another model's configuration", "python train.py conf/resnet50.yaml",
       "python train.py conf/resnet101.yaml", false},
      {"another image size", "python train.py --img-size=224", "python train.py --img-size=384",
       false},
      {"a number without a name", "python train.py 12", "python train.py 24", false},
      {"another program", "python train.py", "python finetune.py", false},
      {"eight hexadecimal letters may be a word", "python train.py deadbeef",
       "python train.py feedbeef", false},
      {"a random name", "python train.py run-9f86d081884c", "python train.py run-9f86d081884d",
       false},
      {"a random name alone", "python train.py 9f86d081884c", "python train.py 1f86d081884d", true},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(Signature(SpecOf(c.one), 1000, "m") == Signature(SpecOf(c.other), 1000, "m"), c.same)
        << c.name;
  }
}

TEST(Signature, ContainsUserModelAndSettings) {
  const std::string same = Signature(SpecOf("python train.py"), 1000, "m");
  EXPECT_TRUE(same.starts_with("1000-")) << same;
  EXPECT_NE(Signature(SpecOf("python train.py"), 1001, "m"), same);
  EXPECT_NE(Signature(SpecOf("python train.py"), 1000, "n"), same);
  const auto with = [](auto change) {
    task::TaskSpec spec = SpecOf("python train.py");
    change(spec);
    return Signature(spec, 1000, "m");
  };
  EXPECT_NE(with([](auto& spec) { spec.batch_size = 32; }), same);
  EXPECT_NE(with([](auto& spec) { spec.optimizer = "adam"; }), same);
  EXPECT_NE(with([](auto& spec) { spec.precision = "amp"; }), same);
  EXPECT_NE(with([](auto& spec) { spec.gpus = 2; }), same);
  EXPECT_NE(with([](auto& spec) { spec.conda_env = "torch2"; }), same);
  EXPECT_EQ(with([](auto& spec) { spec.name = "another"; }), same);
  EXPECT_EQ(with([](auto& spec) { spec.memory_mib = 5; }), same);
  EXPECT_EQ(with([](auto& spec) { spec.environment["SEED"] = "7"; }), same);
  EXPECT_EQ(with([](auto& spec) { spec.workdir = "/tmp"; }), same) << "the model is known";
}

TEST(Signature, IncludesTheFolderIfThereIsNoSummary) {
  task::TaskSpec other = SpecOf("python train.py");
  other.workdir = "/home/ada/another";
  EXPECT_NE(Signature(other, 1000, ""), Signature(SpecOf("python train.py"), 1000, ""));
}

TEST(Signature, SplitsScriptsAndShellArgumentsIntoWords) {
  const auto script = [](const std::string& text) {
    task::TaskSpec spec = SpecOf("");
    spec.script = text;
    return Signature(spec, 1000, "m");
  };
  EXPECT_EQ(script("#!/bin/sh\n# first\npython train.py --seed 1\n"),
            script("#!/bin/sh\n\n# second\npython train.py --seed 2\n"));
  EXPECT_NE(script("#!/bin/sh\npython train.py --width 1\n"),
            script("#!/bin/sh\npython train.py --width 2\n"));
  task::TaskSpec one = SpecOf("/bin/sh -c"), two = one;
  one.command.emplace_back("python train.py --seed 1");
  two.command.emplace_back("python train.py --seed 2");
  EXPECT_EQ(Signature(one, 1000, "m"), Signature(two, 1000, "m"));
}

TEST(Signature, KinIdentifiesTheProgram) {
  const std::string kin = Kin(SpecOf("python train.py --layers 12"), 1000);
  EXPECT_EQ(Kin(SpecOf("python -u /tmp/train.py --layers 24 x"), 1000), kin);
  EXPECT_EQ(Kin(SpecOf("torchrun --nproc_per_node 2 train.py"), 1000), kin);
  EXPECT_NE(Kin(SpecOf("python other.py"), 1000), kin);
  EXPECT_NE(Kin(SpecOf("python train.py"), 1001), kin);
  EXPECT_EQ(Kin(SpecOf("python -m lab.train --x 1"), 1000),
            Kin(SpecOf("python3 -m lab.train"), 1000));
  EXPECT_EQ(Kin(SpecOf("/opt/a/train --x 1"), 1000), Kin(SpecOf("train --y 2"), 1000));
  EXPECT_NE(Kin(SpecOf("bash a.sh"), 1000), Kin(SpecOf("bash b.sh"), 1000));
}

TEST(Signature, KindFitsTheStore) {
  const std::string one = Signature(SpecOf("python train.py --layers 12"), 1000, "");
  EXPECT_EQ(KindOf(one), KindOf(std::string(one)));
  EXPECT_NE(KindOf(one), KindOf(Signature(SpecOf("python train.py --layers 24"), 1000, "")));
  EXPECT_NE(KindOf(one), KindOf(Signature(SpecOf("python train.py --layers 12"), 1001, "")));
  EXPECT_NE(KindOf(""), core::KindId{});
  EXPECT_LT(core::Number(KindOf(one)), std::uint64_t{1} << 63);
}

TEST(Fingerprint, DependsOnTheStructure) {
  model::LayerList list;
  model::Layer layer;
  layer.type = "Linear";
  layer.name = "fc";
  layer.params = 10;
  ASSERT_TRUE(layer.out.Push(-1) && layer.out.Push(10));
  list.layers = {layer, layer};
  list.params = 20;
  const std::string print = Fingerprint(list);
  EXPECT_EQ(print.size(), 32U);
  const auto with = [&](auto change) {
    model::LayerList other = list;
    change(other);
    return Fingerprint(other);
  };
  EXPECT_EQ(with([](auto& l) { l.layers[0].name = "head"; }), print);
  EXPECT_EQ(with([](auto& l) { l.model = "another name"; }), print);
  EXPECT_EQ(with([](auto& l) { l.batch = 64; }), print);
  EXPECT_NE(with([](auto& l) { l.layers.pop_back(); }), print);
  EXPECT_NE(with([](auto& l) { l.layers[1].type = "Conv2d"; }), print);
  EXPECT_NE(with([](auto& l) { l.layers[1].dropout = 0.5; }), print);
  EXPECT_NE(with([](auto& l) { std::ignore = l.layers[1].out.Push(2); }), print);
  EXPECT_NE(with([](auto& l) { l.saved = model::SavedBytes{100, 0}; }), print);
}

TEST(Fingerprint, DistinguishesKindsOfBlocks) {
  const auto mamba = [](int states) {
    const auto config = ParseTransformerConfig(
        fmt::format(R"({{"model_type":"mamba","num_hidden_layers":2,"hidden_size":64,)"
                    R"("vocab_size":100,"state_size":{}}})",
                    states),
        "c");
    return config ? Fingerprint(*config) : config.error().message;
  };
  EXPECT_EQ(mamba(16), mamba(16));
  EXPECT_NE(mamba(16), mamba(64));
}

}  // namespace
}  // namespace carma::estimate
