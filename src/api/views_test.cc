// Views keep every fact on the way through JSON, and the API's description names every field.
#include "api/views.h"

#include <gtest/gtest.h>

#include <set>

#include "api/openapi.h"
#include "base/json.h"

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
          .gpu_indices = {0, 3},
          .gpu_uuids = {"GPU-a", "GPU-b"},
          .claim_mib = 12'000,
          .predicted_mib = 10'000,
          .bound_mib = 11'500,
          .estimate_method = "given",
          .estimate_remarks = {"assumed Adam"},
          .observed_mib = 9'000,
          .peak_mib = 9'500,
          .exclusive = true,
          .priority = -5,
          .attempt = 2,
          .ooms = 1,
          .queue = "recovery",
          .submitted_ms = 1,
          .first_start_ms = 2,
          .launched_ms = 3,
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
          .sharing = "mps",
          .memory_limit_mib = 12'500,
          .thread_percent = 30,
          .sharing_note = "the server is another user's",
          .sm_share = 0.3,
          .idle_since_ms = 6};
}

KnowledgeView FullKnowledge() {
  const RunView run{.task = 7,
                    .when_ms = 5,
                    .gpu_type = "A100",
                    .method = "structural",
                    .predicted_mib = 8'000,
                    .promised_mib = 9'000,
                    .measured_mib = 8'100,
                    .ran_out = true};
  return {.method = "auto",
          .coverage = 0.9,
          .gpu_type = "A100",
          .gpu_mib = 40'000,
          .learns = true,
          .taught_by = "H100",
          .tasks = 12,
          .context_shift_mib = -1'180.5,
          .ratios = {0.9, 1.1},
          .runs = {run},
          .kin_runs = {run, run}};
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
                     .observed_mib = 2,
                     .peak_mib = 3,
                     .sharing = "mps",
                     .sm_active = 0.25,
                     .sm_active_by = "kernel-time",
                     .idle_since_ms = 4}},
          .foreign = {{.pid = 9, .user = "bob", .command = "python x.py", .used_mib = 600}},
          .unattributed_mib = 80,
          .alerts = {"3000 MiB are in use by nobody"},
          .drained_by_rule = true,
          .sm_active_p95 = 0.9,
          .sm_active_ewma = 0.6,
          .metrics = {{.name = "dram_active", .value = 0.4, .source = "gpm"}},
          .activity_source = "gpm",
          .activity_rule = "at most two tasks",
          .mig_profile = "3g.20gb",
          .mig_parent = "GPU-a"};
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
          .gpus = {{.gpu = 1, .fit = "never", .reason = "GpuMemory", .reason_text = "too small"}},
          .ahead = 7,
          .policy = "magm",
          .collocation = "streams"};
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
          .task_counts = {{"queued", 2}, {"running", 1}},
          .troubles = {"disk nearly full"}};
}

// The JSON text of a view that went through JSON once is the text of the view itself.
template <class View>
void ExpectRoundTrip(const View& view, base::Result<View> (*read)(const Json&)) {
  const std::string text = base::DumpJson(ToJson(view));
  const auto parsed = base::ParseJson(text);
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto back = read(*parsed);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(base::DumpJson(ToJson(*back)), text);
}

TEST(Views, FullOnesSurviveTheRoundTrip) {
  ExpectRoundTrip(FullTask(), &TaskViewFromJson);
  ExpectRoundTrip(FullGpu(), &GpuViewFromJson);
  ExpectRoundTrip(FullHistory(), &GpuHistoryViewFromJson);
  ExpectRoundTrip(FullExplain(), &ExplainViewFromJson);
  ExpectRoundTrip(FullKnowledge(), &KnowledgeViewFromJson);
  ExpectRoundTrip(FullEvent(), &EventViewFromJson);
  ExpectRoundTrip(FullStatus(), &StatusViewFromJson);
}

