#include "model/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/file.h"
#include "test_paths.h"

namespace carma::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Small summaries in every format. They are also the fuzzer's initial inputs.
std::string Fixture(const std::string& name) {
  const auto text =
      base::ReadFile(std::string(CARMA_SOURCE_DIR) + "/fuzz/corpus/summary/" + name, 1 << 20);
  EXPECT_TRUE(text) << text.error().message;
  return text.value_or("");
}
constexpr const char* kFixtures[] = {"torchsummary", "torchsummary_batch",
                                     "torchinfo",    "torchinfo_collapsed",
                                     "tree",         "tree_plain",
                                     "keras1",       "keras2",
                                     "keras3",       "json"};

Shape S(std::initializer_list<std::int64_t> dimensions) {
  Shape shape;
  for (const std::int64_t dimension : dimensions) shape.Push(dimension);
  return shape;
}

LayerList Parse(std::string_view text) {
  auto list = ParseSummary(text, "model.txt");
  EXPECT_TRUE(list) << list.error().message;
  return list.value_or(LayerList());
}

std::string Error(std::string_view text) {
  const auto list = ParseSummary(text, "model.txt");
  EXPECT_FALSE(list);
  return list ? "" : list.error().message;
}

std::vector<std::string> Each(const LayerList& list, std::string Layer::*member) {
  std::vector<std::string> values(list.layers.size());
  std::ranges::transform(list.layers, values.begin(), member);
  return values;
}
std::vector<std::string> Types(const LayerList& list) {
  return Each(list, &Layer::type);
}
std::vector<std::string> Paths(const LayerList& list) {
  return Each(list, &Layer::name);
}

const Layer& Row(const LayerList& list, std::string_view type) {
  const auto found = std::ranges::find(list.layers, type, &Layer::type);
  EXPECT_NE(found, list.layers.end()) << type;
  static const Layer kNone;
  return found == list.layers.end() ? kNone : *found;
}

std::string Notes(const LayerList& list, Note::Kind kind) {
  std::string text;
  for (const Note& note : list.notes) {
    if (note.kind == kind) text += note.text + "\n";
  }
  return text;
}

std::string Replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string changed(text);
  const std::size_t at = changed.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return changed.replace(at, from.size(), to);
}

TEST(Summary, RecognisesEveryFormatByItsText) {
  const struct {
    std::string text;
    std::size_t layers;
    std::int64_t params;
    std::int64_t trainable;
    SummaryFormat format;
    bool input_shapes;
  } cases[] = {
      {Fixture("torchsummary"), 6, 72'250, 72'250, SummaryFormat::kTorchSummary, false},
      {Fixture("torchsummary_batch"), 3, 965, 325, SummaryFormat::kTorchSummary, false},
      {Fixture("torchinfo"), 10, 5'490, 5'418, SummaryFormat::kTorchInfo, true},
      {Fixture("torchinfo_collapsed"), 7, 20'000, 20'000, SummaryFormat::kTorchInfo, false},
      {Fixture("tree"), 12, 1'208, 1'208, SummaryFormat::kTorchTree, false},
      // The parameters are 432 + 32 + 416 + 37'888 (LSTM) + 3 x (12'480 + 4'160 + 128) + 650.
      {Fixture("tree_plain"), 22, 89'722, 89'722, SummaryFormat::kTorchTree, false},
      {Fixture("keras1"), 3, 1'840, 1'840, SummaryFormat::kKeras, true},
      {Fixture("keras2"), 7, 914, 914, SummaryFormat::kKeras, true},
      {Fixture("keras3"), 4, 22'242, 22'242, SummaryFormat::kKeras, true},
      {Fixture("json"), 5, 1'234, 1'000, SummaryFormat::kCarmaJson, true},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text.substr(0, 200));
    const LayerList list = Parse(c.text);
    EXPECT_EQ(list.format, c.format);
    EXPECT_EQ(list.layers.size(), c.layers);
    EXPECT_EQ(list.params, c.params);
    EXPECT_EQ(list.trainable, c.trainable);
    EXPECT_EQ(list.has_input_shapes, c.input_shapes);
  }
}

