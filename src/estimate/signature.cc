#include "estimate/signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"

namespace carma::estimate {
namespace {

// Options whose values do not affect memory. The names have no leading dashes and use '-' instead
// of '_'. All other options are part of the signature. If a name is missing here, earlier runs are
// not found. If a name is listed by mistake, tasks are promised the wrong amount of memory. Some
// programs use "name", "experiment", "checkpoint" or "data" for their model, so these are not
// listed.
constexpr std::string_view kIrrelevant =
    " seed random-seed manual-seed random-state rng-seed "
    " lr learning-rate base-lr min-lr max-lr warmup-lr weight-decay wd momentum "
    " epochs epoch n-epochs num-epochs max-epochs num-train-epochs max-steps max-iters iterations "
    " warmup warmup-steps warmup-epochs warmup-ratio patience "
    " output output-dir out-dir save-dir save-path save-every ckpt-dir checkpoint-dir resume "
    " log-dir logdir log-file log-level log-interval print-freq "
    " run-name run-id exp-name tag trial fold port master-port data-dir data-path ";

// Options that state a quantity, in the same format as kIrrelevant.
constexpr std::string_view kBatch =
    " b bs batch batch-size train-batch-size per-device-train-batch-size per-gpu-train-batch-size "
    " micro-batch micro-batch-size train-micro-batch-size-per-gpu device-batch-size "
    "samples-per-gpu ";
constexpr std::string_view kLength =
    " seq-len seq-length sequence-len sequence-length max-seq-len max-seq-length max-length "
    " model-max-length block-size cutoff-len context-length ctx-len ";

// A 128-bit hash: FNV-1a in two lanes, mixed at the end. It need not be cryptographic: signatures
// begin with the UID in plain text, so different users never share one even if their hashes
// collide.
class Digest {
 public:
  void Add(std::string_view text) {
    for (const char c : text) Byte(static_cast<unsigned char>(c));
    Byte(0xFF);  // terminates the piece; never occurs in UTF-8
  }
  void Add(std::int64_t value) {
    for (int i = 0; i < 8; ++i) Byte(static_cast<unsigned char>(value >> (8 * i)));
  }
  template <class Value>
  void Add(const std::optional<Value>& value) {
    Add(std::int64_t{value.has_value()});
    if (value) Add(*value);
  }
  void Add(double value) { Add(std::bit_cast<std::int64_t>(value)); }
  std::uint64_t Number() const { return Mix(first_) ^ Mix(second_); }
  std::string Text() const { return fmt::format("{:016x}{:016x}", Mix(first_), Mix(second_)); }

 private:
  void Byte(unsigned char byte) {
    first_ = (first_ ^ byte) * 0x100000001B3U;
    second_ = (second_ + byte + 1) * 0x9E3779B97F4A7C15U;
    second_ ^= second_ >> 29;
  }
  static std::uint64_t Mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
  }
  std::uint64_t first_ = 0xCBF29CE484222325U, second_ = 0x84222325CBF29CE4U;
};

void AddShape(Digest& digest, const model::Shape& shape) {
  digest.Add(static_cast<std::int64_t>(shape.rank()));
  for (const std::int64_t dimension : shape.dimensions()) digest.Add(dimension);
}

// The normal form of an option's name: "--Log_Dir" and "trainer.log_dir" become "log-dir".
std::string OptionName(std::string_view word) {
  word = word.substr(0, word.find('='));
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  if (const std::size_t dot = word.rfind('.'); dot != std::string_view::npos)
    word.remove_prefix(dot + 1);
  std::string name = base::ToLower(word);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

bool IsIrrelevant(std::string_view word) {
  return base::IsWordIn(kIrrelevant, OptionName(word));
}

std::optional<std::int64_t> AmountIn(std::string_view text) {
  const std::optional<std::int64_t> amount = base::ParseInt(text);
  return amount && *amount >= 1 && *amount <= 1'000'000'000 ? amount : std::nullopt;
}

// The member of `amounts` that the option sets. Null for any other word.
std::optional<std::int64_t>* AmountOf(std::string_view word, Amounts& amounts) {
  const bool named = word.starts_with('-') || word.contains('=');
  if (!named) return nullptr;
  const std::string name = OptionName(word);
  if (base::IsWordIn(kBatch, name)) return &amounts.batch;
  return base::IsWordIn(kLength, name) ? &amounts.length : nullptr;
}

bool AreDigits(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool AreHex(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c) != 0; });
}

bool IsWithin(std::string_view digits, std::int64_t low, std::int64_t high) {
  const std::optional<std::int64_t> number = base::ParseInt(digits);
  return number && *number >= low && *number <= high;
}

// Returns true if the text is a date such as "20261121". A number such as 2048 is more likely a
// size than a year.
bool IsDay(const std::string& text) {
  return text.size() == 8 && AreDigits(text) && IsWithin(text.substr(0, 4), 2015, 2039) &&
         IsWithin(text.substr(4, 2), 1, 12) && IsWithin(text.substr(6), 1, 31);
}

