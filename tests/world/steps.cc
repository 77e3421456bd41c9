// Generates step lists from a seed, and writes, reads and shrinks them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/rng.h"
#include "base/text.h"
#include "tests/world/world.h"

namespace carma::world {
namespace {

struct Verb {
  const char* name;
  std::uint64_t weight;
};
constexpr std::array kVerbs{
    Verb{"submit", 10},  Verb{"estimate", 14}, Verb{"sample", 16},  Verb{"begin", 14},
    Verb{"exit", 12},    Verb{"advance", 10},  Verb{"cancel", 3},   Verb{"hold", 2},
    Verb{"release", 3},  Verb{"requeue", 2},   Verb{"priority", 2}, Verb{"drain", 2},
    Verb{"resume", 3},   Verb{"sick", 2},      Verb{"well", 3},     Verb{"close", 1},
    Verb{"open", 2},     Verb{"kill", 3},      Verb{"full", 1},     Verb{"space", 2},
    Verb{"jump", 1},     Verb{"fail", 2},      Verb{"ask", 8},      Verb{"hang", 1},
    Verb{"answer", 2},   Verb{"back", 1},      Verb{"second", 1},   Verb{"broken", 1},
    Verb{"repaired", 2}, Verb{"serve", 10},    Verb{"refuse", 1},   Verb{"method", 1},
};

std::uint64_t WeightOfAll() {
  std::uint64_t sum = 0;
  for (const Verb& verb : kVerbs) sum += verb.weight;
  return sum;
}

}  // namespace

std::vector<Step> StepsOf(std::uint64_t seed, std::size_t count) {
  base::Rng rng(seed);
  const std::uint64_t all = WeightOfAll();
  std::vector<Step> steps;
  while (steps.size() < count) {
    std::uint64_t at = rng.Below(all);
    const auto* verb = kVerbs.begin();
    while (at >= verb->weight) at -= (verb++)->weight;
    const std::uint64_t a = rng.Below(1'000'000);
    steps.push_back({verb->name, a, rng.Below(1'000'000)});
  }
  return steps;
}

// Drops halves, then quarters and so on, as long as the remaining steps still cause a violation.
std::vector<Step> Shrunk(std::vector<Step> steps, Plant plant) {
  if (const auto first = Play(steps, plant); first && first->step < steps.size())
    steps.resize(first->step + 1);
  for (std::size_t part = std::max<std::size_t>(1, steps.size() / 2);; part /= 2) {
    for (std::size_t from = 0; from < steps.size();) {
      std::vector<Step> fewer(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(from));
      const std::size_t to = std::min(steps.size(), from + part);
      fewer.insert(fewer.end(), steps.begin() + static_cast<std::ptrdiff_t>(to), steps.end());
      if (Play(fewer, plant)) {
        steps = std::move(fewer);
      } else {
        from += part;
      }
    }
    if (part == 1) return steps;
  }
}

std::string ToText(const std::vector<Step>& steps) {
  std::string text;
  for (std::size_t i = 0; i < steps.size(); ++i)
    text += fmt::format("at {} {} {} {}\n", i, steps[i].verb, steps[i].a, steps[i].b);
  return text;
}

base::Result<std::vector<Step>> StepsFromText(std::string_view text) {
  std::vector<Step> steps;
  for (const std::string_view line : base::Split(text, '\n')) {
    const std::vector<std::string_view> words = base::SplitWords(line);
    if (words.empty() || words[0].starts_with('#')) continue;
    const auto a = words.size() == 5 ? base::ParseInt(words[3]) : std::nullopt;
    const auto b = words.size() == 5 ? base::ParseInt(words[4]) : std::nullopt;
    const bool known =
        a && b && *a >= 0 && *b >= 0 &&
        std::ranges::any_of(kVerbs, [&](const Verb& verb) { return verb.name == words[2]; });
    if (!known) {
      return base::Fail(base::ErrorCode::kInvalid,
                        fmt::format("'{}': expected a step such as 'at 3 submit 4711 815'",
                                    base::Printable(line, 80)));
    }
    steps.push_back(
        {std::string(words[2]), static_cast<std::uint64_t>(*a), static_cast<std::uint64_t>(*b)});
  }
  return steps;
}

}  // namespace carma::world
