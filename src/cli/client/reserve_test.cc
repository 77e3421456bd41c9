// Tests `carma reserve` by running the whole command against a fake daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

#include "api/gpu_view.h"
#include "api/reservation_view.h"
#include "api/views.h"
#include "base/json.h"
#include "cli/client/app_fixture.h"

namespace carma::cli {
namespace {

TEST_F(App, TheEndOfAReservationCountsFromItsStart) {
  daemon_.On("GET /v1/status", [](const api::Request&) { return JsonAnswer({{"now_ms", 5000}}); });
  daemon_.On("POST /v1/reservations", [this](const api::Request& request) {
    body_ = base::ParseJson(request.body).value();
    return JsonAnswer(ToJson(api::ReservationView{.id = 1}), 201);
  });
  const auto reserve = [this](const std::string& from, const std::string& to) {
    return Run({"reserve", "--for", "nobody", "--count", "1", "--from", from, "--to", to});
  };
  EXPECT_EQ(reserve("+1h", "+3h").exit_code, 0);
  EXPECT_EQ(body_["from_ms"], 3'605'000);
  EXPECT_EQ(body_["length_s"], 10'800);
  EXPECT_EQ(reserve("+1h", "now+3h").exit_code, 0);
  EXPECT_EQ(body_["length_s"], 7'200) << "now+3h counts from now, not from the start";
  for (const char* to : {"now+1h", "now+30m", "1970-01-01T00:00Z"}) {
    const Ran ran = reserve("+2h", to);
    EXPECT_EQ(ran.exit_code, 2) << to;
    EXPECT_THAT(ran.err, ::testing::HasSubstr("--to: expected a time after --from (")) << to;
  }
  EXPECT_THAT(Run({"reserve", "--help"}).out, ::testing::HasSubstr("+2h counts from the start"));
}

TEST_F(App, ListingReservationsTakesNoOptionsOfANewOne) {
  daemon_.On("GET /v1/reservations", [](const api::Request&) {
    return JsonAnswer({{"reservations", base::Json::array()}});
  });
  EXPECT_EQ(Run({"reserve", "list", "--json"}).exit_code, 0);
  for (const char* place : {"before", "after"}) {
    const Ran ran = place == std::string("before") ? Run({"reserve", "--for", "ada", "list"})
                                                   : Run({"reserve", "list", "--for", "ada"});
    EXPECT_EQ(ran.exit_code, 2) << place;
    EXPECT_THAT(ran.err, ::testing::HasSubstr("--for")) << place;
  }
}

TEST_F(App, ARepeatedReservationIsAsLongAsTheClockShows) {
  ::setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);  // summer time begins on 2026-03-29
  ::tzset();
  daemon_.On("GET /v1/status", [](const api::Request&) { return JsonAnswer({{"now_ms", 5000}}); });
  daemon_.On("POST /v1/reservations", [this](const api::Request& request) {
    body_ = base::ParseJson(request.body).value();
    return JsonAnswer(ToJson(api::ReservationView{.id = 1}), 201);
  });
  for (const auto& [repeat, hours] : {std::pair("once", 23), {"daily", 24}}) {
    EXPECT_EQ(Run({"reserve", "--for", "nobody", "--count", "1", "--from", "2026-03-29T00:00",
                   "--to", "2026-03-30T00:00", "--repeat", repeat})
                  .exit_code,
              0);
    EXPECT_EQ(body_["length_s"], hours * 3600) << repeat;
  }
  ::unsetenv("TZ");
  ::tzset();
}

TEST_F(App, TheListOfReservationsShowsWhatTheirGpusAreChosenFrom) {
  daemon_.On("GET /v1/reservations", [](const api::Request&) {
    base::Json reservations = base::Json::array();
    for (const api::ReservationView& view :
         {api::ReservationView{.id = 1, .count = 1, .gpu_indices = {0}},
          api::ReservationView{.id = 2, .gpu_type = "v100", .count = 1, .gpu_indices = {3}},
          api::ReservationView{.id = 3, .gpus = {"GPU-a", "GPU-b"}, .count = 1, .gpu_indices = {1}},
          api::ReservationView{.id = 4, .gpu_type = "v100", .gpu_indices = {2, 3}},
          api::ReservationView{.id = 5, .gpus = {"GPU-c"}, .missing_gpus = {"GPU-c"}},
          api::ReservationView{
              .id = 6, .gpus = {"GPU-c", "GPU-d"}, .gpu_indices = {5}, .missing_gpus = {"GPU-c"}},
          api::ReservationView{.id = 7, .gpu_type = "h100", .count = 1},
          api::ReservationView{.id = 8, .gpu_type = "h100"}})
      reservations.push_back(ToJson(view));
    return JsonAnswer({{"reservations", reservations}});
  });
  const std::string list = Run({"reserve", "list"}).out;
  for (const char* gpus :
       {" 0 (1 of any) ", " 3 (1 of v100) ", " 1 (1 of those named) ", " 2,3  ",
        " GPU-c (missing) ", " 5,GPU-c (missing) ", " none (1 of h100) ", " none of h100 "})
    EXPECT_THAT(list, ::testing::HasSubstr(gpus));
}

TEST_F(App, AReservationWarnsOfTasksAndDrainedGpus) {
  std::vector<std::uint64_t> others{1, 4};
  bool holds = true;
  daemon_.On("GET /v1/status", [](const api::Request&) { return JsonAnswer({{"now_ms", 5000}}); });
  daemon_.On("POST /v1/reservations", [&](const api::Request&) {
    return JsonAnswer(ToJson(api::ReservationView{
                          .id = 1, .holds = holds, .gpu_indices = {0, 1}, .others = others}),
                      201);
  });
  daemon_.On("GET /v1/gpus", [](const api::Request&) {
    base::Json gpus = base::Json::array();
    for (const auto& [index, state] : {std::pair(0, "mix"), {1, "drng"}, {2, "drain"}})
      gpus.push_back(ToJson(api::GpuView{.index = index, .state = state}));
    return JsonAnswer({{"gpus", gpus}});
  });
  const std::vector<std::string> words{"reserve", "--for", "nobody",     "--gpus", "0,1",
                                       "--from",  "+1h",   "--for-time", "1h"};
  const std::string drained =
      "carma: warning: GPU 1 is drained: no task will start there until you run carma resume 1\n";
  EXPECT_EQ(Run(words).err,
            "carma: warning: tasks 1, 4 of other users are still running there and will be allowed "
            "to finish\n" +
                drained);
  others = {4};
  EXPECT_EQ(Run(words).err,
            "carma: warning: task 4 of other users is still running there and will be allowed to "
            "finish\n" +
                drained);
  holds = false;
  EXPECT_EQ(Run(words).err,
            "carma: warning: task 4 of other users may still be running there when it begins, and "
            "will be allowed to finish\n" +
                drained);
}

}  // namespace
}  // namespace carma::cli
