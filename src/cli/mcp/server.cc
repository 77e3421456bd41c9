// The messages and tools of `carma mcp`.
#include "cli/mcp/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/json.h"
#include "base/suggest.h"
#include "base/text.h"
#include "base/try.h"
#include "task/describe/options.h"

namespace carma::cli {
namespace {

using base::Json;
using Words = std::vector<std::string>;

constexpr const char* kProtocol = "2025-06-18";
constexpr int kParseError = -32700, kInvalidRequest = -32600, kUnknownMethod = -32601,
              kInvalidParameters = -32602;

struct Tool {
  const char* name;
  const char* description;
  Json (*schema)();
  Result<Words> (*words)(const Json& arguments);
  bool changes = false;
};

Json Text(const char* description) {
  return {{"type", "string"}, {"description", description}};
}
Json Object(Json properties, Json required = Json::array()) {
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}

Json OfTask() {
  return Object({{"task", Text("task number: 42, 40_3 (index 3 of array 40) or @ (the caller's "
                               "last task; for cancel, its array)")}},
                {"task"});
}
Json OfLogs() {
  return Object({{"task", Text("task number, or @")},
                 {"lines", {{"type", "integer"}, {"minimum", 1}, {"maximum", 1000}}},
                 {"stderr", {{"type", "boolean"}}}},
                {"task"});
}
Json OfList() {
  return Object({{"state", Text("only tasks in these states, such as running,queued,failed,oom; "
                                "all: include ended tasks")},
                 {"user", Text("only tasks of this user")},
                 {"name", Text("only tasks with this name")},
                 {"account", Text("only tasks of this account")},
                 {"class", Text("only tasks of this class")}});
}
Json OfNothing() {
  return Object(Json::object());
}
Json OfSubmission() {
  return Object({{"command",
                  {{"type", "array"},
                   {"items", {{"type", "string"}}},
                   {"description",
                    "a program and its arguments, run without a shell, or a script that starts "
                    "with #! and its arguments"}}},
                 {"options",
                  {{"type", "object"},
                   {"description",
                    "options of `carma submit` by name: {\"gpus\": 1, \"gpu-mem\": \"12G\", "
                    "\"exclusive\": true}"}}}},
                {"command"});
}
Json OfEstimate() {
  return Object({{"words",
                  {{"type", "array"},
                   {"items", {{"type", "string"}}},
                   {"description",
                    "arguments as for `carma estimate`: a model summary or a script, --batch 32, "
                    "--optimizer adam"}}}},
                {"words"});
}

// Rejects unknown arguments and arguments of the wrong type. If they were ignored, a task could run
// with options other than those its submitter intended.
Result<Unit> CheckArguments(const Json& schema, const Json& arguments) {
  const Json& known = schema.at("properties");
  for (const auto& [name, value] : arguments.items()) {
    const auto property = known.find(name);
    if (property == known.end()) {
      Words names;
      for (const auto& [each, ignored] : known.items()) names.push_back(each);
      return Invalid("no argument '{}': expected {}", base::Printable(name, 40),
                     names.empty() ? "none" : base::Join(names, ", "));
    }
    const std::string type = property->at("type");
    const bool fits = type == "integer" ? value.is_number_integer() : type == value.type_name();
    if (!fits) return Invalid("{}: expected type {}", name, type);
  }
  return Unit{};
}

// Reads a text argument, which must not look like an option.
Result<std::string> TextOf(const Json& arguments, const char* name) {
  const auto found = arguments.find(name);
  if (found == arguments.end()) return std::string();
  if (!found->is_string() || found->get_ref<const std::string&>().starts_with('-'))
    return Invalid("{}: expected a string that does not start with a dash", name);
  return found->get<std::string>();
}

Result<Words> TextsOf(const Json& arguments, const char* name) {
  const auto found = arguments.find(name);
  Words words;
  if (found != arguments.end() && found->is_array()) {
    for (const Json& word : *found) {
      if (word.is_string()) words.push_back(word.get<std::string>());
    }
  }
  if (words.empty() || words.size() != found->size())
    return Invalid("{}: expected a list of strings", name);
  return words;
}

Result<Words> VerbOfTask(const char* verb, const Json& arguments) {
  const std::string task = CARMA_TRY(TextOf(arguments, "task"));
  if (task.empty()) return Invalid("task: expected a task number");
  return Words{verb, task};
}

Result<Words> LogsWords(const Json& arguments) {
  const Words words = CARMA_TRY(VerbOfTask("logs", arguments));
  const auto lines = std::clamp<std::int64_t>(arguments.value("lines", std::int64_t{100}), 1, 1000);
  Words logs{"logs", "-n", std::to_string(lines)};
  if (arguments.value("stderr", false)) logs.emplace_back("--err");
  logs.push_back(words.back());
  return logs;
}

Result<Words> ListWords(const Json& arguments) {
  Words words{"list"};
  for (const char* name : {"state", "user", "name", "account", "class"}) {
    const std::string value = CARMA_TRY(TextOf(arguments, name));
    if (!value.empty()) words.push_back(fmt::format("--{}={}", name, value));
  }
  return words;
}

Result<std::string> OptionWord(const std::string& name, const Json& value) {
  const task::OptionInfo* known = name.size() > 1 ? task::FindOption(name) : nullptr;
  if (known == nullptr) {
    Words names;
    for (const task::OptionInfo& each : task::SubmitOptions()) names.emplace_back(each.name);
    return Invalid("options: no option '{}'{}", base::Printable(name, 40),
                   base::Suggestion(name, names));
  }
  if (known->value.empty()) {
    if (!value.is_boolean()) return Invalid("options: {}: expected true or false", name);
    return value == true ? "--" + name : std::string();
  }
  return fmt::format("--{}={}", name, value.is_string() ? value.get<std::string>() : value.dump());
}

Result<Words> Submission(const Json& arguments, Words words) {
  const Words command = CARMA_TRY(TextsOf(arguments, "command"));
  if (const auto options = arguments.find("options"); options != arguments.end()) {
    for (const auto& [name, value] : options->items()) {
      const std::string word = CARMA_TRY(OptionWord(name, value));
      if (!word.empty()) words.push_back(word);
    }
  }
  // A word that begins with a dash would be read as an option.
  if (command.front().starts_with('-'))
    return Invalid("command: expected a program as its first item");
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

Result<Words> EstimateWords(const Json& arguments) {
  Words words = CARMA_TRY(TextsOf(arguments, "words"));
  for (const std::string& word : words) {
    if (word == "--") break;
    if (word.starts_with("--run") || word.starts_with("--reset"))
      return Invalid("words: {} is not allowed here, because it runs or changes something", word);
  }
  words.insert(words.begin(), "estimate");
  return words;
}

constexpr std::array kTools{
    Tool{"list", "List unfinished tasks, or tasks by state, user, name, account and class", &OfList,
         &ListWords},
    Tool{"gpus", "List GPUs with their memory, activity and tasks", &OfNothing,
         [](const Json&) -> Result<Words> { return Words{"gpus"}; }},
    Tool{"show", "Show one task's details", &OfTask,
         [](const Json& arguments) { return VerbOfTask("show", arguments); }},
    Tool{"explain", "Explain why a task is waiting, GPU by GPU, or how it ended", &OfTask,
         [](const Json& arguments) { return VerbOfTask("explain", arguments); }},
    Tool{"logs", "Print the last lines of a task's output (default: 100)", &OfLogs, &LogsWords},
    Tool{"preview",
         "Dry run of a submission: whether it would be accepted and could start now, and its "
         "predicted memory",
         &OfSubmission,
         [](const Json& arguments) {
           return Submission(arguments, {"submit", "--check"});
         }},
    Tool{"estimate", "Predict the GPU memory of a training run from a model summary or a script",
         &OfEstimate, &EstimateWords},
    Tool{"submit", "Submit a task and print its number", &OfSubmission,
         [](const Json& arguments) { return Submission(arguments, {"submit"}); }, true},
    Tool{"cancel", "Cancel a task, running or waiting", &OfTask,
         [](const Json& arguments) { return VerbOfTask("cancel", arguments); }, true},
};

Json Described(const Tool& tool) {
  return {{"name", tool.name},
          {"description", tool.description},
          {"inputSchema", tool.schema()},
          {"annotations",
           {{"readOnlyHint", !tool.changes},
            {"destructiveHint", std::string_view(tool.name) == "cancel"}}}};
}

std::string Reply(const Json& id, const char* key, Json value) {
  return base::DumpJson({{"jsonrpc", "2.0"}, {"id", id}, {key, std::move(value)}});
}
std::string Error(const Json& id, int code, const std::string& message) {
  return Reply(id, "error", {{"code", code}, {"message", message}});
}
Json Said(const std::string& text, bool wrong) {
  return {{"content", Json::array({{{"type", "text"}, {"text", text}}})}, {"isError", wrong}};
}

}  // namespace

McpServer::McpServer(Run run, bool changes, std::string version)
    : run_(std::move(run)), changes_(changes), version_(std::move(version)) {}

std::optional<std::string> McpServer::Answer(std::string_view line) const {
  const Result<Json> message = base::ParseJson(line);
  if (!message) return Error(nullptr, kParseError, message.error().message);
  if (!message->is_object() || !message->contains("method") || !message->at("method").is_string())
    return Error(nullptr, kInvalidRequest, "expected a request with a method");
  const std::string method = message->at("method").get<std::string>();
  const auto found = message->find("id");
  if (found == message->end()) return std::nullopt;
  const Json& id = *found;
  if (method == "initialize") {
    return Reply(id, "result",
                 {{"protocolVersion", kProtocol},
                  {"capabilities", {{"tools", Json::object()}}},
                  {"serverInfo", {{"name", "carma"}, {"version", version_}}}});
  }
  if (method == "ping") return Reply(id, "result", Json::object());
  if (method == "tools/list") {
    Json tools = Json::array();
    for (const Tool& tool : kTools) {
      if (changes_ || !tool.changes) tools.push_back(Described(tool));
    }
    return Reply(id, "result", {{"tools", std::move(tools)}});
  }
  if (method != "tools/call") return Error(id, kUnknownMethod, "unknown method " + method);
  const Json parameters = message->value("params", Json::object());
  if (!parameters.is_object() || !parameters.contains("name") || !parameters.at("name").is_string())
    return Error(id, kInvalidParameters, "expected a tool name");
  const std::string name = parameters.at("name").get<std::string>();
  const auto* tool =
      std::ranges::find_if(kTools, [&](const Tool& each) { return each.name == name; });
  if (tool == kTools.end()) return Error(id, kInvalidParameters, "no tool '" + name + "'");
  if (tool->changes && !changes_) {
    return Reply(
        id, "result",
        Said(name + " is not allowed here: carma mcp was started without --allow-changes", true));
  }
  const Json arguments = parameters.value("arguments", Json::object());
  if (!arguments.is_object()) return Error(id, kInvalidParameters, "arguments: expected an object");
  const Result<Unit> checked = CheckArguments(tool->schema(), arguments);
  const Result<Words> words = checked ? tool->words(arguments) : std::unexpected(checked.error());
  if (!words) return Reply(id, "result", Said(words.error().message, true));
  const McpRan ran = run_(*words);
  return Reply(id, "result", Said(ran.text, ran.exit_code != 0));
}

}  // namespace carma::cli