TEST(TorchSummary, NotesThatRowsHaveNoInputs) {
  const LayerList list = Parse(Fixture("torchsummary"));
  EXPECT_THAT(Types(list),
              ElementsAre("Conv2d", "BatchNorm2d", "ReLU", "ConvNormAct", "Flatten", "Linear"));
  EXPECT_EQ(list.layers[0].out, S({-1, 8, 30, 30}));
  EXPECT_EQ(list.layers[0].kind, RowKind::kUnknown);
  EXPECT_EQ(list.output, S({-1, 10}));
  EXPECT_FALSE(list.batch);
  EXPECT_THAT(Notes(list, Note::Kind::kMissingShapes), HasSubstr("first dimension"));
}

TEST(TorchSummary, ReplacesThePrintedBatch) {
  const LayerList list = Parse(Fixture("torchsummary_batch"));
  EXPECT_EQ(list.batch, 16);
  EXPECT_EQ(list.layers[0].out, S({-1, 64}));
  EXPECT_EQ(list.layers[2].out, S({-1, 5})) << "the first of several outputs";
  EXPECT_THAT(Notes(list, Note::Kind::kInferred), HasSubstr("batch of 16"));
  EXPECT_THAT(Notes(list, Note::Kind::kInferred), HasSubstr("640 of 965 parameters"));
  EXPECT_THAT(Notes(list, Note::Kind::kOther),
              HasSubstr("lines ignored before or after the summary: 1"));
}

