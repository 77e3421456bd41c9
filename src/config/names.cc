#include "config/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/suggest.h"
#include "base/text.h"
#include "base/user.h"

namespace carma::config {
namespace {

// The names that a list in the settings may contain, and the key that defines them.
struct Known {
  const char* what;  // "class"
  const char* key;   // "fair.classes"
  std::vector<std::string> names;
};

class Mistakes {
 public:
  void Need(const char* key, const Known& known, const std::string& name) {
    if (name.empty() || name == "*" || std::ranges::count(known.names, name) > 0) return;
    Add(key, fmt::format("no {} '{}' in {}{}", known.what, base::Printable(name, 40), known.key,
                         base::Suggestion(name, known.names)));
  }
  void Once(const char* key, const std::string& name, std::set<std::string>& seen) {
    if (!seen.insert(name).second)
      Add(key, fmt::format("'{}' is listed more than once", base::Printable(name, 40)));
  }
  std::vector<NameMistake> all;

 private:
  void Add(const char* key, std::string what) { all.push_back({key, std::move(what)}); }
};

}  // namespace

std::vector<NameMistake> NameMistakes(const Settings& settings) {
  const core::PolicyConfig& policy = settings.policy;
  Known accounts{"account", "fair.accounts", {}};
  Known classes{"class", "fair.classes", {std::string(core::kUsualQos)}};
  Mistakes mistakes;
  std::set<std::string> seen;
  for (const core::AccountRule& each : policy.accounts) {
    accounts.names.push_back(each.name);
    mistakes.Once("fair.accounts", each.name, seen);
  }
  seen.clear();
  for (const core::QosClass& each : policy.classes) {
    classes.names.push_back(each.name);
    mistakes.Once("fair.classes", each.name, seen);
  }
  seen.clear();
  for (const core::ShareWeight& each : policy.fair.weights) {
    if (each.who.starts_with('@')) mistakes.Need("fair.weights", accounts, each.who.substr(1));
    mistakes.Once("fair.weights", each.who, seen);
  }
  for (const std::string& each : policy.slots.exempt) mistakes.Need("slots.exempt", classes, each);
  // The rules are checked only if they are configured. The default rule may name a class that
  // fair.classes no longer contains.
  if (!settings.chosen.contains("limits.rules")) return mistakes.all;
  for (const core::LimitRule& each : policy.limits) {
    mistakes.Need("limits.rules", accounts, each.account);
    mistakes.Need("limits.rules", classes, each.qos);
  }
  return mistakes.all;
}

std::map<std::string, std::string> NamedUsers(const Settings& settings) {
  std::map<std::string, std::string> users;
  const auto add = [&users](const char* key, const std::vector<std::string>& names) {
    for (const std::string& name : names) users.try_emplace(name, key);
  };
  add("daemon.admins", settings.admins);
  add("daemon.allow_users", settings.allow_users);
  add("reserve.makers", settings.reservation_makers);
  const core::PolicyConfig& policy = settings.policy;
  for (const core::AccountRule& each : policy.accounts) add("fair.accounts", each.users);
  for (const core::ShareWeight& each : policy.fair.weights) {
    if (!each.who.starts_with('@')) add("fair.weights", {each.who});
  }
  for (const core::LimitRule& each : policy.limits) add("limits.rules", {each.user});
  users.erase("");
  users.erase("*");
  return users;
}

std::vector<NameMistake> UnknownNames(const Settings& settings) {
  std::vector<NameMistake> unknown;
  for (const std::string& name : settings.allow_groups) {
    const Result<std::uint32_t> group = base::FindGroup(name);
    if (!group && group.error().code == ErrorCode::kNotFound)
      unknown.push_back({std::string(kAllowGroups), group.error().message});
  }
  for (const auto& [user, key] : NamedUsers(settings)) {
    if (base::LacksUser(user))
      unknown.push_back({key, fmt::format("no user '{}'", base::Printable(user, 40))});
  }
  return unknown;
}

Result<Unit> CheckSocketGroup(const Settings& settings) {
  if (settings.socket_group.empty()) return Unit{};
  if (const Result<std::uint32_t> group = base::FindGroup(settings.socket_group); !group)
    return base::Wrap(group.error(), "daemon.socket_group");
  return Unit{};
}

}  // namespace carma::config
