// Declares the syntax of a verb with CLI11.
#include "cli/syntax.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <type_traits>

#include "base/text.h"
#include "base/try.h"

namespace carma::cli {
namespace {

bool IsArgument(const CLI::Option* option) {
  return option->get_lnames().empty() && option->get_snames().empty();
}

Option Typed(CLI::Option* option, const std::string& value) {
  if (!value.empty()) option->type_name(value);
  return Option(option);
}

std::string CheckFinite(const std::string& text) {
  const bool finite = std::isfinite(std::strtod(text.c_str(), nullptr));
  return finite ? "" : "expected a number, not '" + base::Printable(text, 40) + "'";
}

}  // namespace

Option Option::Required() const {
  return Option(option_->required());
}

template <class Number>
Option Option::Range(Number least, Number most) const {
  return Option(option_->check(CLI::Range(least, most)));
}
template Option Option::Range(int, int) const;
template Option Option::Range(std::int64_t, std::int64_t) const;
template Option Option::Range(std::size_t, std::size_t) const;
template Option Option::Range(double, double) const;

Option Option::Positive() const {
  return Option(option_->check([](const std::string& text) {
    const std::optional<double> number = base::ParseDouble(text);
    return number && *number > 0
               ? ""
               : "expected a number above 0, not '" + base::Printable(text, 40) + "'";
  }));
}

Option Option::OneOf(std::vector<std::string> words) const {
  return Option(option_->check([words = std::move(words)](const std::string& text) {
    if (std::ranges::count(words, text) > 0) return std::string();
    return fmt::format("expected {}, not '{}'", base::Join(words, ", "), base::Printable(text, 40));
  }));
}

Option Option::List() const {
  return Option(option_->delimiter(','));
}

Option Option::OneWord() const {
  return Option(option_->allow_extra_args(false));
}

Option Option::Values(int least, int most) const {
  return Option(option_->expected(least, most));
}

Option Option::LastCounts() const {
  return Option(option_->multi_option_policy(CLI::MultiOptionPolicy::TakeLast));
}

Option Option::Group(const std::string& heading) const {
  return Option(option_->group(heading));
}

Option Option::ShowDefault() const {
  return Option(option_->capture_default_str());
}

Option Option::Needs(Option other) const {
  return Option(option_->needs(other.option_));
}

Option Option::Excludes(Option other) const {
  return Option(option_->excludes(other.option_));
}

std::size_t Option::count() const {
  return option_->count();
}

Syntax Syntax::AddVerb(const std::string& name, const std::string& help) const {
  return Syntax(app_->add_subcommand(name, help));
}

Syntax Syntax::Alias(const std::string& name) const {
  return Syntax(app_->alias(name));
}

Syntax Syntax::Footer(const std::string& text) const {
  return Syntax(app_->footer(text));
}

Syntax Syntax::OnRun(std::function<void()> work) const {
  return Syntax(app_->callback(std::move(work)));
}

Syntax Syntax::NeedsVerb() const {
  return Syntax(app_->require_subcommand(1));
}

Syntax Syntax::TakesVerb() const {
  for (CLI::App* verb : app_->get_subcommands({})) {
    for (CLI::Option* option : app_->get_options({})) verb->excludes(option);
  }
  return Syntax(app_->require_subcommand(0, 1));
}

template <class T>
Option Syntax::AddOption(const std::string& names, const std::string& value, T& target,
                         const std::string& help) const {
  CLI::Option* option = app_->add_option(names, target, help);
  constexpr bool kNumber = std::is_same_v<T, double> || std::is_same_v<T, std::optional<double>> ||
                           std::is_same_v<T, std::vector<double>>;
  // Rejects "nan", which would pass every range check.
  if constexpr (kNumber) option->check(CLI::Validator(CheckFinite, ""));
  return Typed(option, value);
}

using Text = const std::string&;
template Option Syntax::AddOption(Text, Text, std::string&, Text) const;
template Option Syntax::AddOption(Text, Text, int&, Text) const;
template Option Syntax::AddOption(Text, Text, std::int64_t&, Text) const;
template Option Syntax::AddOption(Text, Text, std::uint64_t&, Text) const;
template Option Syntax::AddOption(Text, Text, double&, Text) const;
template Option Syntax::AddOption(Text, Text, std::optional<std::string>&, Text) const;
template Option Syntax::AddOption(Text, Text, std::optional<int>&, Text) const;
template Option Syntax::AddOption(Text, Text, std::optional<std::int64_t>&, Text) const;
template Option Syntax::AddOption(Text, Text, std::optional<std::uint64_t>&, Text) const;
template Option Syntax::AddOption(Text, Text, std::optional<double>&, Text) const;
template Option Syntax::AddOption(Text, Text, std::vector<std::string>&, Text) const;
template Option Syntax::AddOption(Text, Text, std::vector<double>&, Text) const;
template Option Syntax::AddOption(Text, Text, std::vector<std::uint64_t>&, Text) const;

Option Syntax::AddParsed(const std::string& names, const std::string& value,
                         std::function<Result<Unit>(const std::string&)> take,
                         const std::string& help) const {
  const auto check = [names, take = std::move(take)](const std::string& text) {
    if (const auto taken = take(text); !taken)
      throw CLI::ValidationError(names, taken.error().message);
  };
  return Typed(app_->add_option_function<std::string>(names, check, help), value);
}

Option Syntax::AddSpan(const std::string& names, std::optional<base::Duration>& span,
                       const std::string& help) const {
  const auto take = [&span](const std::string& text) -> Result<Unit> {
    span = CARMA_TRY(base::ParseSpan(text));
    return Unit{};
  };
  return AddParsed(names, "SPAN", take, help);
}

Option Syntax::AddOption(const std::string& names, const std::string& value,
                         const std::string& help) const {
  CLI::Option* option = app_->add_option(names);
  option->description(help);
  return Typed(option, value);
}

Option Syntax::AddFlag(const std::string& names, bool& target, const std::string& help) const {
  return Option(app_->add_flag(names, target, help));
}

Option Syntax::AddFlag(const std::string& names, std::function<void()> take,
                       const std::string& help) const {
  return Option(app_->add_flag_callback(names, std::move(take), help));
}

Option Syntax::AddFlag(const std::string& names, const std::string& help) const {
  CLI::Option* option = app_->add_flag(names);
  option->description(help);
  return Option(option);
}

bool Syntax::Given(const std::string& option) const {
  return app_->count(option) > 0;
}

bool Syntax::VerbGiven() const {
  return !app_->get_subcommands().empty();
}

std::vector<std::pair<std::string, std::string>> Syntax::GivenOptions() const {
  std::vector<std::pair<std::string, std::string>> given;
  std::map<const CLI::Option*, std::size_t> seen;
  for (const CLI::Option* option : app_->parse_order()) {
    if (option->get_lnames().empty()) continue;
    const std::size_t nth = seen[option]++;
    if (nth < option->results().size())
      given.emplace_back(option->get_lnames()[0], option->results()[nth]);
  }
  return given;
}

std::vector<std::string> Syntax::names() const {
  std::vector<std::string> names{app_->get_name()};
  names.insert(names.end(), app_->get_aliases().begin(), app_->get_aliases().end());
  return names;
}

std::string Syntax::help() const {
  return app_->get_description();
}

std::vector<OptionFacts> Syntax::options() const {
  std::vector<OptionFacts> options;
  for (const CLI::Option* option : std::as_const(*app_).get_options()) {
    if (IsArgument(option) || option->get_group().empty()) continue;
    options.push_back(
        {.long_name = option->get_lnames().empty() ? "" : "--" + option->get_lnames()[0],
         .letter = option->get_snames().empty() ? '\0' : option->get_snames()[0][0],
         .takes_value = option->get_items_expected_min() > 0,
         .help = option->get_description()});
  }
  return options;
}

std::vector<std::string> Syntax::arguments() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : std::as_const(*app_).get_options(&IsArgument))
    names.push_back(option->get_name(true));
  return names;
}

std::vector<Syntax> Syntax::verbs() const {
  std::vector<Syntax> verbs;
  for (CLI::App* verb : app_->get_subcommands({})) verbs.push_back(Syntax(verb));
  return verbs;
}

}  // namespace carma::cli
