// The syntax of a verb: its options, arguments and subverbs, which CLI11 parses. Only syntax.cc and
// client/app.cc include CLI11's header, because it takes 2.7 s to compile.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "cli/choices.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace carma::cli {

// A handle for one option or argument. Valid as long as the program's CLI::App.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option Required() const;
  template <class Number>
  Option Range(Number least, Number most) const;
  Option Positive() const;
  Option OneOf(std::vector<std::string> words) const;
  Option List() const;     // commas separate the values
  Option OneWord() const;  // the option takes one word per use
  Option Values(int least, int most) const;
  Option LastCounts() const;  // the option may be repeated; the last value is used
  Option Group(const std::string& heading) const;  // heading in the help; "" hides the option
  Option ShowDefault() const;
  Option Needs(Option other) const;
  Option Excludes(Option other) const;
  std::size_t count() const;  // how many times the option was given

 private:
  CLI::Option* option_;
};

// A declared option, for completion.
struct OptionFacts {
  std::string long_name;  // with dashes; empty if none
  char letter = '\0';     // '\0': none
  bool takes_value = false;
  std::string help;
  Choices values = {};  // if the value is one of a few words; filled in by the caller
};

// A handle for a verb, or for the program with its verbs. Valid as long as the program's CLI::App;
// the variables that its options set must live as long.
class Syntax {
 public:
  explicit Syntax(CLI::App* app) : app_(app) {}

  Syntax AddVerb(const std::string& name, const std::string& help) const;
  Syntax Alias(const std::string& name) const;
  Syntax Footer(const std::string& text) const;    // examples, below the help
  Syntax OnRun(std::function<void()> work) const;  // called after parsing
  Syntax NeedsVerb() const;                        // one subverb is required
  // Allows one of the subverbs added so far, or none. A subverb excludes the verb's own options
  // added so far, because it would ignore them.
  Syntax TakesVerb() const;
  // names: "-n,--limit", or "tasks" for an argument. value: placeholder in the help; if empty, it
  // follows from T. T is a string or number, or an optional or vector of these (syntax.cc).
  template <class T>
  Option AddOption(const std::string& names, const std::string& value, T& target,
                   const std::string& help) const;
  // `take` receives each value. An error from `take` is reported as wrong usage.
  Option AddParsed(const std::string& names, const std::string& value,
                   std::function<Result<Unit>(const std::string&)> take,
                   const std::string& help) const;
  Option AddSpan(const std::string& names, std::optional<base::Duration>& span,
                 const std::string& help) const;
  // The values of this option are only available from GivenOptions().
  Option AddOption(const std::string& names, const std::string& value,
                   const std::string& help) const;
  // A name such as "!--no-pairs" sets the target to false.
  Option AddFlag(const std::string& names, bool& target, const std::string& help) const;
  Option AddFlag(const std::string& names, std::function<void()> take,
                 const std::string& help) const;
  Option AddFlag(const std::string& names, const std::string& help) const;

  // Valid after parsing:
  bool Given(const std::string& option) const;  // "--socket"
  bool VerbGiven() const;                       // whether a subverb was given
  // The long names (without dashes) and values of the given options, in order. Flags have the value
  // "true".
  std::vector<std::pair<std::string, std::string>> GivenOptions() const;

  // The declared options and verbs, for completion.
  std::vector<std::string> names() const;  // aliases last
  std::string help() const;
  std::vector<OptionFacts> options() const;  // without hidden options
  std::vector<std::string> arguments() const;
  std::vector<Syntax> verbs() const;

 private:
  CLI::App* app_;
};

}  // namespace carma::cli
