#include "core/values/entitlement.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>

#include "base/text.h"

namespace carma::core {
namespace {

constexpr std::int64_t kMost = 1'000'000'000;
constexpr double kMostHours = 1e9;
constexpr double kMostWeight = 1e6;

std::unexpected<base::Error> Expected(std::string_view what, std::string_view got) {
  return Invalid("expected {}, got '{}'", what, base::Printable(got, 100));
}

// True if this can be a user name. '*' stands for all users, and '@vision' for an account.
bool IsUserName(std::string_view name) {
  return !name.empty() && name.size() <= 256 && base::Printable(name, 1'000) == name &&
         name.front() != '@' && name.find_first_of("*=:, ") == std::string_view::npos;
}

std::string SpanText(Duration span) {
  constexpr std::pair<Duration, char> kUnits[] = {
      {Duration{86'400'000}, 'd'}, {Duration{3'600'000}, 'h'}, {Duration{60'000}, 'm'}};
  for (const auto& [unit, letter] : kUnits) {
    if (span % unit == Duration{0}) return fmt::format("{}{}", span / unit, letter);
  }
  return fmt::format("{}s", span.count() / 1000);
}

std::string SizeText(std::int64_t mib) {
  return mib % 1024 == 0 ? fmt::format("{}G", mib / 1024) : fmt::format("{}M", mib);
}

// Parses a time span in whole seconds. A unit is required, as elsewhere in the configuration.
std::optional<Duration> SpanOf(std::string_view text) {
  if (text.empty() || std::string_view("smhd").find(text.back()) == text.npos) return std::nullopt;
  const Result<Duration> span = base::ParseSpan(text);
  if (!span || *span <= Duration{0} || *span % Duration{1000} != Duration{0}) return std::nullopt;
  return *span;
}

std::optional<std::int64_t> CountOf(std::string_view text) {
  const std::optional<std::int64_t> count = base::ParseInt(text);
  return count && *count >= 0 && *count <= kMost ? count : std::nullopt;
}

bool SetWhom(std::string& whom, std::string_view value, bool (*meant)(std::string_view)) {
  if (value != "*" && !meant(value)) return false;
  whom = value;
  return true;
}

bool SetHours(LimitRule& rule, std::string_view value) {
  const std::size_t slash = value.find('/');
  if (slash == std::string_view::npos) return false;
  const std::optional<double> hours = base::ParseDouble(value.substr(0, slash));
  const std::optional<Duration> period = SpanOf(value.substr(slash + 1));
  if (!hours || !(*hours >= 0 && *hours <= kMostHours) || !period) return false;
  rule.gpu_hours = hours;
  rule.period = *period;
  return true;
}

// Sets the rule's field `name`. Returns false if the value is invalid.
bool SetWord(LimitRule& rule, std::string_view name, std::string_view value) {
  if (name == "user") return SetWhom(rule.user, value, &IsUserName);
  if (name == "account") return SetWhom(rule.account, value, &IsShareName);
  if (name == "qos") return SetWhom(rule.qos, value, &IsShareName);
  if (name == "running") return (rule.running = CountOf(value)).has_value();
  if (name == "gpus") return (rule.gpus = CountOf(value)).has_value();
  if (name == "cpus") return (rule.cpus = CountOf(value)).has_value();
  if (name == "queued") return (rule.queued = CountOf(value)).has_value();
  if (name == "length") return (rule.length = SpanOf(value)).has_value();
  if (name == "gpu_hours") return SetHours(rule, value);
  const Result<std::int64_t> mib = base::ParseMemoryMib(value);
  if (!mib || *mib > kMost) return false;
  if (name == "memory") rule.memory_mib = *mib;
  if (name == "host_memory") rule.host_memory_mib = *mib;
  return name == "memory" || name == "host_memory";
}

// Expected form of each word in a rule, for messages.
constexpr std::pair<std::string_view, std::string_view> kForms[] = {
    {"user", "a single user like user=ada, or user=*"},
    {"account", "a single account like account=vision, or account=*"},
    {"qos", "a single class like qos=interactive, or qos=*"},
    {"running", "a number like running=4"},
    {"gpus", "a number like gpus=2"},
    {"cpus", "a number like cpus=32"},
    {"queued", "a number like queued=1000"},
    {"length", "a time span with a unit, like length=12h"},
    {"gpu_hours", "hours per time span, like gpu_hours=200/7d"},
    {"memory", "a size like memory=80G"},
    {"host_memory", "a size like host_memory=256G"},
};

constexpr std::string_view kRuleText =
    "words like user=*, account=vision, qos=interactive and at least one of running=4, gpus=2, "
    "memory=80G, cpus=32, host_memory=256G, queued=1000, gpu_hours=200/7d, length=12h";

}  // namespace

Result<QosClass> ParseQosClass(std::string_view text) {
  constexpr std::string_view kPriority = "priority=";
  const std::vector<std::string_view> words = base::SplitWords(text);
  const auto bad = [&] {
    return Expected("a class like 'interactive priority=1000 preempts' or 'background preemptible'",
                    text);
  };
  if (words.empty() || !IsShareName(words[0])) return bad();
  QosClass qos{.name = std::string(words[0])};
  for (const std::string_view word : std::span(words).subspan(1)) {
    if (word == "preempts" && !qos.preempts) {
      qos.preempts = true;
    } else if (word == "preemptible" && !qos.preemptible) {
      qos.preemptible = true;
    } else if (word.starts_with(kPriority) && qos.priority == 0) {
      const std::optional<std::int64_t> priority = base::ParseInt(word.substr(kPriority.size()));
      if (!priority || *priority < -kMaxPriority || *priority > kMaxPriority) return bad();
      qos.priority = *priority;
    } else {
      return bad();
    }
  }
  return qos;
}

Result<AccountRule> ParseAccountRule(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = base::Trim(text.substr(0, colon));
  const auto bad = [&] { return Expected("an account like 'vision: ada bob'", text); };
  if (colon == std::string_view::npos || !IsShareName(name)) return bad();
  AccountRule account{.name = std::string(name)};
  for (const std::string_view user : base::SplitWords(base::Trim(text.substr(colon + 1)))) {
    if (user != "*" && !IsUserName(user)) return bad();
    account.users.emplace_back(user);
  }
  return account.users.empty() ? Result<AccountRule>(bad()) : account;
}

Result<ShareWeight> ParseShareWeight(std::string_view text) {
  const std::size_t equals = text.rfind('=');
  const std::string_view who = base::Trim(text.substr(0, equals));
  const bool named = who.starts_with('@') ? IsShareName(who.substr(1)) : IsUserName(who);
  const std::optional<double> weight = equals == std::string_view::npos
                                           ? std::nullopt
                                           : base::ParseDouble(base::Trim(text.substr(equals + 1)));
  if (!named || !weight || !(*weight > 0 && *weight <= kMostWeight))
    return Expected("a weight like 'ada=2' or '@vision=3'", text);
  return ShareWeight{std::string(who), *weight};
}

Result<LimitRule> ParseLimitRule(std::string_view text) {
  LimitRule rule;
  std::set<std::string_view> seen;
  for (const std::string_view word : base::SplitWords(text)) {
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    if (equals == std::string_view::npos || !SetWord(rule, name, word.substr(equals + 1))) {
      const auto* form =
          std::ranges::find(kForms, name, [](const auto& each) { return each.first; });
      return Expected(form == std::end(kForms) ? kRuleText : form->second, word);
    }
    if (!seen.insert(name).second) return Expected(fmt::format("one {} in a rule", name), text);
  }
  const bool says = rule.running || rule.gpus || rule.memory_mib || rule.cpus ||
                    rule.host_memory_mib || rule.queued || rule.gpu_hours || rule.length;
  return says ? Result<LimitRule>(rule) : Expected(kRuleText, text);
}

std::string TextOf(const QosClass& qos) {
  std::string text = qos.name;
  if (qos.priority != 0) text += fmt::format(" priority={}", qos.priority);
  if (qos.preempts) text += " preempts";
  if (qos.preemptible) text += " preemptible";
  return text;
}

std::string TextOf(const AccountRule& account) {
  return fmt::format("{}: {}", account.name, base::Join(account.users, " "));
}

std::string TextOf(const ShareWeight& weight) {
  return fmt::format("{}={}", weight.who, weight.weight);
}

std::string TextOf(const LimitRule& rule) {
  std::vector<std::string> words;
  for (const auto& [name, value] :
       {std::pair("user", &rule.user), std::pair("account", &rule.account),
        std::pair("qos", &rule.qos)}) {
    if (!value->empty()) words.push_back(fmt::format("{}={}", name, *value));
  }
  for (const auto& [name, value] :
       {std::pair("running", &rule.running), std::pair("gpus", &rule.gpus)}) {
    if (*value) words.push_back(fmt::format("{}={}", name, **value));
  }
  if (rule.memory_mib) words.push_back("memory=" + SizeText(*rule.memory_mib));
  if (rule.cpus) words.push_back(fmt::format("cpus={}", *rule.cpus));
  if (rule.host_memory_mib) words.push_back("host_memory=" + SizeText(*rule.host_memory_mib));
  if (rule.queued) words.push_back(fmt::format("queued={}", *rule.queued));
  if (rule.gpu_hours)
    words.push_back(fmt::format("gpu_hours={}/{}", *rule.gpu_hours, SpanText(rule.period)));
  if (rule.length) words.push_back("length=" + SpanText(*rule.length));
  return base::Join(words, " ");
}

std::string WhomOf(const LimitRule& rule) {
  std::vector<std::string> words;
  for (const auto& [what, value] :
       {std::pair("user", &rule.user), std::pair("account", &rule.account),
        std::pair("class", &rule.qos)}) {
    if (value->empty()) continue;
    words.push_back(*value == "*" ? fmt::format("each {}", what)
                                  : fmt::format("{} {}", what, *value));
  }
  return words.empty() ? "everybody together" : base::Join(words, ", ");
}

const std::string& QosOf(const TaskRequest& request) {
  static const std::string kUsual(kUsualQos);
  return request.qos ? *request.qos : kUsual;
}

std::string UserOf(const TaskRequest& request) {
  return request.user.empty() ? fmt::format("{}", request.uid) : request.user;
}

}  // namespace carma::core
