// Plays a scenario by giving its events to a shell and checking the core's actions.
#include <fmt/format.h>

#include <optional>
#include <variant>

#include "tests/scenario/clause.h"
#include "tests/scenario/expectations.h"
#include "tests/scenario/news.h"
#include "tests/scenario/scenario.h"
#include "tests/scenario/scenario_events.h"
#include "tests/scenario/scenario_world.h"

namespace carma::sim {
namespace {

using core::TaskId;

class Player {
 public:
  Player(const Scenario& scenario, ScenarioShell& shell)
      : scenario_(scenario), shell_(shell), world_(scenario.gpus.size(), scenario.window) {}

  Result<Unit> Play() {
    if (auto opened = shell_.Open(scenario_.policy, scenario_.gpus, scenario_.host); !opened)
      return opened;
    if (auto sampled = Bring(world_.Samples(shell_.Now())); !sampled) return sampled;
    for (const ScenarioLine& line : scenario_.lines) {
      if (!line.continues) {
        if (auto nothing = NothingLeft(); !nothing) return nothing;
      }
      line_ = &line;
      if (auto played = PlayLine(line); !played) return played;
    }
    return NothingLeft();
  }

 private:
  std::unexpected<base::Error> Bad(ErrorCode code, std::string_view what) const {
    return base::Fail(code,
                      fmt::format("{}:{}: {}", scenario_.file, line_ ? line_->number : 0, what));
  }

  Result<Unit> PlayLine(const ScenarioLine& line) {
    if (auto moved = AdvanceTo(line.at); !moved) return moved;
    std::vector<core::Event> events;
    for (const Clause& clause : line.happens) {
      if (clause.verb == "restart") {
        if (auto restarted = Restart(); !restarted) return restarted;
        continue;
      }
      ClauseReader in(clause);
      for (core::Event& event : events_.Of(clause, in)) events.push_back(std::move(event));
      if (in.error()) return Bad(ErrorCode::kInvalid, *in.error());
    }
    if (!events.empty()) {
      if (auto brought = Bring(events); !brought) return brought;
    }
    for (const Clause& clause : line.expects) {
      ClauseReader in(clause);
      const Mismatch wrong = expectations_.Compare(clause, in, news_, wake_);
      if (in.error()) return Bad(ErrorCode::kInvalid, *in.error());
      if (wrong) return Bad(ErrorCode::kConflict, *wrong + Pending());
    }
    if (const auto wrong = shell_.scheduler().CheckBooks()) {
      return Bad(ErrorCode::kConflict, "the core's records contradict each other: " + *wrong);
    }
    return Unit{};
  }

  // ---- bringing events ----

  Result<Unit> AdvanceTo(core::Time when) {
    while (next_sample_ <= when) {
      if (auto moved = shell_.AdvanceTo(next_sample_); !moved) return moved;
      if (auto brought = Bring(world_.Samples(next_sample_)); !brought) return brought;
      next_sample_ += scenario_.sample_period;
    }
    if (auto moved = shell_.AdvanceTo(when); !moved) return moved;
    return AnswerEstimates();
  }

  Result<Unit> Bring(const std::vector<core::Event>& events) {
    if (auto injected = shell_.Inject(events); !injected) return injected;
    return AnswerEstimates();
  }

  Result<Unit> Restart() {
    world_.StartWindows(shell_.Now());
    if (auto restarted = shell_.Restart(); !restarted) return restarted;
    return Bring(world_.Samples(shell_.Now()));
  }

  Result<Unit> AnswerEstimates() {
    while (true) {
      Absorb();
      std::vector<core::Event> answers;
      answers.reserve(asked_.size());
      for (const TaskId id : asked_) answers.emplace_back(events_.Answer(id));
      asked_.clear();
      if (answers.empty()) return Unit{};
      if (auto injected = shell_.Inject(answers); !injected) return injected;
    }
  }

  void Absorb() {
    for (TimedAction& action : shell_.TakeActions()) {
      if (const auto* asks = std::get_if<core::RequestEstimate>(&action.action)) {
        if (!events_.AnswersLater(asks->id)) asked_.push_back(asks->id);
      } else if (const auto* wake = std::get_if<core::WakeAt>(&action.action)) {
        wake_ = wake->when;
      } else if (const auto* start = std::get_if<core::StartTask>(&action.action)) {
        seen_.attempt[start->id] = start->attempt;
        seen_.placed[start->id] = start->placement;
        news_.push_back(
            {.kind = News::Kind::kStart, .task = start->id, .when = action.when, .start = *start});
      } else if (const auto* stop = std::get_if<core::StopTask>(&action.action)) {
        news_.push_back(
            {.kind = News::Kind::kStop, .task = stop->id, .when = action.when, .stop = *stop});
      } else if (const auto* warn = std::get_if<core::WarnTask>(&action.action)) {
        news_.push_back({.kind = News::Kind::kWarn, .task = warn->id, .when = action.when});
      } else if (const auto* ask = std::get_if<core::AskToSave>(&action.action)) {
        news_.push_back({.kind = News::Kind::kAsk, .task = ask->id, .when = action.when});
      } else if (const auto* changed = std::get_if<core::TaskChanged>(&action.action)) {
        Note(changed->record, action.when);
      }
    }
  }

  void Note(const core::TaskRecord& record, core::Time when) {
    const auto known = seen_.state.find(record.id);
    const bool moved = known == seen_.state.end() || known->second.first != record.state ||
                       known->second.second != record.queue;
    seen_.state[record.id] = {record.state, record.queue};
    if (!moved) return;
    News news{.task = record.id, .when = when, .record = record};
    if (record.state == core::TaskState::kQueued) {
      news.kind = News::Kind::kQueue;
    } else if (record.state == core::TaskState::kRejected) {
      news.kind = News::Kind::kReject;
    } else if (core::IsFinal(record.state)) {
      news.kind = News::Kind::kEnd;
    } else {
      return;
    }
    news_.push_back(std::move(news));
  }

  Result<Unit> NothingLeft() {
    for (const News& news : news_) {
      if (Unexpected(news)) return Bad(ErrorCode::kConflict, "unexpected " + Describe(news));
    }
    news_.clear();
    return Unit{};
  }

  std::string Pending() const {
    std::string text;
    for (const News& news : news_) {
      if (!news.expected) text += (text.empty() ? "; there is: " : ", ") + Describe(news);
    }
    return text;
  }

  const Scenario& scenario_;
  ScenarioShell& shell_;
  ScenarioWorld world_;
  const ScenarioLine* line_ = nullptr;
  core::Time next_sample_ = core::Time{} + scenario_.sample_period;
  std::vector<News> news_;
  std::vector<TaskId> asked_;  // tasks whose estimates must be answered
  SeenTasks seen_;
  ScenarioEvents events_{shell_, world_, seen_};
  Expectations expectations_{shell_, scenario_.gpus.size()};
  std::optional<core::Time> wake_;
};

}  // namespace

Result<Unit> RunScenario(const Scenario& scenario, ScenarioShell& shell) {
  return Player(scenario, shell).Play();
}

}  // namespace carma::sim
