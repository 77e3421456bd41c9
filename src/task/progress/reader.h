// Follows the output of a program and keeps its latest progress. Uses fixed memory; equal output
// gives equal answers.
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
  // stream: 0 stdout, 1 stderr. The bytes may begin and end within a line.
  void Feed(int stream, std::string_view bytes);
  // The progress now. Also reads unfinished lines, because a bar's line ends only when the next one
  // begins.
  Progress Now();

 private:
  void Take(std::string_view line);
  void TakeExact(std::string_view line);
  void TakeBar(Reading bar);
  void TakeCounters(Reading reading);
  // Reads lines that explain the lines around them.
  void TakeContext(std::string_view line);
  void TakeTable(std::string_view line);    // of Stable-Baselines3
  void TakeColumns(std::string_view line);  // of nerfstudio, OpenMM and LAMMPS
  void TakeRow(std::string_view line);      // of fastai, skorch, Chainer and spaCy
  // Reads the bars of Chainer. True: the line is part of one.
  bool TakeChainer(std::string_view line);
  void TakeTraining(Reading reading);
  void TakeEvaluation(const Reading& reading);
  // Whether an unnamed bar beside another one is that of an evaluation.
  bool IsEvaluationBar(const Reading& bar);
  // completed: the counter counts finished epochs. finished: the current epoch is over too.
  void SetEpoch(Counter epoch, bool completed, bool finished = false);
  Reading FromOne(Reading reading) const;
  double EpochsDone() const;
  bool SpansEpochs() const;
  std::optional<double> RunFraction() const;
  std::optional<double> RunLeft() const;

  std::array<OutputLines, 2> streams_;
  std::optional<Reading> train_;
  std::optional<Reading> eval_;
  std::optional<Reading> outer_;  // an unnamed bar around the followed one
  std::optional<double> loss_;
  std::optional<Counter> epoch_;
  bool completed_ = false;   // epoch_ counts finished epochs
  bool finished_ = false;    // the epoch of epoch_ is over
  bool from_zero_ = false;   // epochs are counted from 0
  bool evaluating_ = false;  // eval_ began after train_ and has not ended
  bool announced_ = false;   // the program announced an evaluation
  bool exact_ = false;       // the program reports its progress itself
  bool restarted_ = false;   // the bar restarted, so it is not of the whole run
  bool download_ = false;
  bool prepares_ = false;               // by the line above an unnamed bar
  bool downloads_ = false;              // as prepares_
  std::size_t losses_at_ = 0;           // column of a table that has begun; 0: none
  std::size_t steps_at_ = 0;            // as losses_at_
  bool columns_ = false;                // a table of TakeColumns has begun
  bool labelled_ = false;               // lines begin with the rank
  std::optional<double> epochs_total_;  // printed separately
  std::optional<double> loops_total_;
  std::optional<double> run_loops_;  // of all epochs together
  std::optional<double> rate_;       // of a table
  std::optional<double> share_;      // of the whole run, by Chainer's bar
};

}  // namespace carma::task