// Returns true if the part can follow a date: a time ("11", "1144", "114455") or a unique suffix
// ("9f86d0").
bool FollowsDay(std::string_view part) {
  if (part.size() > 5 && AreHex(part)) return true;
  return AreDigits(part) && (part.size() == 2 || part.size() == 4) &&
         IsWithin(part.substr(0, 2), 0, 59) && IsWithin(part.substr(part.size() - 2), 0, 59);
}

// Returns true if the part looks unique, like "9f86d081", a job number or a Unix time. 1000000 does
// not, because it is more likely to be a setting.
bool IsUnique(std::string_view part) {
  if (AreDigits(part)) return part.size() >= 7 && !part.ends_with("000");
  const auto digits =
      std::ranges::count_if(part, [](unsigned char c) { return std::isdigit(c) != 0; });
  return part.size() >= 8 && AreHex(part) && digits > 2;
}

// Returns true if the word is a date, possibly with a counter, or a unique name: 2026-11-21,
// 20261121-1144-1, 9f86d081884c, 1234567_12. Sizes such as 128_256_512 are neither.
bool IsStamp(std::string_view word) {
  if (!AreDigits(word) && IsUnique(word)) return true;
  std::string spaced(word);
  std::ranges::replace_if(
      spaced, [](char c) { return c == '-' || c == ':' || c == '_' || c == 'T'; }, ' ');
  std::vector<std::string> parts;
  for (const std::string_view part : base::SplitWords(spaced)) parts.emplace_back(part);
  if (!std::ranges::all_of(parts, AreHex) || parts.size() < 2) return false;
  if (std::ranges::any_of(parts,
                          [](const std::string& part) { return IsUnique(part) && !IsDay(part); }))
    return true;
  std::size_t day = 0;
  if (IsDay(parts[0]) || IsDay("20" + parts[0])) {
    day = 1;
  } else if (parts.size() >= 3 && parts[1].size() == 2 &&
             (IsDay(parts[0] + parts[1] + parts[2]) || IsDay(parts[2] + parts[1] + parts[0]) ||
              IsDay(parts[2] + parts[0] + parts[1]))) {
    day = 3;
  }
  if (parts.size() > day && parts.back().size() < 4 && AreDigits(parts.back())) parts.pop_back();
  return day > 0 && std::ranges::all_of(parts.begin() + static_cast<std::ptrdiff_t>(day),
                                        parts.end(), FollowsDay);
}

// All words of the command. Arguments that contain blanks (as for sh -c) and script lines are split
// into words.
std::vector<std::string> CommandWords(const task::TaskSpec& spec) {
  std::vector<std::string> words;
  const auto take = [&](std::string_view text) {
    for (const std::string_view word : base::SplitWords(text)) words.emplace_back(word);
  };
  if (spec.script) {
    for (const std::string_view line : base::Split(*spec.script, '\n')) {
      if (const std::string_view text = base::Trim(line); !text.starts_with('#')) take(text);
    }
  }
  for (const std::string& argument : spec.command) take(argument);
  for (const std::string& argument : spec.script_args) take(argument);
  return words;
}

// Moves the amounts out of the command's words, so that commands that differ only in amounts have
// equal words. Amounts stated in the task's description take precedence.
Amounts TakeAmounts(const task::TaskSpec& spec, std::vector<std::string>& words) {
  Amounts amounts;
  std::optional<std::int64_t>* expected = nullptr;
  for (std::string& word : words) {
    const std::size_t equals = word.find('=');
    std::optional<std::int64_t>* named = AmountOf(word, amounts);
    const bool inside = named != nullptr && equals != std::string::npos;
    std::optional<std::int64_t>* target = inside ? named : std::exchange(expected, nullptr);
    const std::size_t at = inside ? equals + 1 : 0;
    const std::optional<std::int64_t> amount =
        target == nullptr ? std::nullopt : AmountIn(std::string_view(word).substr(at));
    if (amount) {
      *target = amount;
      word.resize(at);
    } else if (!inside) {
      expected = named;
    }
  }
  for (const task::TrainingWord& word : spec.training) {
    const std::optional<std::int64_t> amount = AmountIn(word.value);
    if (amount && word.name == "batch") amounts.batch = amount;
    if (amount && word.name == "seq-len") amounts.length = amount;
  }
  if (spec.batch_size) amounts.batch = spec.batch_size;
  return amounts;
}

void AddCommandShape(Digest& digest, const std::vector<std::string>& words) {
  bool skip_value = false;
  for (const std::string& word : words) {
    const bool option = word.starts_with('-');
    if (std::exchange(skip_value, false) && !option) continue;
    digest.Add(WordShape(word));
    skip_value = option && !word.contains('=') && IsIrrelevant(word);
  }
}

std::string LastName(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return std::string(base::BaseName(path));
}

// The name of the training program: the first Python file or module, otherwise the task's name (for
// a batch script), otherwise the command's first shell script, otherwise the command's first word.
std::string ProgramOf(const task::TaskSpec& spec, const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].ends_with(".py")) return LastName(words[i]);
    const bool module = words[i] == "-m" && i + 1 < words.size();
    if (module && !words[i + 1].starts_with("torch.distributed")) return words[i + 1];
  }
  if (spec.script || words.empty()) return spec.name;
  const auto script =
      std::ranges::find_if(words, [](const std::string& word) { return word.ends_with(".sh"); });
  return LastName(script != words.end() ? *script : words.front());
}

