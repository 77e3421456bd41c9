// Tests that views survive the conversion to JSON and back, and that the API's description is
// complete.
#include "api/views.h"
#include "api/explain_view.h"
#include "api/gpu_view.h"
#include "api/knowledge_view.h"
#include "api/reservation_view.h"
#include "api/status_view.h"
#include "api/task_view.h"

#include <gtest/gtest.h>

#include "api/changes_view.h"
#include "api/lease_view.h"
#include "api/openapi.h"
#include "api/overview.h"
#include "api/token_view.h"
#include "api/usage_view.h"
#include "base/json.h"
#include "base/test_fields.h"
#include "base/text.h"

namespace carma::api {
namespace {

using base::Json;

TaskView FullTask() {
  return {.id = 42,
          .name = "resnet \"50\"\n",
          .user = "ann",
          .uid = 1000,
          .state = "running",
          .reason = "GpuMemory",
          .reason_text = "needs 12000 MiB",
          .gpus = 2,
          .gpu_type = "a100",
          .gpu_memory_min_mib = 40'960,
          .on_gpus = {"0", "3"},
          .not_on_gpus = {"1"},
          .linked_gpus = true,
          .gpu_indices = {0, 3},
          .gpu_uuids = {"GPU-a", "GPU-b"},
          .claim_mib = 12'000,
          .others_claim_mib = 8'000,
          .predicted_mib = 10'000,
          .bound_mib = 11'500,
          .estimate_method = "given",
          .estimate_remarks = {"assumed Adam"},
          .observed_mib = 9'000,
          .over_promise_mib = 500,
          .wrong_gpus = {2},
          .peak_mib = 9'500,
          .exclusive = true,
          .priority = -5,
          .attempt = 2,
          .ooms = 1,
          .queue = "recovery",
          .submitted_ms = 1,
          .waiting_since_ms = 1,
          .latest_start_ms = 9,
          .likely_start_ms = 8,
          .first_start_ms = 2,
          .launched_ms = 3,
          .attempt_ended_ms = 3,
          .ended_ms = 4,
          .time_limit_s = 1.5,
          .exit_code = 1,
          .signal = 9,
          .exit_detail = "CUDA out of memory",
          .placement_reason = "most free memory",
          .stdout_path = "/home/ann/o",
          .stderr_path = "/home/ann/e",
          .workdir = "/home/ann",
          .command = {"python", "train.py", ""},
          .array_id = 40,
          .array_index = 2,
          .pid = 4711,
          .comment = "try",
          .origin = "lease",
          .account = "vision",
          .qos = "background",
          .sharing = "mps",
          .memory_limit_mib = 12'500,
          .group_limit_mib = 13'000,
          .thread_percent = 30,
          .partition_sms = 56,
          .sharing_note = "the server is another user's",
          .sm_share = 0.3,
          .max_slowdown = 2.5,
          .serve = true,
          .cpus = 4,
          .host_memory_mib = 32'000,
          .own_cpus = true,
          .own_cores = "0-3",
          .host_note = "no cgroups",
          .idle_since_ms = 6,
          .checkpoint_signal = "USR1",
          .no_slots = true,
          .checkpoints = 2,
          .leaves_by_ms = 7,
          .turn_ends_ms = 8,
          .progress = task::ProgressReport{.phase = "train", .unit = "step", .done = 3}};
}

KnowledgeView FullKnowledge() {
  const RunView run{{.task = core::TaskId{7},
                     .when = base::FromMs(5),
                     .relation = "1000-5a",
                     .batch = 32,
                     .length = 2'048,
                     .gpu_type = "A100",
                     .method = "structural",
                     .predicted_mib = 8'000,
                     .promised_mib = 9'000,
                     .measured_mib = 8'100,
                     .allocated_mib = 6'500,
                     .ran_out = true}};
  return {.method = "auto",
          .prefer_given = false,
          .coverage = 0.9,
          .gpu_type = "A100",
          .gpu_mib = 40'000,
          .learns = true,
          .taught_by = "H100",
          .tasks = 12,
          .context_shift_mib = -1'180.5,
          .ratios = {0.9, 1.1},
          .calibration = "learned from 6 small models",
          .runs = {run},
          .kin_runs = {run, run},
          .sm_active = 0.4,
          .sensitivity = 1.5,
          .pressure = 0.25,
          .alone_ms = 90'000,
          .iteration_ms = 31.25,
          .profile_by = "carma profile"};
}

GpuView FullGpu() {
  return {.index = 3,
          .uuid = "GPU-b",
          .name = "A100",
          .state = "mix",
          .trouble = "none",
          .total_mib = 40'960,
          .reserved_mib = 500,
          .used_mib = 20'000,
          .claimed_mib = 24'000,
          .foreign_mib = 700,
          .free_mib = 16'000,
          .sm_active = 0.5,
          .sm_active_now = 0.25,
          .power_w = 212.5,
          .energy_j = 1e6,
          .temperature_c = 61,
          .sample_age_ms = 800,
          .foreign_processes = 1,
          .tasks = {{.id = 42,
                     .user = "ann",
                     .name = "r",
                     .claim_mib = 1,
                     .promised_mib = 5,
                     .plateau = true,
                     .observed_mib = 2,
                     .peak_mib = 3,
                     .sharing = "mps",
                     .sm_active = 0.25,
                     .sm_active_by = "kernel-time",
                     .idle_since_ms = 4}},
          .foreign = {{.pid = 9, .user = "bob", .command = "python x.py", .used_mib = 600}},
          .unattributed_mib = 80,
          .alerts = {"3000 MiB belong to no process"},
          .drained_by_rule = true,
          .leave_by_ms = 5,
          .sm_active_p95 = 0.9,
          .sm_active_ewma = 0.6,
          .metrics = {{.name = "dram_active", .value = 0.4, .source = "gpm"}},
          .activity_source = "gpm",
          .activity_rule = "at most two tasks",
          .mig_profile = "3g.20gb",
          .mig_parent = "GPU-a",
          .linked_to = {2},
          .reserved = {
              {.id = 4, .whom = "ada", .why = "demo", .from_ms = 1, .to_ms = 2, .holds = true}}};
}

GpuHistoryView FullHistory() {
  return {.index = 3,
          .uuid = "GPU-b",
          .name = "A100",
          .points = {{.from_ms = 1,
                      .to_ms = 2,
                      .sm_active = 0.5,
                      .sm_peak = 0.75,
                      .dram_active = 0.25,
                      .used_mib = 1000.5,
                      .used_peak_mib = 2000,
                      .power_w = 250,
                      .tasks = 2}}};
}

ExplainView FullExplain() {
  return {.task = FullTask(),
          .gpus = {{.gpu = 1,
                    .fit = "never",
                    .reason = "GpuMemory",
                    .reason_text = "too small",
                    .claimed_mib = 3,
                    .promised_mib = 2,
                    .used_mib = 1}},
          .host = {.fit = "not_now",
                   .reason = "Cpus",
                   .reason_text = "too few",
                   .wants_cpus = 8,
                   .wants_memory_mib = 100,
                   .cpus = 16,
                   .free_cpus = 4,
                   .memory_mib = 64'000,
                   .free_memory_mib = 1'000},
          .ahead = 7,
          .policy = "magm",
          .collocation = "streams",
          .taught_mib = 6};
}

EventView FullEvent() {
  return {.sequence = 9, .when_ms = 5, .task = 42, .gpu_uuid = "GPU-a", .what = "oom", .text = "t"};
}

StatusView FullStatus() {
  return {.version = "0.1.0",
          .uid = 1000,
          .pid = 77,
          .now_ms = 5,
          .time_scale = 60,
          .policy = "magm",
          .collocation = "mps",
          .driver = "ok",
          .host = {16, 4, 64'000, 1'000, "memory", "its cores"},
          .task_counts = {{"queued", 2}, {"running", 1}},
          .troubles = {"disk nearly full"},
          .state_dir = "/var/lib/carma",
          .config_file = "/srv/carma.toml",
          .config_read_ms = 4,
          .config_needs_restart = {"monitor.window"}};
}

// Checks that a view converted to JSON and back yields the same JSON text.
template <class View>
void ExpectRoundTrip(const View& view) {
  const std::string text = base::DumpJson(ToJson(view));
  const auto parsed = base::ParseJson(text);
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto back = FromJson<View>(*parsed);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(base::DumpJson(ToJson(*back)), text);
}

TEST(Views, FullViewsSurviveTheRoundTrip) {
  ExpectRoundTrip(FullTask());
  ExpectRoundTrip(FullGpu());
  ExpectRoundTrip(FullHistory());
  ExpectRoundTrip(FullExplain());
  ExpectRoundTrip(FullKnowledge());
  ExpectRoundTrip(FullEvent());
  ExpectRoundTrip(FullStatus());
}

TEST(Views, EmptyViewsSurviveTheRoundTrip) {
  ExpectRoundTrip(TaskView{});
  ExpectRoundTrip(GpuView{});
  ExpectRoundTrip(GpuHistoryView{});
  ExpectRoundTrip(GpuHistoryView{.points = {{}}});
  ExpectRoundTrip(ExplainView{});
  ExpectRoundTrip(KnowledgeView{});
  ExpectRoundTrip(EventView{});
  ExpectRoundTrip(StatusView{});
  ExpectRoundTrip(OverviewView{.gpus = {{}}, .running = {{}}});
  ExpectRoundTrip(UserView{});
  ExpectRoundTrip(UsageView{.user = "ada", .tasks = 2, .gpu_s = 1.5, .energy_j = 3});
  ExpectRoundTrip(LeaseView{.id = 7, .state = "granted", .pid = 4711, .gpu_uuids = {"GPU-a"}});
  ExpectRoundTrip(TokenView{.id = 1, .name = "laptop", .token = "carma_0"});
  ExpectRoundTrip(WhoView{});
  ExpectRoundTrip(ChangesView{.tasks = {TaskView{}}, .refused = {{3, "denied", "not yours"}}});
}

TEST(Views, ReadsWhatItWrites) {
  const auto task = FromJson<TaskView>(ToJson(FullTask()));
  ASSERT_TRUE(task);
  EXPECT_EQ(task->command, FullTask().command);
  EXPECT_EQ(task->array_id, 40u);
  EXPECT_EQ(task->pid, 4711u);
  EXPECT_EQ(task->signal, 9);
  EXPECT_EQ(task->gpu_indices, (std::vector<std::int64_t>{0, 3}));
}

TEST(Views, IgnoresUnknownFields) {
  Json json = ToJson(FullEvent());
  json["invented_later"] = Json::array({1, 2});
  EXPECT_TRUE(FromJson<EventView>(json));
}

TEST(Views, MistakesAreNamedByPointer) {
  struct Case {
    const char* what;
    Json json;
    const char* message;
  };
  const Case cases[] = {
      {"a string for a number", {{"id", "x"}}, "/id: expected a whole number"},
      {"a negative id", {{"id", -1}}, "/id: expected a whole number"},
      {"a number in a list of strings", {{"command", {1}}}, "/command: expected a list"},
      {"a string in a list of numbers", {{"gpu_indices", {"a"}}}, "/gpu_indices: expected a list"},
      {"no object", Json::array(), "expected an object"},
  };
  for (const Case& c : cases) {
    const auto view = FromJson<TaskView>(c.json);
    ASSERT_FALSE(view) << c.what;
    EXPECT_NE(view.error().message.find(c.message), std::string::npos)
        << c.what << ": " << view.error().message;
  }
  const auto gpu = FromJson<GpuView>({{"tasks", {{{"id", 1}}, {{"id", "x"}}}}});
  ASSERT_FALSE(gpu);
  EXPECT_NE(gpu.error().message.find("/tasks/1"), std::string::npos) << gpu.error().message;
  const auto history = FromJson<GpuHistoryView>({{"points", {{{"tasks", -1}}}}});
  ASSERT_FALSE(history);
  EXPECT_NE(history.error().message.find("/points/0"), std::string::npos)
      << history.error().message;
}

TEST(Views, NameEveryMember) {
  EXPECT_TRUE(base::NamesEveryMember<TaskView>());
  EXPECT_TRUE(base::NamesEveryMember<GpuTaskView>());
  EXPECT_TRUE(base::NamesEveryMember<ForeignView>());
  EXPECT_TRUE(base::NamesEveryMember<GpuView>());
  EXPECT_TRUE(base::NamesEveryMember<GpuView::Metric>());
  EXPECT_TRUE(base::NamesEveryMember<GpuView::Reserved>());
  EXPECT_TRUE(base::NamesEveryMember<ReservationView>());
  EXPECT_TRUE(base::NamesEveryMember<GpuHistoryView>());
  EXPECT_TRUE(base::NamesEveryMember<GpuHistoryView::Point>());
  EXPECT_TRUE(base::NamesEveryMember<VerdictView>());
  EXPECT_TRUE(base::NamesEveryMember<HostVerdictView>());
  EXPECT_TRUE(base::NamesEveryMember<HostView>());
  EXPECT_TRUE(base::NamesEveryMember<ExplainView>());
  EXPECT_TRUE(base::NamesEveryMember<KnowledgeView>());
  EXPECT_TRUE(base::NamesEveryMember<EventView>());
  EXPECT_TRUE(base::NamesEveryMember<StatusView>());
  EXPECT_TRUE(base::NamesEveryMember<OverviewView>());
  EXPECT_TRUE(base::NamesEveryMember<UserView>());
  EXPECT_TRUE(base::NamesEveryMember<TokenView>());
  EXPECT_TRUE(base::NamesEveryMember<LeaseView>());
  EXPECT_TRUE(base::NamesEveryMember<UsageView>());
  EXPECT_TRUE(base::NamesEveryMember<WhoView>());
  EXPECT_TRUE(base::NamesEveryMember<ChangesView>());
  EXPECT_TRUE(base::NamesEveryMember<RefusedChange>());
}

TEST(OpenApi, DescribesTheFieldsOfEverySchema) {
  const auto document = base::ParseJson(OpenApiJson());
  ASSERT_TRUE(document) << document.error().message;
  for (const auto& [name, schema] : (*document)["components"]["schemas"].items()) {
    ASSERT_TRUE(schema.contains("properties")) << name;
    EXPECT_FALSE(schema["properties"].empty()) << name;
    for (const auto& required : schema.value("required", Json::array()))
      EXPECT_TRUE(schema["properties"].contains(required)) << name << " " << required;
  }
  const Json& task = (*document)["components"]["schemas"]["Task"]["properties"];
  const Json& spec = (*document)["components"]["schemas"]["TaskSpec"]["properties"];
  EXPECT_EQ(spec["gpus"]["default"], 1);
  EXPECT_EQ(spec["gpus"]["maximum"], 1024);
  EXPECT_EQ(spec["dependencies"]["items"]["required"], Json{"task"});
  EXPECT_EQ(spec["time_limit_s"]["type"], "number");
  EXPECT_EQ(spec["time_limit_s"]["minimum"], 0.001);
  EXPECT_EQ(spec["time_limit_s"]["maximum"], 316'224'000);
  EXPECT_EQ(task["id"]["type"], "integer");
  EXPECT_EQ(task["id"]["description"], "Task number, from 1, never reused.");
  EXPECT_EQ(task["exit_code"]["type"], (Json{"integer", "null"}));
  EXPECT_EQ(task["command"]["items"]["type"], "string");
  EXPECT_EQ(task["sharing"]["enum"], (Json{"", "alone", "streams", "mps", "mig"}));
}

TEST(OpenApi, AChangeNeedsNoFieldAndMayRemoveEach) {
  const Json document = base::ParseJson(OpenApiJson()).value();
  const Json& schemas = document["components"]["schemas"];
  EXPECT_FALSE(schemas["TaskSpec"].contains("required")) << "the workdir may be in common";
  EXPECT_FALSE(schemas["TaskChange"].contains("required"));
  EXPECT_EQ(schemas["TaskChange"]["properties"].size(), schemas["TaskSpec"]["properties"].size());
  for (const auto& [name, field] : schemas["TaskChange"]["properties"].items()) {
    EXPECT_EQ(field["type"].back(), "null") << name;
    EXPECT_FALSE(field.contains("default")) << name;
  }
  for (const auto& [call, method] :
       {std::pair("/v1/tasks/{id}", "patch"), std::pair("/v1/tasks/{id}/redo", "post")}) {
    EXPECT_EQ(document["paths"][call][method]["requestBody"]["content"]["application/json"]
                      ["schema"]["$ref"],
              "#/components/schemas/TaskChange");
  }
}

TEST(OpenApi, EveryCallMayAnswerWithAnError) {
  const Json document = base::ParseJson(OpenApiJson()).value();
  for (const auto& [path, methods] : document["paths"].items()) {
    for (const auto& [method, call] : methods.items())
      EXPECT_TRUE(call["responses"].contains("default")) << method << " " << path;
  }
}

TEST(OpenApi, EveryReferenceLeadsSomewhere) {
  const auto document = base::ParseJson(OpenApiJson());
  ASSERT_TRUE(document);
  int references = 0;
  const auto visit = [&](const auto& self, const Json& node) -> void {
    if (node.is_object() && node.contains("$ref")) {
      ++references;
      const std::string target = node["$ref"].template get<std::string>().substr(1);
      EXPECT_TRUE(document->contains(Json::json_pointer(target))) << target;
    }
    for (const auto& child : node) {
      if (child.is_structured()) self(self, child);
    }
  };
  visit(visit, *document);
  EXPECT_GT(references, 20);
}

// Expects exactly the fields that the row selects from the full view, plus `own` more.
template <class T>
void ExpectFields(const Json& json, std::size_t own) {
  const std::vector<std::string_view> selected = base::Split(T::kFields, ',');
  EXPECT_EQ(json.size(), selected.size() + own);
  for (const std::string_view name : selected) EXPECT_TRUE(json.contains(name)) << name;
}

TEST(Views, SelectedFieldsExist) {
  OverviewView view;
  view.running.emplace_back();
  view.gpus.emplace_back();
  const Json json = ToJson(view);
  ExpectFields<TaskRow>(json["running"][0], 1);
  ExpectFields<GpuGlance>(json["gpus"][0], 3);
}

}  // namespace
}  // namespace carma::api
