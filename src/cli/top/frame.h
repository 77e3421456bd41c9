// The `carma top` screen: what it shows and what each key does. This code handles only plain
// values; cli/top/curses.h drives the terminal.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/overview.h"
#include "api/task_view.h"
#include "cli/terminal.h"

namespace carma::cli {

// The server's data.
struct TopData {
  api::OverviewView server;
  std::vector<api::TaskView> tasks;             // as listed by the daemon
  std::map<std::uint64_t, std::string> output;  // last output line of running tasks
  std::string trouble;                          // why the data is out of date; empty if current
  std::string page;                             // text of the selected task's page (TopState::page)
};

enum class TopPage { kTasks, kFacts, kExplanation, kOutput, kHelp };
enum class TopSort { kQueue, kUser, kMemory, kTime };
// The user's choices.
struct TopState {
  TopPage page = TopPage::kTasks;
  std::uint64_t selected = 0;  // task number; 0 for the first task
  std::size_t first_row = 0;   // first visible row of the tasks, or line of the page
  TopSort sort = TopSort::kQueue;
  std::string filter;   // part of a name, user, reason or state
  bool typing = false;  // the filter is being typed
  bool mine = false;
  bool ended = false;         // also list ended tasks
  bool gpus = true;           // show all GPUs, not only their total
  std::uint64_t cancels = 0;  // task whose cancellation must be confirmed; 0 if none
  std::string message;        // result of the last key
  std::string user;           // user at the terminal
};

enum class TopKey {
  kCharacter,
  kUp,
  kDown,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kEnter,
  kEscape,
  kBackspace,
  kOther,
};
struct TopStroke {
  TopKey key = TopKey::kOther;
  char character = 0;  // for kCharacter: printable ASCII
};
// What the program must do after a key press, besides redrawing the screen.
struct TopWish {
  enum class Kind { kNothing, kQuit, kRefresh, kCancel, kHold, kRelease };
  Kind kind = Kind::kNothing;
  std::uint64_t task = 0;
};

// The first styles are the colours of cli/terminal.h, with the same values.
enum class TopStyle { kPlain, kGood, kWaiting, kBad, kFaint, kTitle, kSelected };
static_assert(static_cast<int>(TopStyle::kFaint) == static_cast<int>(Colour::kFaint));
struct TopPiece {
  std::string text;
  TopStyle style = TopStyle::kPlain;
};
using TopLine = std::vector<TopPiece>;
struct TopSize {
  int rows = 24;
  int columns = 80;
  bool blocks = true;  // the terminal can show block characters
};

// The tasks that pass the filter, in the order shown.
std::vector<const api::TaskView*> ShownTasks(const TopData& data, const TopState& state);
bool Waits(const api::TaskView& task);
// The row of the selected task; 0 if the task is not in the list.
std::size_t SelectedRow(const std::vector<const api::TaskView*>& tasks, const TopState& state);
// The number of rows for tasks, or for a page's lines.
std::size_t BodyRows(const TopData& data, const TopState& state, const TopSize& size);
// Returns exactly size.rows lines of at most size.columns characters, and keeps the selection on
// the screen.
std::vector<TopLine> DrawTop(const TopData& data, TopState& state, const TopSize& size);
TopWish TakeStroke(const TopStroke& stroke, const TopData& data, const TopSize& size,
                   TopState& state);

// Returns a bar such as "[|||||::: ]", in which `width` characters stand for the total memory: '|'
// for used memory, and ':' for promised memory that is not in use.
std::vector<TopPiece> MemoryBar(std::int64_t used, std::int64_t promised, std::int64_t total,
                                int width);
// Draws the last `width` percentages as small bars; -1 means unknown.
std::string ActivityBars(const std::vector<std::int64_t>& percent, int width, bool blocks);
// The last line of a program's output. If a progress bar overwrites itself on that line, returns
// the bar's last state.
std::string LastOutputLine(std::string_view text);

}  // namespace carma::cli