// Adds the parts of a signature other than the command's words, the model and the batch size.
void AddRest(Digest& digest, const task::TaskSpec& spec, bool with_amounts) {
  digest.Add(std::int64_t{spec.optimizer.has_value()});
  digest.Add(base::ToLower(spec.optimizer.value_or("")));
  digest.Add(base::ToLower(spec.precision.value_or("")));
  for (const task::TrainingWord& word : spec.training) {
    if (!with_amounts && (word.name == "batch" || word.name == "seq-len")) continue;
    digest.Add(word.name);
    digest.Add(base::ToLower(word.value));
  }
  digest.Add(std::int64_t{spec.gpus});
  digest.Add(LastName(spec.conda_env.value_or("")));
}

}  // namespace

std::string Fingerprint(const model::LayerList& list) {
  Digest digest;
  digest.Add(list.params);
  digest.Add(list.buffer_bytes);
  digest.Add(list.dropout);
  digest.Add(std::int64_t{list.saved.has_value()});
  if (list.saved) {
    digest.Add(list.saved->per_sample);
    digest.Add(list.saved->constant);
  }
  if (list.held) {
    for (const double bytes : {list.held->trained, list.held->frozen, list.held->others,
                               list.held->states.value_or(-1)}) {
      digest.Add(bytes);
    }
  }
  AddShape(digest, list.input);
  for (const model::Layer& layer : list.layers) {
    digest.Add(layer.type);
    AddShape(digest, layer.in);
    AddShape(digest, layer.out);
    digest.Add(layer.params);
    digest.Add(layer.trainable);
    digest.Add(std::int64_t{layer.inplace});
    digest.Add(layer.dropout);
    digest.Add(layer.kernel);
  }
  return digest.Text();
}

std::string Fingerprint(const TransformerConfig& config) {
  Digest digest;
  digest.Add(config.family);
  for (const std::int64_t size :
       {config.layers, config.hidden, config.heads, config.kv_heads, config.head_width,
        config.feed_forward, config.vocabulary, config.positions, config.experts,
        config.active_experts, config.shared_forward, std::int64_t{config.tied}}) {
    digest.Add(size);
  }
  // Only a few families have these sizes. For all others nothing is added, so their earlier history
  // remains valid.
  if (config.other_parameters > 0 || config.latent_parameters > 0 || config.dense_layers > 0 ||
      config.decoder_layers > 0 || config.table_width > 0 || config.blocks)
    digest.Add(std::int64_t{std::llround(config.TotalParameters())});
  const auto add_stored = [&](const auto& stored) {
    digest.Add(std::int64_t{stored.has_value()});
    if (stored) digest.Add(static_cast<std::int64_t>(*stored));
  };
  add_stored(config.dtype);
  add_stored(config.quantisation);
  return digest.Text();
}

std::string WordShape(const std::string& word) {
  const std::size_t equals = word.find('=');
  const bool setting = equals != std::string::npos && equals > 0;
  const std::string key = setting ? word.substr(0, equals + 1) : "";
  if (setting && IsIrrelevant(word)) return key + "*";
  const std::string value = word.substr(key.size());
  const std::string base = value.contains('/') ? LastName(value) : value;
  return key + (IsStamp(base) ? "*" : base);
}

std::string Signature(const task::TaskSpec& spec, std::uint32_t uid,
                      const std::string& fingerprint) {
  Digest digest;
  AddCommandShape(digest, CommandWords(spec));
  digest.Add(fingerprint.empty() ? spec.workdir : fingerprint);
  digest.Add(spec.batch_size);
  AddRest(digest, spec, true);
  return fmt::format("{}-{}", uid, digest.Text());
}

Amounts AmountsOf(const task::TaskSpec& spec) {
  std::vector<std::string> words = CommandWords(spec);
  return TakeAmounts(spec, words);
}

std::string Relation(const task::TaskSpec& spec, std::uint32_t uid,
                     const std::string& fingerprint) {
  std::vector<std::string> words = CommandWords(spec);
  if (TakeAmounts(spec, words) == Amounts{}) return "";
  Digest digest;
  AddCommandShape(digest, words);
  digest.Add(fingerprint.empty() ? spec.workdir : fingerprint);
  AddRest(digest, spec, false);
  return fmt::format("{}-{}", uid, digest.Text());
}

core::KindId KindOf(const std::string& signature) {
  Digest digest;
  digest.Add(signature);
  // The store supports numbers up to 2^63.
  return core::KindId{std::max<std::uint64_t>(1, digest.Number() >> 1)};
}

std::string Kin(const task::TaskSpec& spec, std::uint32_t uid) {
  Digest digest;
  digest.Add(ProgramOf(spec, CommandWords(spec)));
  digest.Add(std::int64_t{spec.gpus});
  return fmt::format("{}-{}", uid, digest.Text());
}

}  // namespace carma::estimate
