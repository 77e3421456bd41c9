// The effects of keys on the screen of `carma top`.
#include <algorithm>
#include <utility>

#include "cli/top/frame.h"

namespace carma::cli {
namespace {

using api::TaskView;

void MoveSelection(const std::vector<const TaskView*>& tasks, std::int64_t by, TopState& state) {
  if (tasks.empty()) return;
  const auto row = static_cast<std::int64_t>(SelectedRow(tasks, state)) + by;
  const auto last = static_cast<std::int64_t>(tasks.size()) - 1;
  state.selected = tasks[static_cast<std::size_t>(std::clamp<std::int64_t>(row, 0, last))]->id;
}

TopWish Move(std::int64_t by, const TopData& data, TopState& state) {
  if (state.page == TopPage::kTasks) {
    MoveSelection(ShownTasks(data, state), by, state);
  } else {
    const auto row = static_cast<std::int64_t>(state.first_row) + by;
    state.first_row = static_cast<std::size_t>(std::max<std::int64_t>(row, 0));
  }
  return {};
}

TopWish Open(TopPage page, TopState& state) {
  if (state.selected == 0 && page != TopPage::kHelp) return {};
  state.page = page;
  // Shows output from its end. The drawing code clamps this value to the real number of rows.
  state.first_row = page == TopPage::kOutput ? SIZE_MAX / 4 : 0;
  return {.kind = TopWish::Kind::kRefresh};
}

TopWish Back(TopState& state) {
  if (state.page == TopPage::kTasks) return {.kind = TopWish::Kind::kQuit};
  state.page = TopPage::kTasks;
  state.first_row = 0;
  return {.kind = TopWish::Kind::kRefresh};
}

TopWish HoldOrRelease(const TopData& data, const TopState& state) {
  for (const TaskView& task : data.tasks) {
    if (task.id != state.selected || !Waits(task)) continue;
    return {task.reason == "Held" ? TopWish::Kind::kRelease : TopWish::Kind::kHold, task.id};
  }
  return {};
}

TopWish TakeLetter(char letter, const TopData& data, TopState& state) {
  switch (letter) {
    case 'q':
      return Back(state);
    case 'e':
      return Open(TopPage::kExplanation, state);
    case 'l':
      return Open(TopPage::kOutput, state);
    case '?':
      return Open(TopPage::kHelp, state);
    case 'c':
      state.cancels = state.selected;
      return {};
    case 'h':
      return HoldOrRelease(data, state);
    case 's':
      state.sort = static_cast<TopSort>((static_cast<int>(state.sort) + 1) % 4);
      return {};
    case '/':
      state.typing = true;
      state.filter.clear();
      return {};
    case 'u':
      state.mine = !state.mine;
      return {};
    case 'a':
      state.ended = !state.ended;
      return {.kind = TopWish::Kind::kRefresh};
    case 'g':
      state.gpus = !state.gpus;
      return {};
    default:
      return {};
  }
}

void TypeFilter(const TopStroke& stroke, TopState& state) {
  constexpr std::size_t kMostLetters = 60;
  if (stroke.key == TopKey::kCharacter && state.filter.size() < kMostLetters)
    state.filter += stroke.character;
  if (stroke.key == TopKey::kBackspace && !state.filter.empty()) state.filter.pop_back();
  if (stroke.key == TopKey::kEscape) state.filter.clear();
  if (stroke.key == TopKey::kEscape || stroke.key == TopKey::kEnter) state.typing = false;
}

}  // namespace

TopWish TakeStroke(const TopStroke& stroke, const TopData& data, const TopSize& size,
                   TopState& state) {
  state.message.clear();
  if (state.typing) {
    TypeFilter(stroke, state);
    return {};
  }
  if (const std::uint64_t task = std::exchange(state.cancels, 0); task != 0) {
    const bool yes = stroke.key == TopKey::kCharacter && stroke.character == 'y';
    return yes ? TopWish{TopWish::Kind::kCancel, task} : TopWish{};
  }
  const auto rows = static_cast<std::int64_t>(BodyRows(data, state, size));
  constexpr std::int64_t kFar = 1'000'000'000;
  switch (stroke.key) {
    case TopKey::kUp:
      return Move(-1, data, state);
    case TopKey::kDown:
      return Move(1, data, state);
    case TopKey::kPageUp:
      return Move(-rows, data, state);
    case TopKey::kPageDown:
      return Move(rows, data, state);
    case TopKey::kHome:
      return Move(-kFar, data, state);
    case TopKey::kEnd:
      return Move(kFar, data, state);
    case TopKey::kEnter:
      return state.page == TopPage::kTasks ? Open(TopPage::kFacts, state) : TopWish{};
    case TopKey::kEscape:
      return Back(state);
    case TopKey::kCharacter:
      return TakeLetter(stroke.character, data, state);
    case TopKey::kBackspace:
    case TopKey::kOther:
      return {};
  }
  return {};
}

}  // namespace carma::cli
