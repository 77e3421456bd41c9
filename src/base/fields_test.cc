// Tests the code that uses a type's list of fields: JSON conversion, value checks and the member
// count.
#include "base/fields.h"

#include <gtest/gtest.h>

#include "base/field_check.h"
#include "base/fields_json.h"
#include "base/test_fields.h"

namespace carma::base {
namespace {

bool HasNoBlank(std::string_view text) {
  return text.find(' ') == std::string_view::npos;
}

struct Inner {
  std::uint64_t id = 0;
  std::optional<double> share;

  static void VisitFields(auto& field, auto& inner) {
    field("id", inner.id, "Number.", {.low = 1, .required = true});
    field("share", inner.share, "0..1", {.least = 0, .most = 1, .expected = "a share"});
  }
  friend bool operator==(const Inner&, const Inner&) = default;
};

struct Outer {
  std::string name;
  int count = 3;
  bool on = false;
  std::uint32_t uid = 0;
  std::optional<Duration> limit;
  std::optional<Time> begin;
  Duration grace{5};
  std::vector<std::string> words;
  std::vector<double> ratios;
  std::vector<Inner> parts;
  std::map<std::string, std::string> variables;
  std::vector<std::pair<std::string, std::int64_t>> counts;

  static void VisitFields(auto& field, auto& outer) {
    field("name", outer.name, "",
          {.max_bytes = 8, .fits = HasNoBlank, .expected = "8 bytes without blanks"});
    field("count", outer.count, "", {.low = 0, .high = 9, .unless_empty = true});
    field("on", outer.on);
    field("uid", outer.uid);
    field("limit_s", outer.limit, "", {.low = 1, .high = 60'000});
    field("begin_ms", outer.begin);
    field("grace_ms", outer.grace);
    field("words", outer.words, "", {.max_items = 2, .unless_empty = true});
    field("ratios", outer.ratios);
    field("parts", outer.parts);
    field("variables", outer.variables);
    field("counts", outer.counts);
  }
  friend bool operator==(const Outer&, const Outer&) = default;
};

Outer Full() {
  return {.name = "a",
          .count = 7,
          .on = true,
          .uid = 5,
          .limit = Duration(1500),
          .begin = FromMs(9),
          .grace = Duration(8),
          .words = {"x", "y"},
          .ratios = {0.5, 2},
          .parts = {{.id = 1, .share = 0.25}, {.id = 2}},
          .variables = {{"A", "1"}},
          .counts = {{"idle", 2}}};
}

TEST(Fields, SurviveJson) {
  for (const Absent absent : {Absent::kNull, Absent::kLeftOut}) {
    for (const Outer& value : {Full(), Outer{}}) {
      const Json json = FieldsToJson(value, absent);
      const Result<Outer> back = FieldsFromJson<Outer>(json, "", Unknown::kRefused);
      ASSERT_TRUE(back) << back.error().message;
      EXPECT_EQ(*back, value);
    }
  }
}

TEST(Fields, AreWrittenByTheirRules) {
  EXPECT_EQ(DumpJson(FieldsToJson(Full(), Absent::kLeftOut)),
            R"({"begin_ms":9,"count":7,"counts":{"idle":2},"grace_ms":8,"limit_s":1.5,"name":"a",)"
            R"("on":true,"parts":[{"id":1,"share":0.25},{"id":2}],"ratios":[0.5,2.0],"uid":5,)"
            R"("variables":{"A":"1"},"words":["x","y"]})");
  Outer none;
  none.count = 0;
  const Json json = FieldsToJson(none, Absent::kNull);
  EXPECT_TRUE(json.contains("begin_ms") && json["begin_ms"].is_null());
  EXPECT_FALSE(json.contains("count"));
  EXPECT_FALSE(json.contains("words"));
}

TEST(Fields, MistakesAreNamedByPointer) {
  const std::pair<Json, const char*> cases[] = {
      {Json::array(), "/top: expected an object"},
      {{{"count", 10}}, "/top/count: expected a whole number from 0 to 9"},
      {{{"uid", -1}}, "/top/uid: expected a whole number from 0 to 4294967295"},
      {{{"limit_s", 61}}, "/top/limit_s: expected a number from 0.001 to 60"},
      {{{"words", {"a", "b", "c"}}}, "/top/words: expected a list of at most 2 strings"},
      {{{"ratios", {"a"}}}, "/top/ratios: expected a list of numbers"},
      {{{"parts", {{{"id", 1}}, {{"share", 1}}}}}, "/top/parts/1/id: expected a value"},
      {{{"parts", {{{"id", 1}, {"x", 1}}}}}, "/top/parts/0/x: unknown field"},
      {{{"variables", {{"A", 1}}}}, "/top/variables: expected strings as values"},
      {{{"color", 1}}, "/top/color: unknown field"},
  };
  for (const auto& [json, message] : cases) {
    const Result<Outer> value = FieldsFromJson<Outer>(json, "/top", Unknown::kRefused);
    ASSERT_FALSE(value) << message;
    EXPECT_EQ(value.error().message, message);
  }
  EXPECT_TRUE(FieldsFromJson<Outer>({{"color", 1}}, "", Unknown::kPassedOver));
}

TEST(Fields, AbsentFieldsKeepTheirValues) {
  const Json json = {{"count", 1}, {"words", Json::array()}, {"name", nullptr}};
  const Result<Outer> value = FieldsFromJson(json, "", Unknown::kRefused, Full());
  ASSERT_TRUE(value);
  EXPECT_EQ(value->count, 1);
  EXPECT_TRUE(value->words.empty());
  EXPECT_EQ(value->name, "a");
  EXPECT_EQ(value->uid, 5u);
}

TEST(Fields, AreChecked) {
  EXPECT_TRUE(CheckFields(Full()));
  Outer wrong = Full();
  wrong.limit = Duration(60'001);
  EXPECT_EQ(CheckFields(wrong).error().message, "limit_s: expected a number from 1 to 60000");
  wrong.name = "a b";
  EXPECT_EQ(CheckFields(wrong).error().message, "name: expected 8 bytes without blanks");
  EXPECT_EQ(CheckFields(Inner{.id = 1, .share = 2}).error().message, "share: expected a share");
}

struct Forgetful {
  int told = 0;
  std::optional<std::string> forgotten;
  static void VisitFields(auto& field, auto& value) { field("told", value.told); }
};

TEST(Fields, AForgottenMemberIsFound) {
  EXPECT_TRUE(NamesEveryMember<Inner>());
  EXPECT_TRUE(NamesEveryMember<Outer>());
  EXPECT_FALSE(NamesEveryMember<Forgetful>());
}

}  // namespace
}  // namespace carma::base
