// Follows a program's output and extracts its latest progress. Memory use is fixed, and identical
// output gives identical results.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "task/progress/lines.h"
#include "task/progress/progress.h"
#include "task/progress/reading.h"

namespace carma::task {

class ProgressReader {
 public:
  // stream: 0 is stdout, 1 is stderr. `bytes` may begin and end within a line.
  void Feed(int stream, std::string_view bytes);
  // The current progress. Also reads unfinished lines, because a bar's line ends only when the next
  // bar begins.
  Progress Now();

 private:
  void Take(std::string_view line);
  void TakeExact(std::string_view line);
  void TakeBar(Reading bar);
  void TakeCounters(Reading reading);
  // Reads a line that provides context for its neighbours.
  void TakeContext(std::string_view line);
  void TakeTable(std::string_view line);    // table of Stable-Baselines3
  void TakeColumns(std::string_view line);  // nerfstudio, OpenMM or LAMMPS table
  void TakeRow(std::string_view line);      // fastai, skorch, Chainer or spaCy table row
  // Reads Chainer's bars. Returns true if the line is part of such a bar.
  bool TakeChainer(std::string_view line);
  void TakeTraining(Reading reading);
  void TakeEvaluation(const Reading& reading);
  // Returns true if an unnamed bar next to another bar belongs to an evaluation.
  bool IsEvaluationBar(const Reading& bar);
  // completed: the counter shows the number of finished epochs. finished: the current epoch is also
  // over.
  void SetEpoch(Counter epoch, bool completed, bool finished = false);
  Reading FromOne(Reading reading) const;
  double EpochsDone() const;
  bool SpansEpochs() const;
  std::optional<double> RunFraction() const;
  std::optional<double> RunLeft() const;

  std::array<OutputLines, 2> streams_;
  std::optional<Reading> train_;
  std::optional<Reading> eval_;
  std::optional<Reading> outer_;  // an unnamed bar that encloses the current bar
  std::optional<double> loss_;
  std::optional<Counter> epoch_;
  bool completed_ = false;   // epoch_ counts finished epochs
  bool finished_ = false;    // the epoch in epoch_ is over
  bool from_zero_ = false;   // epochs are counted from 0
  bool evaluating_ = false;  // eval_ began after train_ and has not ended
  bool announced_ = false;   // the program announced an evaluation
  bool exact_ = false;       // the program reports its progress itself
  bool restarted_ = false;   // the bar restarted, so it does not cover the whole run
  bool download_ = false;
  bool prepares_ = false;               // the line above an unnamed bar announced a preparation
  bool downloads_ = false;              // the line above an unnamed bar announced a download
  std::size_t losses_at_ = 0;           // loss column of the current table; 0: none
  std::size_t steps_at_ = 0;            // step column of that table; 0: none
  bool columns_ = false;                // a table of TakeColumns has begun
  bool labelled_ = false;               // lines begin with the rank
  std::optional<double> epochs_total_;  // a total printed separately from the epoch
  std::optional<double> loops_total_;
  std::optional<double> run_loops_;  // total number of loops in all epochs
  std::optional<double> rate_;       // rate in a table
  std::optional<double> share_;      // share of the whole run, from Chainer's bar
};

}  // namespace carma::task