TEST(TorchSummary, NotesTotalsThatContradictTheRows) {
  const LayerList more =
      Parse(Replaced(Fixture("torchsummary"), "params: 72,250", "params: 99,999"));
  EXPECT_EQ(more.params, 99'999);
  EXPECT_THAT(Notes(more, Note::Kind::kFooter), HasSubstr("99999"));
  const LayerList fewer = Parse(Replaced(Fixture("torchsummary"), "params: 72,250", "params: 1"));
  EXPECT_EQ(fewer.params, 72'250);
  const LayerList none =
      Parse(Fixture("torchsummary").substr(0, Fixture("torchsummary").find("Total params")));
  EXPECT_EQ(none.params, 72'250);
  EXPECT_THAT(Notes(none, Note::Kind::kFooter), HasSubstr("no totals"));
}

TEST(TorchInfo, PutsParentsAfterTheirChildren) {
  const LayerList list = Parse(Fixture("torchinfo"));
  EXPECT_THAT(Paths(list), ElementsAre("stem.0", "stem.1", "stem", "win.proj", "win.proj", "win",
                                       "table", "unused", "head", ""));
  EXPECT_EQ(list.model, "Net");
  EXPECT_EQ(list.layers.back().kind, RowKind::kContainer);
  EXPECT_EQ(Row(list, "Windows").kind, RowKind::kBlock);
  EXPECT_EQ(Row(list, "Conv2d").kind, RowKind::kLeaf);
}

TEST(TorchInfo, ReplacesMatchingBatchesByMinusOne) {
  const LayerList list = Parse(Fixture("torchinfo"));
  EXPECT_EQ(list.batch, 6);
  EXPECT_EQ(list.input, S({3, 16, 16}));
  EXPECT_EQ(list.output, S({-1, 10}));
  EXPECT_EQ(Row(list, "Linear").out, S({-4, 16, 8})) << "four windows per sample";
  EXPECT_EQ(Row(list, "EmbeddingBag").in, S({17})) << "indices, not a multiple of the batch";
  EXPECT_EQ(Row(list, "EmbeddingBag").out, S({-1, 4}));
  EXPECT_THAT(Notes(list, Note::Kind::kInferred), HasSubstr("1 of 20 shapes do not fit"));
  EXPECT_THAT(Notes(list, Note::Kind::kInferred), HasSubstr("EmbeddingBag"));
}

TEST(TorchInfo, ReadsKernelsFrozenAndRepeatedRows) {
  const LayerList list = Parse(Fixture("torchinfo"));
  EXPECT_EQ(Row(list, "Conv2d").kernel, 9);
  EXPECT_FALSE(Row(list, "MaxPool2d").kernel);
  EXPECT_EQ(list.layers[3].params, 72);
  EXPECT_EQ(list.layers[3].trainable, 0) << "parentheses mean frozen";
  EXPECT_EQ(list.layers[4].params, 0) << "a repeated call";
  EXPECT_THAT(
      Notes(list, Note::Kind::kInferred),
      HasSubstr("rows for repeated calls to modules, whose parameters are counted only once: 1"));
  EXPECT_FALSE(list.collapsed);
}

TEST(TorchInfo, NotesBlocksWithHiddenContents) {
  const LayerList list = Parse(Fixture("torchinfo_collapsed"));
  EXPECT_TRUE(list.collapsed);
  const std::string note = Notes(list, Note::Kind::kCollapsed);
  EXPECT_THAT(note,
              HasSubstr("2 (BasicBlock), so the layers that have 9344 of the 20000 parameters are"))
      << "not the layer scale or the convolution";
  EXPECT_EQ(Row(list, "BasicBlock").kind, RowKind::kUnknown);
  EXPECT_EQ(Row(list, "StdConv2dSame").kind, RowKind::kLeaf);
  EXPECT_THAT(Notes(list, Note::Kind::kMissingShapes), HasSubstr("no input shapes"));
  EXPECT_THAT(Notes(list, Note::Kind::kUnknownLayer), HasSubstr("LayerScale"));
  EXPECT_THAT(Notes(list, Note::Kind::kFooter), HasSubstr("rows sum to 16789; using 20000"));
}

TEST(TorchInfo, TakesTheSizeOfAPassFromItsTotals) {
  const auto with = [](std::string_view line) {
    return Parse(Fixture("torchinfo_collapsed") + "Input size (MB): 0.01\n" + std::string(line) +
                 "\nParams size (MB): 0.08\n=====\n");
  };
  EXPECT_EQ(Parse(Fixture("torchinfo_collapsed")).pass_bytes, std::nullopt);
  EXPECT_EQ(with("Forward/backward pass size (MB): 38090.84").pass_bytes, 38'090.84e6);
  for (const char* line :
       {"Forward/backward pass size (MB): 0.00", "Forward/backward pass size (MB): -1",
        "Forward/backward pass size (MB): 1e300", "Forward/backward pass size (MB): much",
        "Forward/backward pass size"}) {
    EXPECT_EQ(with(line).pass_bytes, std::nullopt) << line;
  }
}

TEST(TorchInfo, ReadsAsciiTreesWithoutIndices) {
  const LayerList list = Parse(R"(=====================
Layer (type)     Output Shape   Param #
=====================
Net              [4, 2]         --
+ Sequential     [4, 2]         --
|    + Linear    [4, 2]         6
|    + ReLU      [4, 2]         --
=====================
Total params: 6
=====================
)");
  EXPECT_THAT(Types(list), ElementsAre("Linear", "ReLU", "Sequential", "Net"));
  EXPECT_EQ(list.batch, 4);
}

TEST(TorchInfo, SkipsTensorsInVerboseTables) {
  const LayerList list = Parse(R"(==================================
Layer (type:depth-idx)   Kernel Shape   Output Shape   Param #
==================================
├─Conv1d: 1-1            [4, 8, 3]      [2, 8, 10]     104
│    └─weight            [8, 4, 3]                     96
│    └─bias              [8]                           8
├─ParameterList: 1-2     --             --             30
│    └─0                 [5, 6]                        30
==================================
Total params: 134
==================================
)");
  EXPECT_THAT(Types(list), ElementsAre("Conv1d", "ParameterList"))
      << "early versions omit the model";
  EXPECT_EQ(list.layers[0].kernel, 3) << "the weight's last dimension";
  EXPECT_EQ(list.params, 134);
  EXPECT_FALSE(list.collapsed);
}

TEST(TorchTree, CountsATiedOutputLayerOnce) {
  const LayerList list = Parse(Fixture("tree"));
  // The tree's last line states 2108 parameters. It counts the word table (800) and the output
  // layer's bias (100) twice.
  EXPECT_EQ(list.params, 1'208);
  EXPECT_THAT(Notes(list, Note::Kind::kInferred), HasSubstr("lm_head.decoder is the same size as"));
  EXPECT_THAT(Notes(list, Note::Kind::kFooter), HasSubstr("the totals state 9999"));
  EXPECT_EQ(Row(list, "LMHead").kind, RowKind::kBlock);
  const LayerList untied =
      Parse(Replaced(Fixture("tree"), "Embedding(100, 8)", "Embedding(80, 10)"));
  EXPECT_EQ(untied.params, 2'108);
}

TEST(TorchTree, InfersWidthsFromConstructorsButNoShapes) {
  const LayerList list = Parse(Fixture("tree"));
  EXPECT_TRUE(std::ranges::all_of(list.layers, [](const Layer& l) { return l.out.empty(); }));
  EXPECT_THAT(Notes(list, Note::Kind::kMissingShapes), HasSubstr("has no shapes"));
  EXPECT_EQ(Row(list, "Embedding").in_features, 100);
  EXPECT_EQ(Row(list, "Embedding").out_features, 8);
  EXPECT_EQ(Row(list, "LayerNorm").in_features, 8);
  EXPECT_EQ(Row(list, "Dropout").dropout, 0.1);
  EXPECT_TRUE(Row(list, "ReLU").inplace);
  EXPECT_EQ(list.layers[3].name, "h.0.attn.c_attn");
  EXPECT_EQ(list.layers[3].in_features, 8);
  EXPECT_EQ(list.layers[3].out_features, 24) << "216 = 24 x (8 + 1)";
  EXPECT_EQ(list.layers[4].in_features, 8) << "72 is not a multiple of 24 + 1 but of 8 + 1";
  EXPECT_EQ(list.layers[5].params, 4) << "the block's own: 292 minus 216 and 72";
}

TEST(TorchTree, DerivesParametersFromConstructors) {
  const LayerList list = Parse(Fixture("tree_plain"));
  EXPECT_EQ(list.layers[0].params, 432);
  EXPECT_EQ(list.layers[0].kernel, 9);
  EXPECT_EQ(list.layers[1].params, 32);
  EXPECT_EQ(list.layers[2].params, 416) << "depthwise: 16 x 25 + 16";
  // Two layers, each in both directions: 2 x 4 x 32 x (16 + 32 + 2) and 2 x 4 x 32 x (64 + 32 + 2).
  EXPECT_EQ(list.layers[3].params, 37'888);
  EXPECT_EQ(Row(list, "MultiheadAttention").params, 3 * 64 * 64 + 3 * 64);
  EXPECT_THAT(Notes(list, Note::Kind::kInferred), HasSubstr("no parameter counts are printed"));
  EXPECT_THAT(Notes(list, Note::Kind::kUnknownLayer), HasSubstr("Quirk"));
}

TEST(TorchTree, RepeatsModulesPrintedOnce) {
  const LayerList list = Parse(Fixture("tree_plain"));
  const auto names = Paths(list);
  for (const char* name : {"layers.0.norm", "layers.1.norm", "layers.2", "layers.2.self_attn"})
    EXPECT_EQ(std::ranges::count(names, name), 1) << name;
  EXPECT_EQ(names.back(), "");
}

TEST(TorchTree, ReadsASingleModule) {
  const LayerList list = Parse("Linear(in_features=4, out_features=2, bias=True)\n");
  EXPECT_EQ(list.params, 10);
  EXPECT_EQ(list.layers.size(), 1U);
}

TEST(Keras, GetsPyTorchNamesAndChannelsFirst) {
  const LayerList list = Parse(Fixture("keras2"));
  EXPECT_EQ(list.model, "resnet_small");
  EXPECT_THAT(Types(list), ElementsAre("Conv2d", "BatchNorm2d", "ReLU", "Conv2d", "Add",
                                       "AdaptiveAvgPool2d", "Linear"));
  EXPECT_EQ(list.input, S({3, 32, 32}));
  EXPECT_EQ(list.layers[0].in, S({-1, 3, 32, 32}));
  EXPECT_EQ(list.layers[0].out, S({-1, 8, 30, 30}));
  EXPECT_EQ(list.layers[3].in, S({-1, 8, 30, 30})) << "from its connection";
  EXPECT_EQ(Row(list, "Add").kind, RowKind::kContainer) << "functional";
  EXPECT_THAT(Notes(list, Note::Kind::kInferred), HasSubstr("channels"));
}

TEST(Keras, CountsMovingStatisticsAsBuffers) {
  const LayerList list = Parse(Fixture("keras2"));
  EXPECT_EQ(Row(list, "BatchNorm2d").params, 16);
  EXPECT_EQ(list.buffer_bytes, 64);
  EXPECT_EQ(Notes(list, Note::Kind::kFooter), "");
}

TEST(Keras, IsNotMistakenForTorchSummary) {
  const LayerList list = Parse(Replaced(Replaced(Fixture("keras2"), "'input_1[0]", "'in-1[0]"),
                                        "input_1 (InputLayer)", "in-1 (InputLayer)   "));
  EXPECT_EQ(list.format, SummaryFormat::kKeras);
  EXPECT_EQ(list.layers[0].in, S({-1, 3, 32, 32}));
}

TEST(Keras, RecognisesChannelsFirst) {
  std::string text = Fixture("keras2");
  for (std::size_t at = 0; (at = text.find("(None, 30, 30, 8)", at)) != std::string::npos;)
    text.replace(at, 17, "(None, 8, 30, 30)");
  EXPECT_EQ(Parse(text).layers[0].out, S({-1, 8, 30, 30}));
}

TEST(Keras, ReadsBoxesWithWrappedCells) {
  const LayerList list = Parse(Fixture("keras3"));
  EXPECT_EQ(list.layers[1].name, "conv2d_with_a_long_name");
  EXPECT_EQ(list.layers[1].type, "Conv2d");
  EXPECT_EQ(list.layers[1].in, S({-1, 64, 7, 7})) << "a model without connections is a chain";
  EXPECT_TRUE(list.collapsed);
  EXPECT_THAT(Notes(list, Note::Kind::kCollapsed), HasSubstr("Functional"));
  EXPECT_EQ(Notes(list, Note::Kind::kFooter), "") << "the optimizer's numbers are not parameters";
}

TEST(Keras, CompletesTruncatedTypes) {
  const LayerList list = Parse(Fixture("keras1"));
  EXPECT_EQ(list.layers[1].type, "BatchNorm2d");
  EXPECT_THAT(Notes(list, Note::Kind::kInferred), HasSubstr("truncated"));
  EXPECT_TRUE(list.layers[2].out.empty()) << "an unknown length";
  EXPECT_THAT(Notes(list, Note::Kind::kMissingShapes), HasSubstr("1 of 3 layers"));
}

TEST(Keras, CountsTheLayersOfANestedModelOnce) {
  const LayerList list = Parse(R"(Model: "model"
_______________________________________________________________
 Layer (type)                Output Shape     Param #   Trainable
===============================================================
 body (Functional)           (None, 10)       120       Y
|¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯|
| hidden (Dense)            (None, 10)       120       N     |
¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯
 head (Dense)                (None, 2)        22        Y
===============================================================
Total params: 142
Trainable params: 22
Non-trainable params: 120
)");
  EXPECT_THAT(Types(list), ElementsAre("Linear", "Functional", "Linear"));
  EXPECT_EQ(list.layers[1].kind, RowKind::kContainer);
  EXPECT_EQ(list.layers[0].out, S({-1, 10}));
  EXPECT_EQ(list.layers[0].trainable, 0);
  EXPECT_EQ(list.layers[2].trainable, 22);
  EXPECT_EQ(list.params, 142);
  EXPECT_EQ(list.trainable, 22);
  EXPECT_FALSE(list.collapsed);
}

TEST(CarmaJson, ReadsEveryKey) {
  const LayerList list = Parse(Fixture("json"));
  EXPECT_EQ(list.model, "net");
  EXPECT_EQ(list.family, "cnn");
  EXPECT_EQ(list.arch, "uniform");
  EXPECT_EQ(list.input, S({3, 8, 8}));
  EXPECT_EQ(list.output, S({-1, 10}));
  EXPECT_EQ(list.param_tensors, 4);
  EXPECT_EQ(list.buffer_bytes, 72);
  EXPECT_EQ(list.batch, 32);
  EXPECT_EQ(list.optimizer, "adamw");
  EXPECT_EQ(list.precision, "amp");
  EXPECT_EQ(list.dropout, 0.25);
  EXPECT_EQ(list.saved, (SavedBytes{.per_sample = 100, .constant = 100}));
  const Layer conv{.type = "Conv2d",
                   .name = "conv",
                   .in = S({-1, 3, 8, 8}),
                   .out = S({-1, 4, 8, 8}),
                   .params = 112,
                   .trainable = 112,
                   .kernel = 9};
  EXPECT_EQ(list.layers[0], conv);
  EXPECT_EQ(list.layers[1].dropout, 0.5);
  EXPECT_EQ(list.layers[1].in, S({-4, 4}));
  EXPECT_TRUE(list.layers[2].inplace);
  EXPECT_EQ(list.layers[3].kind, RowKind::kBlock);
  EXPECT_EQ(list.layers[3].trainable, 0);
  EXPECT_EQ(list.layers[4].trainable, 1'114);
}

TEST(CarmaJson, SumsUnstatedParameters) {
  const LayerList list = Parse(R"({"layers":[["Linear",[-1,4],[-1,2],10]]})");
  EXPECT_EQ(list.params, 10);
  EXPECT_EQ(list.trainable, 10);
  EXPECT_THAT(Notes(list, Note::Kind::kInferred), HasSubstr("no 'params'"));
}

TEST(Summary, RefusesUnreadableText) {
  const struct {
    const char* name;
    std::string text;
    const char* expected;
  } cases[] = {
      {"nothing", "", "model.txt:1: no model summary found"},
      {"prose", "dear reader\n", "model.txt:1: no model summary found"},
      {"a NUL byte", std::string("a\nb\0c", 5), "model.txt:2: the line contains a NUL byte"},
      {"a malformed module on one line", "Linear(4, 2): 3)\n", "model.txt:1: 'Linear(4, 2): 3)'"},
      {"a very long line", "x\n" + std::string(70'000, 'y'),
       "model.txt:2: the line is 70000 bytes"},
      {"two formats", Fixture("torchsummary") + Fixture("tree"),
       "model.txt:21: a second summary (a printed module tree) after the first (torchsummary)"},
      {"two models", Fixture("tree") + Fixture("tree"), "a second summary"},
      {"a row of another format",
       Replaced(Fixture("torchsummary"), "              ReLU-3", "├─ReLU: 1-1"),
       "model.txt:7: '├─ReLU: 1-1"},
      {"a negative count", Replaced(Fixture("torchsummary"), "   224", "  -224"), "model.txt:5: "},
      {"an overflowing count", Replaced(Fixture("torchsummary"), "224", "99999999999999999999"),
       "model.txt:5: "},
      {"overflowing dimensions",
       Replaced(Fixture("torchsummary"), "[-1, 8, 30, 30]", "[-1, 99999999, 99999999]"),
       "model.txt:5: "},
      {"too many dimensions",
       Replaced(Fixture("torchsummary"), "[-1, 8, 30, 30]", "[-1, 1, 1, 1, 1, 1, 1, 1, 1]"),
       "model.txt:5: "},
      {"a negative dimension", Replaced(Fixture("torchsummary"), "[-1, 8, 30, 30]", "[-1, 8, -30]"),
       "model.txt:5: "},
      {"parameters whose sum overflows",
       Replaced(Replaced(Fixture("torchsummary"), "72,010", "281474976710656"), "224",
                "281474976710656"),
       "more than 2^48 parameters"},
      {"a table without an end",
       std::string(
           Fixture("torchsummary").substr(0, Fixture("torchsummary").find("       ConvNormAct"))),
       "ends without its closing line"},
      {"a tree without an end", Fixture("tree").substr(0, 300), "which begins on line"},
      {"a table without rows",
       Fixture("torchsummary").substr(0, Fixture("torchsummary").find("            Conv2d-1")) +
           "======\n",
       "no rows"},
      {"an orphan", Replaced(Fixture("torchinfo"), "│    └─Conv2d (0)", "│    │    └─Conv2d (0)"),
       "model.txt:6: a module at depth 3 has no parent"},
      {"a bad total",
       Replaced(Fixture("torchsummary"), "Total params: 72,250", "Total params: many"),
       "'many' after 'Total params:'"},
      {"a Keras row", Replaced(Fixture("keras2"), "(None, 10) ", "(nothing) "), "model.txt:21: "},
      {"many copies", Replaced(Fixture("tree_plain"), "3 x Enc", "99999999999999 x Enc"),
       "expand to more than 50000 layers"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const std::string error = Error(c.text);
    EXPECT_THAT(error, HasSubstr(c.expected));
    EXPECT_THAT(error, HasSubstr("model.txt:"));
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
}

TEST(CarmaJson, ReportsThePositionOfAMistake) {
  const struct {
    std::string text;
    const char* expected;
  } cases[] = {
      {"{", "model.txt: not JSON"},
      {R"({"layers":[]})", "/layers: expected at least one row"},
      {R"({"model":"x"})", "/layers: expected at least one row"},
      {R"({"layers":{}})", "/layers: expected a list"},
      {R"({"layers":[["Linear",[-1,4],[-1,2]]]})", "/layers/0: expected a row"},
      {R"({"layers":[["Linear",[-1,4],[-1,2],-1]]})", "/layers/0/3: expected a whole number"},
      {R"({"layers":[["Linear",[-1,4],[-1,2],1e3]]})", "/layers/0/3: expected a whole number"},
      {R"({"layers":[["Linear",[-1,4],[-1,"x"],1]]})", "/layers/0/2: expected a shape"},
      {R"({"layers":[["Linear",[-1,4],[9000000000,9000000000],1]]})", "/layers/0/2: expected a sh"},
      {R"({"layers":[[7,[-1,4],[-1,2],1]]})", "/layers/0/0: expected text"},
      {R"({"layers":[["Linear",[],[],1,0,2]]})",
       "/layers/0/5: expected a whole number from 0 to 1"},
      {R"({"layers":[["Linear",[],[],1,0,1,3]]})", "/layers/0/6: expected"},
      {R"({"layers":[["Linear",[],[],1,0,1,0,"a",{"p":2}]]})", "/layers/0/8/p: expected a number"},
      {R"({"layers":[["Linear",[],[],1,0,1,0,"a",{},1]]})", "/layers/0/9: expected at most 9"},
      {R"({"params":1,"params":1,"layers":[]})", "duplicate key 'params'"},
      {R"({"params":-1,"layers":[["Linear",[],[],1]]})", "/params: expected a whole number"},
      {R"({"saved_bytes":{"constant":-1},"layers":[]})", "/saved_bytes/constant: expected"},
      {R"({"held_bytes":7,"layers":[]})", "/held_bytes: expected an object"},
      {R"({"held_bytes":{"step":"x"},"layers":[]})", "/held_bytes/step: expected"},
      {R"({"saved_bytes_b2":5,"saved_bytes_b4":4,"layers":[["ReLU",[],[],0]]})",
       "/saved_bytes_b4: expected at least"},
      {R"({"layers":[["A",[],[],281474976710656],["A",[],[],281474976710656]]})",
       "/layers: expected at most 2^48"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text);
    EXPECT_THAT(Error(c.text), HasSubstr(c.expected));
  }
  EXPECT_THAT(Error("{\"x\":" + std::string(5'000, '[')), HasSubstr("nested deeper"));
}

TEST(Summary, StaysWithinItsLimits) {
  EXPECT_THAT(Error(std::string(kMaxSummaryBytes + 1, ' ')),
              HasSubstr("model.txt:1: the summary is"));
  std::string rows(
      Fixture("torchsummary").substr(0, Fixture("torchsummary").find("            Conv2d-1")));
  for (std::size_t i = 0; i <= kMaxLayers; ++i) rows += "ReLU-1 [-1, 4] 0\n";
  EXPECT_THAT(Error(rows), HasSubstr("more than 200000 layers"));
  std::string deep = "A(\n";
  for (int i = 0; i < 100; ++i) deep += "(a): A(\n";
  EXPECT_THAT(Error(deep), HasSubstr("nested deeper than 64 levels"));
  EXPECT_THAT(Error(std::string(kMaxSummaryBytes, '\n')), HasSubstr("more than 1000000 lines"));
}

// No matter where the text is truncated, the result is either a list within its limits or a
// one-line error with the file's name.
TEST(Summary, SurvivesEveryTruncation) {
  for (const char* name : kFixtures) {
    SCOPED_TRACE(name);
    const std::string fixture = Fixture(name);
    for (std::size_t size = 0; size <= fixture.size(); ++size) {
      const auto list = ParseSummary(std::string_view(fixture).substr(0, size), "model.txt");
      if (list) {
        EXPECT_FALSE(list->layers.empty());
        EXPECT_LE(list->trainable, list->params);
      } else {
        EXPECT_THAT(list.error().message, HasSubstr("model.txt:"));
        EXPECT_EQ(list.error().message.find('\n'), std::string::npos);
      }
    }
  }
}

TEST(Summary, AcceptsWindowsLineEndsAndAByteOrderMark) {
  for (const char* name : kFixtures) {
    SCOPED_TRACE(name);
    const std::string fixture = Fixture(name);
    std::string text = "\xEF\xBB\xBF";
    for (const char c : fixture) {
      if (c == '\n') text += '\r';
      text += c;
    }
    EXPECT_EQ(Parse(text), Parse(fixture));
  }
}

}  // namespace
}  // namespace carma::model
