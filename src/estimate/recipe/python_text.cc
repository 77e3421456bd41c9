#include "estimate/recipe/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/text.h"
#include "estimate/recipe/post_training.h"
#include "estimate/transformer_config.h"

namespace carma::estimate {
namespace {

constexpr std::array<std::string_view, 8> kCalls{
    "TrainingArguments", "Seq2SeqTrainingArguments", "SFTConfig",      "SFTTrainer",
    "LoraConfig",        "BitsAndBytesConfig",       "get_peft_model", "from_pretrained"};
// Maximum number of tokens in one call, including nested calls.
constexpr std::size_t kMaxCallTokens = 2'000;

bool IsNameLetter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

bool IsNumber(std::string_view text) {
  return !text.empty() && base::ParseDouble(text).has_value();
}

enum class Kind { kName, kText, kNumber, kSign, kEnd };
struct Token {
  Kind kind = Kind::kEnd;
  std::string_view text;  // without quotes if it is a string
  int line = 0;
};

std::vector<Token> TokensOf(std::string_view text) {
  std::vector<Token> tokens;
  int line = 1;
  std::size_t at = 0;
  const auto add = [&](Kind kind, std::size_t from, std::size_t size) {
    tokens.push_back({kind, text.substr(from, size), line});
  };
  while (at < text.size()) {
    const char c = text[at];
    if (c == '\n') {
      ++line;
      ++at;
    } else if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
    } else if (c == '"' || c == '\'') {
      const bool triple = text.substr(at, 3) == std::string(3, c);
      const std::size_t quotes = triple ? 3 : 1;
      std::size_t end = at + quotes;
      while (end < text.size() && text.substr(end, quotes) != std::string(quotes, c) &&
             (triple || text[end] != '\n'))
        end += text[end] == '\\' ? 2 : 1;
      end = std::min(end, text.size());
      add(Kind::kText, at + quotes, end - std::min(end, at + quotes));
      line += static_cast<int>(std::count(text.begin() + static_cast<std::ptrdiff_t>(at),
                                          text.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
      at = std::min(text.size(), end + (end < text.size() && text[end] == '\n' ? 0 : quotes));
    } else if (IsNameLetter(c)) {
      std::size_t end = at;
      while (end < text.size() &&
             (IsNameLetter(text[end]) ||
              ((text[end] == '-' || text[end] == '+') && text[end - 1] == 'e' &&
               IsNumber(text.substr(at, end - 1 - at)))))
        ++end;
      const std::string_view word = text.substr(at, end - at);
      add(IsNumber(word) ? Kind::kNumber : Kind::kName, at, end - at);
      at = end;
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      ++at;
    } else {
      add(Kind::kSign, at, 1);
      ++at;
    }
  }
  tokens.push_back({Kind::kEnd, {}, line});
  return tokens;
}

class PythonReader {
 public:
  PythonReader(std::string_view text, std::string_view where)
      : tokens_(TokensOf(text)), where_(where) {}

  std::vector<Setting> Read() {
    int depth = 0;
    for (std::size_t at = 0; at + 1 < tokens_.size() && settings_.size() < kMaxSettings; ++at) {
      if (IsOneOf(at, "([{")) ++depth;
      if (IsOneOf(at, ")]}")) depth = std::max(0, depth - 1);
      if (tokens_[at].kind != Kind::kName) continue;
      const std::string_view package = tokens_[at].text.substr(0, tokens_[at].text.find('.'));
      uses_engine_ = uses_engine_ || package == "vllm" || package == "sglang";
      // p.requires_grad = False, or model.bert.requires_grad_(False)
      if (tokens_[at].text.contains(".requires_grad") && IsOneOf(at + 1, "=(") &&
          tokens_[at + 2].text == "False")
        Emit("requires_grad", "False", tokens_[at].line);
      if (Is(at + 1, '(')) {
        ReadCall(tokens_[at].text, at + 1);
      } else if (Is(at + 1, ':') && (at == 0 || tokens_[at - 1].line < tokens_[at].line)) {
        ReadField(at);
      } else if (depth == 0 && Is(at + 1, '=') && !Is(at + 2, '=')) {
        if (IsTokenizer(tokens_[at + 2].text) && Is(at + 3, '('))
          tokenizers_.insert(tokens_[at].text);
        // Records variables with a literal value.
        if (auto value = ValueAt(at + 2)) {
          names_[std::string(tokens_[at].text)] = *std::move(value);
        } else {
          Forget(tokens_[at].text);
        }
      } else if (IsChanged(at)) {
        Forget(tokens_[at].text);
      }
    }
    return std::move(settings_);
  }

 private:
  bool Is(std::size_t at, char sign) const {
    return at < tokens_.size() && tokens_[at].kind == Kind::kSign && tokens_[at].text[0] == sign;
  }

  bool IsOneOf(std::size_t at, std::string_view signs) const {
    return std::ranges::any_of(signs, [&](char sign) { return Is(at, sign); });
  }
  // Returns true if an operator follows the token, which is then only part of an expression. An
  // "if" on the next line does not count, because it begins a statement.
  bool Continues(std::size_t at) const {
    if (IsOneOf(at + 1, "+-*/%<>|&^")) return true;
    return at + 1 < tokens_.size() && tokens_[at + 1].kind == Kind::kName &&
           tokens_[at + 1].text == "if" && tokens_[at + 1].line == tokens_[at].line;
  }
  // Returns true if the variable is changed in place: LEN *= 2 or LEN <<= 1.
  bool IsChanged(std::size_t at) const {
    if (Is(at + 2, '=')) return IsOneOf(at + 1, "+-*/%|&^");
    return Continues(at) && IsOneOf(at + 2, "*/<>") && Is(at + 3, '=');
  }
  void Forget(std::string_view name) {
    if (const auto known = names_.find(name); known != names_.end()) names_.erase(known);
  }

  static std::string_view LastName(std::string_view dotted) {
    return dotted.substr(dotted.rfind('.') + 1);
  }

  // The literal value at `at`, which ends at a comma, a bracket or a name on the next line. Empty
  // if the value is another kind of expression.
  std::optional<std::string> ValueAt(std::size_t at) const {
    const Token& token = tokens_[at];
    if (Is(at, '[') || Is(at, '(')) return ListAt(at);
    if (Continues(at)) return std::nullopt;
    if (token.kind == Kind::kText || token.kind == Kind::kNumber) return std::string(token.text);
    if (token.kind != Kind::kName) return std::nullopt;
    if (Is(at + 1, '(') || Is(at + 1, '[') || Is(at + 1, '.')) return std::nullopt;
    if (token.text == "True" || token.text == "False" || token.text == "None" ||
        token.text.starts_with("torch."))
      return std::string(token.text);
    const auto known = names_.find(token.text);
    return known == names_.end() ? std::nullopt : std::optional(known->second);
  }

  std::optional<std::string> ListAt(std::size_t at) const {
    constexpr std::size_t kMostItems = 100;
    std::vector<std::string> items;
    for (++at; at < tokens_.size() && items.size() < kMostItems; ++at) {
      if (Is(at, ']') || Is(at, ')'))
        return Continues(at) ? std::nullopt : std::optional(base::Join(items, ","));
      if (Is(at, ',')) continue;
      if (tokens_[at].kind != Kind::kText && tokens_[at].kind != Kind::kNumber) return std::nullopt;
      items.emplace_back(tokens_[at].text);
    }
    return std::nullopt;
  }

  void Emit(std::string key, std::string value, int line) {
    settings_.push_back({std::move(key), std::move(value), fmt::format("{}:{}", where_, line)});
  }

  // Reads a call "name(…)", starting at its opening parenthesis.
  void ReadCall(std::string_view dotted, std::size_t open) {
    const std::string_view name = LastName(dotted);
    const int line = tokens_[open].line;
    const std::string kind = TrainerKindOf(name);
    const bool configures = name.ends_with("Config") || name.ends_with("Trainer");
    if (configures && !kind.empty()) {
      Emit(std::string(kTrainerKind), kind, line);
      return ReadNamed(open, false);
    }
    if (name == "gradient_checkpointing_enable" || name == "prepare_model_for_kbit_training")
      return Emit("gradient_checkpointing", "true", line);
    if (name == "add_argument") return ReadArgument(open);
    if (IsTokenizer(dotted)) return ReadTokenizer(open, name == "from_pretrained");
    if (uses_engine_ && base::IsWordIn(" LLM EngineArgs AsyncEngineArgs Engine ", name)) {
      // The engine's model is not the one that the script trains.
      Emit(std::string(kEngine), "true", line);
      return ReadNamed(open, false,
                       " gpu_memory_utilization mem_fraction_static kv_cache_memory_bytes ");
    }
    if (std::ranges::find(kCalls, name) == kCalls.end()) return;
    // Only calls to a model's from_pretrained are relevant. Tokenizers and processors also have a
    // function with this name.
    const bool fetches = name == "from_pretrained";
    if (fetches && !dotted.contains("Model") && !dotted.contains("For")) return;
    // Only SFTConfig has TRL's defaults; SFTTrainer also accepts TrainingArguments.
    if (name == "SFTConfig") Emit(std::string(kTrainerKind), "sft", line);
    if (fetches && dotted.starts_with("Fast")) Emit(std::string(kUnsloth), "true", line);
    if (fetches) {
      if (IsClassifier(dotted)) Emit("class_head", "true", line);
      const auto model = ValueAt(open + 1);
      if (model && !Is(open + 2, '=')) Emit("model_name_or_path", *model, line);
    }
    ReadNamed(open, name == "LoraConfig" || name == "get_peft_model");
  }

  // Returns true if the call creates or runs a tokenizer: tokenizer(texts, max_length=128) or
  // AutoTokenizer.from_pretrained(…, model_max_length=128).
  bool IsTokenizer(std::string_view dotted) const {
    const std::string name = base::ToLower(dotted);
    return tokenizers_.contains(dotted) || name.contains("tokenizer") ||
           name.ends_with("encode_plus");
  }
  void ReadTokenizer(std::size_t open, bool fetches) {
    const std::size_t before = settings_.size();
    ReadNamed(open, false, fetches ? " model_max_length " : " max_length ");
    for (std::size_t i = before; i < settings_.size();) {
      Setting& each = settings_[i];
      if (base::ParseInt(each.value)) {
        each.key = "tokenizer.max_length";
        ++i;
      } else {
        settings_.erase(settings_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }

  std::size_t CallEnd(std::size_t open) const {
    return std::min(open + kMaxCallTokens, tokens_.size() - 2);
  }

  // Reads the named arguments of a call, but not those of nested calls. only: names in the format
  // of IsWordIn; empty: all.
  void ReadNamed(std::size_t open, bool adapter, std::string_view only = "") {
    int depth = 0;
    for (std::size_t at = open; at < CallEnd(open); ++at) {
      if (IsOneOf(at, "([{")) ++depth;
      if (IsOneOf(at, ")]}") && --depth == 0) return;
      // TRL accepts a dictionary of model-loading arguments.
      if (depth == 2 && tokens_[at].kind == Kind::kText && tokens_[at].text.ends_with("dtype") &&
          Is(at + 1, ':') && only.empty()) {
        if (const auto value = ValueAt(at + 2)) Emit("torch_dtype", *value, tokens_[at].line);
      }
      const bool named = depth == 1 && tokens_[at].kind == Kind::kName && Is(at + 1, '=') &&
                         !Is(at + 2, '=') && settings_.size() < kMaxSettings;
      std::string key(tokens_[at].text);
      if (!named || (!only.empty() && !base::IsWordIn(only, key))) continue;
      const std::optional<std::string> value = ValueAt(at + 2);
      if (adapter && key == "r") key = "lora_r";
      if (adapter && key == "target_modules") key = "lora_target_modules";
      Emit(std::move(key), value.value_or(std::string(kUnknownValue)), tokens_[at].line);
    }
  }

  // The value of the call's argument with this name. Empty if it is not a literal.
  std::optional<std::string> Named(std::size_t open, std::string_view name) const {
    int depth = 0;
    for (std::size_t at = open; at < CallEnd(open); ++at) {
      if (IsOneOf(at, "([{")) ++depth;
      if (IsOneOf(at, ")]}") && --depth == 0) break;
      if (depth == 1 && tokens_[at].kind == Kind::kName && tokens_[at].text == name &&
          Is(at + 1, '='))
        return ValueAt(at + 2);
    }
    return std::nullopt;
  }

  void EmitDefault(std::string_view name, const std::optional<std::string>& value, int line) {
    if (value && *value != "None" && settings_.size() < kMaxSettings)
      Emit(std::string(name), *value, line);
  }

  // Reads add_argument("-n", "--name", …, default=value). A flag is off by default.
  void ReadArgument(std::size_t open) {
    std::size_t at = open + 1;
    while ((tokens_[at].kind == Kind::kText && !tokens_[at].text.starts_with("--")) || Is(at, ','))
      ++at;
    if (tokens_[at].kind != Kind::kText) return;
    std::optional<std::string> value = Named(open, "default");
    if (!value && Named(open, "action") == "store_true") value = "False";
    EmitDefault(tokens_[at].text.substr(2), value, tokens_[at].line);
  }

  // Reads "name: type = value" at the beginning of a line: a field of a dataclass, or a parameter
  // of a function. The value may be field(default=…).
  void ReadField(std::size_t at) {
    const Token& name = tokens_[at];
    int depth = 0;
    for (at += 2; tokens_[at].kind != Kind::kEnd && tokens_[at].line == name.line; ++at) {
      if (IsOneOf(at, "([{")) ++depth;
      if (IsOneOf(at, ")]}")) --depth;
      if (depth < 0 || (depth == 0 && Is(at, ','))) return;
      if (depth > 0 || !Is(at, '=')) continue;
      const bool field =
          Is(at + 2, '(') && base::ToLower(LastName(tokens_[at + 1].text)) == "field";
      const auto value = field ? Named(at + 2, "default") : ValueAt(at + 1);
      if (value) names_[std::string(name.text)] = *value;
      return EmitDefault(name.text, value, name.line);
    }
  }

  std::vector<Token> tokens_;
  std::string_view where_;
  std::map<std::string, std::string, std::less<>> names_;
  std::set<std::string_view> tokenizers_;  // variables
  bool uses_engine_ = false;               // the text mentions vLLM or SGLang
  std::vector<Setting> settings_;
};

}  // namespace

std::vector<Setting> ReadPythonText(std::string_view text, std::string_view where) {
  return PythonReader(text, where).Read();
}

}  // namespace carma::estimate