TEST(Views, EmptyOnesSurviveTheRoundTrip) {
  ExpectRoundTrip(TaskView{}, &TaskViewFromJson);
  ExpectRoundTrip(GpuView{}, &GpuViewFromJson);
  ExpectRoundTrip(GpuHistoryView{}, &GpuHistoryViewFromJson);
  ExpectRoundTrip(GpuHistoryView{.points = {{}}}, &GpuHistoryViewFromJson);
  ExpectRoundTrip(ExplainView{}, &ExplainViewFromJson);
  ExpectRoundTrip(KnowledgeView{}, &KnowledgeViewFromJson);
  ExpectRoundTrip(EventView{}, &EventViewFromJson);
  ExpectRoundTrip(StatusView{}, &StatusViewFromJson);
}

TEST(Views, ReadsWhatItWrites) {
  const auto task = TaskViewFromJson(ToJson(FullTask()));
  ASSERT_TRUE(task);
  EXPECT_EQ(task->command, FullTask().command);
  EXPECT_EQ(task->array_id, 40u);
  EXPECT_EQ(task->pid, 4711u);
  EXPECT_EQ(task->signal, 9);
  EXPECT_EQ(task->gpu_indices, (std::vector<std::int64_t>{0, 3}));
}

TEST(Views, UnknownFieldsArePassedOver) {
  Json json = ToJson(FullEvent());
  json["invented_later"] = Json::array({1, 2});
  EXPECT_TRUE(EventViewFromJson(json));
}

TEST(Views, MistakesAreNamedByPointer) {
  struct Case {
    const char* what;
    Json json;
    const char* message;
  };
  const Case cases[] = {
      {"a text for a number", {{"id", "x"}}, "/id: expected a whole number"},
      {"a negative id", {{"id", -1}}, "/id: expected a whole number"},
      {"a number in a list of texts", {{"command", {1}}}, "/command: expected a list"},
      {"a text in a list of numbers", {{"gpu_indices", {"a"}}}, "/gpu_indices: expected a list"},
      {"no object", Json::array(), "expected an object"},
  };
  for (const Case& c : cases) {
    const auto view = TaskViewFromJson(c.json);
    ASSERT_FALSE(view) << c.what;
    EXPECT_NE(view.error().message.find(c.message), std::string::npos)
        << c.what << ": " << view.error().message;
  }
  const auto gpu = GpuViewFromJson({{"tasks", {{{"id", 1}}, {{"id", "x"}}}}});
  ASSERT_FALSE(gpu);
  EXPECT_NE(gpu.error().message.find("/tasks/1"), std::string::npos) << gpu.error().message;
  const auto history = GpuHistoryViewFromJson({{"points", {{{"tasks", -1}}}}});
  ASSERT_FALSE(history);
  EXPECT_NE(history.error().message.find("/points/0"), std::string::npos)
      << history.error().message;
}

std::set<std::string> Keys(const Json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

TEST(OpenApi, DescribesEveryFieldOfEveryView) {
  const auto document = base::ParseJson(kOpenApiJson);
  ASSERT_TRUE(document) << document.error().message;
  const Json& schemas = (*document)["components"]["schemas"];
  const std::pair<const char*, Json> views[] = {
      {"Task", ToJson(FullTask())},
      {"Gpu", ToJson(FullGpu())},
      {"GpuTask", ToJson(FullGpu())["tasks"][0]},
      {"Foreign", ToJson(FullGpu())["foreign"][0]},
      {"Metric", ToJson(FullGpu())["metrics"][0]},
      {"GpuHistory", ToJson(FullHistory())},
      {"GpuHistoryPoint", ToJson(FullHistory())["points"][0]},
      {"Explain", ToJson(FullExplain())},
      {"Verdict", ToJson(FullExplain())["gpus"][0]},
      {"Knowledge", ToJson(FullKnowledge())},
      {"Run", ToJson(FullKnowledge())["runs"][0]},
      {"Event", ToJson(FullEvent())},
      {"Status", ToJson(FullStatus())},
  };
  for (const auto& [name, json] : views) {
    EXPECT_EQ(Keys(schemas[name]["properties"]), Keys(json)) << name;
  }
}

TEST(OpenApi, EveryReferenceLeadsSomewhere) {
  const auto document = base::ParseJson(kOpenApiJson);
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

}  // namespace
}  // namespace carma::api
