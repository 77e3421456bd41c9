#include "estimate/recipe/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carma::estimate {
namespace {

using ::testing::EndsWith;

std::string SettingsIn(std::string_view text) {
  std::string told;
  for (const Setting& each : ReadPythonText(text, "t.py"))
    told += each.from + " " + each.key + "=" + each.value + "\n";
  return told;
}

TEST(PythonText, ReadsTheTokenizersMaximum) {
  EXPECT_EQ(SettingsIn("tok = AutoTokenizer.from_pretrained('m', model_max_length=512)\n"
                       "batch = self.tokenizer(texts, truncation=True, max_length=128)\n"
                       "ids = tokenizer.encode_plus(text, max_length=64)\n"
                       "out = model.generate(ids, max_length=9)\n"
                       "ids = tok(text, max_length=32)\n"),
            "t.py:1 tokenizer.max_length=512\nt.py:2 tokenizer.max_length=128\n"
            "t.py:3 tokenizer.max_length=64\nt.py:5 tokenizer.max_length=32\n");
}

TEST(PythonText, ReadsNamedArgumentsOfCalls) {
  EXPECT_EQ(
      SettingsIn(
          "MODEL = 'lab/small'  # of the hub\n"
          "LEN = 512\n"
          "tok = AutoTokenizer.from_pretrained(MODEL, max_length=9)\n"
          "model = AutoModelForCausalLM.from_pretrained(\n"
          "    MODEL, torch_dtype=torch.bfloat16,\n"
          "    quantization_config=BitsAndBytesConfig(load_in_4bit=True))\n"
          "model.gradient_checkpointing_enable()\n"
          "peft = LoraConfig(r=8, lora_dropout=0.05, target_modules=['q_proj', \"v_proj\"])\n"
          "args = SFTConfig(max_length=LEN, per_device_train_batch_size=args.batch,\n"
          "                 learning_rate=2e-4, bf16=True, output_dir=f'{x}/y')\n"),
      "t.py:4 model_name_or_path=lab/small\nt.py:5 torch_dtype=torch.bfloat16\n"
      "t.py:6 quantization_config=?\nt.py:6 load_in_4bit=True\nt.py:7 gradient_checkpointing=true\n"
      "t.py:8 lora_r=8\nt.py:8 lora_dropout=0.05\n"
      "t.py:8 lora_target_modules=q_proj,v_proj\n"
      "t.py:9 trainer_kind=sft\nt.py:9 max_length=512\n"
      "t.py:9 per_device_train_batch_size=?\nt.py:10 learning_rate=2e-4\nt.py:10 bf16=True\n"
      "t.py:10 output_dir=?\n");
}

TEST(PythonText, ReadsModelsOfAnyClass) {
  EXPECT_EQ(SettingsIn("m = WhisperForConditionalGeneration.from_pretrained('lab/small')\n"
                       "p = WhisperProcessor.from_pretrained('lab/other')\n"),
            "t.py:1 model_name_or_path=lab/small\n");
}

TEST(PythonText, RecognisesClassifiers) {
  EXPECT_EQ(SettingsIn("m = BertForTokenClassification.from_pretrained('lab/small')\n"),
            "t.py:1 class_head=true\nt.py:1 model_name_or_path=lab/small\n");
}

TEST(PythonText, ReadsDefaultsOfArguments) {
  EXPECT_EQ(SettingsIn("p.add_argument('--max-len', '-l', type=int, default=256, help='x (y')\n"
                       "p.add_argument('--lr', default=1e-3)\np.add_argument('--m', default=None)\n"
                       "p.add_argument('-l', '--lora', action='store_true')\n"
                       "p.add_argument('--q', action='store_true', default=True)\n"
                       "p.add_argument('file', default='--x')\n"),
            "t.py:1 max-len=256\nt.py:2 lr=1e-3\nt.py:4 lora=False\nt.py:5 q=True\n");
}

TEST(PythonText, ReadsDefaultsOfFieldsAndParameters) {
  EXPECT_EQ(SettingsIn("@dataclass\nclass A:\n"
                       "  model_name_or_path: Optional[str] = field(\n"
                       "      default='lab/small', metadata={'default': 'x'})\n"
                       "  max_len: int = 256  # tokens\n"
                       "  rank: int | None = None\n"
                       "  more: list[str] = field(default_factory=list)\n"
                       "def fit(\n    batch_size: int = 4,\n    x: int, y: int = 2,\n): pass\n"
                       "LEN: Final = 64\nLoraConfig(r=LEN)\n"
                       "d = {\n  b: 3,\n}\nif x: y = 4\nfor a in b[1:]: c = 5\n"),
            "t.py:3 model_name_or_path=lab/small\nt.py:5 max_len=256\nt.py:9 batch_size=4\n"
            "t.py:12 LEN=64\nt.py:13 lora_r=64\n");
}

TEST(PythonText, ArgumentsOfCallsAreNotVariables) {
  EXPECT_EQ(SettingsIn("R = 4\ng(\n  R=9)\nLoraConfig(r=R)\n"), "t.py:4 lora_r=4\n");
}

TEST(PythonText, AnIfOnTheNextLineIsAStatement) {
  EXPECT_EQ(SettingsIn("R = 4\nif large:\n  LoraConfig(r=R)\n"), "t.py:3 lora_r=4\n");
}

TEST(PythonText, ArgumentsThatAreNotLiteralsAreUnknown) {
  for (const char* text :
       {"LoraConfig(r=x)", "LoraConfig(r=4 * 2)", "LoraConfig(r=4 - 2)",
        "R = 4\nLoraConfig(r=R * 2)", "R = 4\nR = R * 2\nLoraConfig(r=R)",
        "R = 4\nR = f(R)\nLoraConfig(r=R)", "LoraConfig(r=4 if small else 8)",
        "R = 4 if small else 8\nLoraConfig(r=R)", "R = 4\nR = 8 if large else 6\nLoraConfig(r=R)",
        "R = 4\nR *= 2\nLoraConfig(r=R)", "R = 4\nR <<= 1\nLoraConfig(r=R)",
        "LoraConfig(r=1 << 3)"}) {
    EXPECT_THAT(SettingsIn(text), EndsWith(" lora_r=?\n")) << text;
  }
  for (const char* text : {"LoraConfig(target_modules=['a'] if x else y)",
                           "LoraConfig(target_modules=['a'] + more)"}) {
    EXPECT_EQ(SettingsIn(text), "t.py:1 lora_target_modules=?\n") << text;
  }
}

TEST(PythonText, IgnoresEverythingElse) {
  for (const char* text :
       {"\"\"\"\nLoraConfig(r=8)\n\"\"\"", "# LoraConfig(r=8)", "def f(r=8): pass",
        "def f(r: int = 8): pass", "print('LoraConfig(r=8)')", "LoraConfig(r==8)", "LoraConfig(",
        "from_pretrained", "'open", "x = [1, 2", "x:", "x: int ="}) {
    EXPECT_EQ(SettingsIn(text), "") << text;
  }
}

}  // namespace
}  // namespace carma::estimate
