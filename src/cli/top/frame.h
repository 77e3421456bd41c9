// The screen of `carma top`: what is shown, and what keys do to it. Values only; the terminal is
// cli/top/curses.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/overview.h"
#include "api/views.h"

namespace carma::cli {

// What is known of the server.
struct TopData {
  api::OverviewView server;
  std::vector<api::TaskView> tasks;             // as they were listed
  std::map<std::uint64_t, std::string> output;  // last line that a running task has written
  std::string trouble;                          // why there is nothing newer; empty: there is
  std::string page;                             // of the task that is looked at, see TopState::page
};

enum class TopPage { kTasks, kFacts, kExplanation, kOutput, kHelp };
enum class TopSort { kQueue, kUser, kMemory, kTime };
// What the person at the screen has chosen.
struct TopState {
  TopPage page = TopPage::kTasks;
  std::uint64_t selected = 0;  // a task; 0: the first
  std::size_t first_row = 0;   // of the tasks, or of the page's lines
  TopSort sort = TopSort::kQueue;
  std::string filter;   // part of a name, user, reason or state
  bool typing = false;  // the filter is being written
  bool mine = false;
  bool ended = false;         // ended tasks are listed too
  bool gpus = true;           // all GPUs are shown, not only their sum
  std::uint64_t cancels = 0;  // asked whether this task is to end; 0: nothing is asked
  std::string message;        // what came of the last key
  std::string user;           // who sits there
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
  char character = 0;  // kCharacter: printable ASCII
};
// What a key asks of the program, beside the change of the state.
struct TopWish {
  enum class Kind { kNothing, kQuit, kRefresh, kCancel, kHold, kRelease };
  Kind kind = Kind::kNothing;
  std::uint64_t task = 0;
};

enum class TopStyle { kPlain, kTitle, kGood, kWaiting, kBad, kFaint, kSelected };
struct TopPiece {
  std::string text;
  TopStyle style = TopStyle::kPlain;
};
using TopLine = std::vector<TopPiece>;
struct TopSize {
  int rows = 24;
  int columns = 80;
  bool blocks = true;  // bars of parts of a character can be shown
};

// The tasks that pass the filter, in the order shown.
std::vector<const api::TaskView*> ShownTasks(const TopData& data, const TopState& state);
bool Waits(const api::TaskView& task);
// Of the selected task; 0 where it is not among them.
std::size_t SelectedRow(const std::vector<const api::TaskView*>& tasks, const TopState& state);
// Rows left for tasks or a page's lines.
std::size_t BodyRows(const TopData& data, const TopState& state, const TopSize& size);
// Exactly size.rows lines of at most size.columns characters. Keeps the selection on the screen.
std::vector<TopLine> DrawTop(const TopData& data, TopState& state, const TopSize& size);
TopWish TakeStroke(const TopStroke& stroke, const TopData& data, const TopSize& size,
                   TopState& state);

// "|||||:::    " of that width: used, and beyond that promised, of the whole.
std::vector<TopPiece> MemoryBar(std::int64_t used, std::int64_t promised, std::int64_t total,
                                int width);
// The last `width` of these percentages as small bars; -1: not known.
std::string ActivityBars(const std::vector<std::int64_t>& percent, int width, bool blocks);
// The last line of a program's output, of one that draws its progress over itself the last state.
std::string LastOutputLine(std::string_view text);

}  // namespace carma::cli
