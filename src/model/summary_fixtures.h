// Small summaries of every format, written for the tests.
#pragma once

#include <string_view>

namespace carma::model {

inline constexpr std::string_view kTorchSummaryText = R"(
----------------------------------------------------------------
        Layer (type)               Output Shape         Param #
================================================================
            Conv2d-1            [-1, 8, 30, 30]             224
       BatchNorm2d-2            [-1, 8, 30, 30]              16
              ReLU-3            [-1, 8, 30, 30]               0
       ConvNormAct-4            [-1, 8, 30, 30]               0
           Flatten-5                 [-1, 7200]               0
            Linear-6                   [-1, 10]          72,010
================================================================
Total params: 72,250
Trainable params: 72,250
Non-trainable params: 0
----------------------------------------------------------------
Input size (MB): 0.01
Forward/backward pass size (MB): 0.28
Params size (MB): 0.28
Estimated Total Size (MB): 0.56
----------------------------------------------------------------
)";

inline constexpr std::string_view kTorchSummaryBatchText = R"(Using cuda:0
----------------------------------------------------------------
        Layer (type)               Output Shape         Param #
================================================================
            Linear-1                   [16, 64]             640
              ReLU-2                   [16, 64]               0
            Linear-3           [[16, 5], [16, 2]]           325
================================================================
Total params: 965
Trainable params: 325
Non-trainable params: 640
----------------------------------------------------------------
)";

// Windows of 4 per sample at batch 6, a table that ignores the batch, an inner module called twice.
inline constexpr std::string_view kTorchInfoText =
    R"(==========================================================================================
Layer (type (var_name):depth-idx)        Kernel Shape   Input Shape      Output Shape     Param #   Mult-Adds
==========================================================================================
Net                                      --             [6, 3, 16, 16]   [6, 10]          --        --
├─Sequential (stem): 1-1                 --             [6, 3, 16, 16]   [6, 8, 8, 8]     --        --
│    └─Conv2d (0): 2-1                   [3, 3]         [6, 3, 16, 16]   [6, 8, 8, 8]     216       82,944
│    └─MaxPool2d (1): 2-2                2              [6, 8, 8, 8]     [6, 8, 8, 8]     --        --
├─Windows (win): 1-2                     --             [6, 8, 8, 8]     [6, 8, 8, 8]     32        --
│    └─Linear (proj): 2-3                --             [24, 16, 8]      [24, 16, 8]      (72)      1,728
│    └─Linear (proj): 2-4                --             [24, 16, 8]      [24, 16, 8]      (recursive) 1,728
├─EmbeddingBag (table): 1-3              --             [17]             [6, 4]           40        --
├─ModuleList (unused): 1-4               --             --               --               --        --
├─Linear (head): 1-5                     --             [6, 512]         [6, 10]          5,130     30,780
==========================================================================================
Total params: 5,490
Trainable params: 5,418
Non-trainable params: 72
Total mult-adds (Units.MEGABYTES): 0.12
==========================================================================================
Input size (MB): 0.02
Forward/backward pass size (MB): 0.10
Params size (MB): 0.02
Estimated Total Size (MB): 0.14
==========================================================================================
)";

// Depth 2 of a deeper model, output shapes only.
inline constexpr std::string_view kCollapsedText =
    R"(=================================================================
Layer (type:depth-idx)                   Output Shape              Param #
=================================================================
Net                                      [2, 5]                    --
├─Sequential: 1-1                        [2, 16, 8, 8]             --
│    └─BasicBlock: 2-1                   [2, 16, 8, 8]             4,672
│    └─BasicBlock: 2-2                   [2, 16, 8, 8]             4,672
│    └─LayerScale: 2-3                   [2, 16, 8, 8]             16
│    └─StdConv2dSame: 2-4                [2, 16, 8, 8]             2,304
├─Linear: 1-2                            [2, 5]                    5,125
=================================================================
Total params: 20,000
Trainable params: 20,000
Non-trainable params: 0
=================================================================
)";

// A language model whose output layer is its word table; the totals are made up.
inline constexpr std::string_view kTreeText = R"(TinyLM(
  (wte): Embedding(100, 8), 800 params
  (drop): Dropout(p=0.1, inplace=False), 0 params
  (h): ModuleList(
    (0): Block(
      (ln_1): LayerNorm((8,), eps=1e-05, elementwise_affine=True), 16 params
      (attn): Attention(
        (c_attn): Conv1D(), 216 params
        (c_proj): Conv1D(), 72 params
      ), 292 params
      (act): ReLU(inplace=True), 0 params
    ), 308 params
  ), 308 params
  (lm_head): LMHead(
    (decoder): Linear(in_features=8, out_features=100, bias=True), 900 params
  ), 1,000 params
), 2,108 params
=======================================================================
Total params: 9,999
Trainable params: 9,999
Non-trainable params: 0
-----------------------------------------------------------------------
)";

// print(model): the numbers of parameters follow from the constructors.
inline constexpr std::string_view kPlainTreeText = R"(Net(
  (conv): Conv2d(3, 16, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)
  (bn): BatchNorm2d(16, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)
  (dw): Conv2d(16, 16, kernel_size=(5, 5), groups=16)
  (rnn): LSTM(16, 32, num_layers=2, batch_first=True, bidirectional=True)
  (layers): ModuleList(
    (0-2): 3 x EncoderLayer(
      (self_attn): MultiheadAttention(
        (out_proj): NonDynamicallyQuantizableLinear(in_features=64, out_features=64, bias=True)
      )
      (norm): LayerNorm((64,), eps=1e-05, elementwise_affine=True)
      (odd): Quirk(7, mode='x')
    )
  )
  (fc): Linear(in_features=64, out_features=10, bias=True)
)
)";

inline constexpr std::string_view kKeras2Text = R"(Model: "resnet_small"
__________________________________________________________________________________________________
 Layer (type)                   Output Shape         Param #     Connected to
==================================================================================================
 input_1 (InputLayer)           [(None, 32, 32, 3)]  0           []

 conv1 (Conv2D)                 (None, 30, 30, 8)    224         ['input_1[0][0]']

 a_very_long_name_bn (BatchNorm  (None, 30, 30, 8)   32          ['conv1[0][0]']
 alization)

 act_relu (Activation)          (None, 30, 30, 8)    0           ['a_very_long_name_bn[0][0]']

 conv2 (Conv2D)                 (None, 30, 30, 8)    584         ['act_relu[0][0]']

 add (Add)                      (None, 30, 30, 8)    0           ['act_relu[0][0]',
                                                                  'conv2[0][0]']

 gap (GlobalAveragePooling2D)   (None, 8)            0           ['add[0][0]']

 fc (Dense)                     (None, 10)           90          ['gap[0][0]']

==================================================================================================
Total params: 930
Trainable params: 914
Non-trainable params: 16
__________________________________________________________________________________________________
)";

inline constexpr std::string_view kKeras3Text = R"(Model: "sequential"
┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━┓
┃ Layer (type)                         ┃ Output Shape                ┃         Param # ┃
┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━┩
│ backbone (Functional)                │ (None, 7, 7, 64)            │           9,000 │
├──────────────────────────────────────┼─────────────────────────────┼─────────────────┤
│ conv2d_with_a_long_name              │ (None, 5, 5, 16)            │           9,232 │
│ (Conv2D)                             │                             │                 │
├──────────────────────────────────────┼─────────────────────────────┼─────────────────┤
│ flatten (Flatten)                    │ (None, 400)                 │               0 │
├──────────────────────────────────────┼─────────────────────────────┼─────────────────┤
│ dense (Dense)                        │ (None, 10)                  │           4,010 │
└──────────────────────────────────────┴─────────────────────────────┴─────────────────┘
 Total params: 66,728 (260.66 KB)
 Trainable params: 22,242 (86.88 KB)
 Non-trainable params: 0 (0.00 B)
 Optimizer params: 44,486 (173.77 KB)
)";

// TensorFlow 1: names of types are cut off, rows are ruled.
inline constexpr std::string_view kKeras1Text =
    R"(_________________________________________________________________
Layer (type)                 Output Shape              Param #
=================================================================
conv2d_1 (Conv2D)            (None, 30, 30, 8)         224
_________________________________________________________________
batch_normalization_1 (Batch (None, 30, 30, 8)         32
_________________________________________________________________
embedding_1 (Embedding)      (None, None, 16)          1600
=================================================================
Total params: 1,856
Trainable params: 1,840
Non-trainable params: 16
_________________________________________________________________
)";

inline constexpr std::string_view kJsonText =
    R"({"model":"net","family":"cnn","arch":"uniform","input":[3,8,8],"output":[-1,10],"params":1234,
"trainable":1000,"param_tensors":4,"buffer_bytes":72,"batch":32,"optimizer":"adamw","precision":"amp",
"dropout":0.25,"saved_bytes_b2":300,"saved_bytes_b4":500,"config":{"ignored":[1,2]},
"layers":[["Conv2d",[-1,3,8,8],[-1,4,8,8],112,0,112,0,"conv",{"kernel":9}],
["Dropout",[-4,4],[-4,4],0,0,0,0,"drop",{"p":0.5}],
["ReLU",[-1,4,8,8],[-1,4,8,8],0,1],
["Block",[],[],8,0,0,1,"block"],
["Linear",[-1,256],[-1,10],1114]]}
)";

struct Fixture {
  const char* name;
  std::string_view text;
};
inline constexpr Fixture kFixtures[] = {
    {"torchsummary", kTorchSummaryText},
    {"torchsummary_batch", kTorchSummaryBatchText},
    {"torchinfo", kTorchInfoText},
    {"torchinfo_collapsed", kCollapsedText},
    {"tree", kTreeText},
    {"tree_plain", kPlainTreeText},
    {"keras1", kKeras1Text},
    {"keras2", kKeras2Text},
    {"keras3", kKeras3Text},
    {"json", kJsonText},
};

}  // namespace carma::model
