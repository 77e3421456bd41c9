// The API's view of what the server has learned about the memory and run times of tasks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/views.h"
#include "task/verdict/observation.h"

namespace carma::api {

// An earlier run of a task, for commands that run the estimators themselves.
struct RunView : task::Observation {
  static void VisitFields(auto& field, auto& run) {
    field("task", run.task, "Number of the task that ran.");
    field("when_ms", run.when, "When the task ended.");
    field("gpu_type", run.gpu_type, "GPU model that the task ran on, as reported by the driver.");
    field("relation", run.relation,
          "Key shared by all runs of the same training job, regardless of batch size and sequence "
          "length; empty if unknown.");
    field("batch", run.batch, "Samples per GPU and step, if the task specifies them.", {.low = 0});
    field("length", run.length, "Tokens per sample, if the task specifies them.", {.low = 0});
    field("method", run.method, "Estimator that predicted the task's memory; empty if none.");
    field("predicted_mib", run.predicted_mib, "Most likely peak memory, as predicted.", {.low = 0});
    field("promised_mib", run.promised_mib, "Memory promised to the task.", {.low = 0});
    field("measured_mib", run.measured_mib, "Measured peak memory on one GPU.", {.low = 0});
    field("allocated_mib", run.allocated_mib,
          "Peak memory allocated by PyTorch, if the task reported it.", {.low = 0});
    field(
        "ran_out", run.ran_out,
        "Whether the task ran out of GPU memory and therefore needs more than its measured peak.");
  }
};
struct KnowledgeView {
  std::string method;
  bool prefer_given = true;
  double coverage = 0;
  std::string gpu_type;
  std::int64_t gpu_mib = 0;
  bool learns = false;
  // Calibration for the requested GPU type (estimate/calibration.h).
  std::string taught_by;
  std::int64_t tasks = 0;
  double context_shift_mib = 0;
  std::vector<double> ratios;
  std::string calibration;
  std::vector<RunView> runs;
  std::vector<RunView> kin_runs;
  // How tasks with the requested signature use a GPU of the most common type
  // (core/values/profile.h).
  std::optional<double> sm_active;
  std::optional<double> sensitivity, pressure;
  std::optional<std::int64_t> alone_ms;
  std::optional<double> iteration_ms;
  std::string profile_by;

  static void VisitFields(auto& field, auto& knowledge) {
    field("method", knowledge.method, "Estimator that the daemon uses.");
    field("prefer_given", knowledge.prefer_given,
          "Whether a memory requirement given by the user takes precedence "
          "(estimate.prefer_given).");
    field("coverage", knowledge.coverage,
          "Share of tasks whose memory should stay within their promise; 0 if the most likely "
          "value is promised.",
          {.least = 0, .most = 1});
    field("gpu_type", knowledge.gpu_type, "The server's most common GPU type.");
    field("gpu_mib", knowledge.gpu_mib, "Memory available to processes on the largest GPU.",
          {.low = 0});
    field("learns", knowledge.learns,
          "Whether the server learns from finished tasks (estimate.history).");
    field("taught_by", knowledge.taught_by,
          "GPU type that the calibration is for; empty if built-in values are used.");
    field("tasks", knowledge.tasks, "Number of tasks that the calibration is based on.",
          {.low = 0});
    field("context_shift_mib", knowledge.context_shift_mib,
          "Correction added to the built-in constant of the structural formula.");
    field("ratios", knowledge.ratios,
          "Measured peak divided by predicted peak for each calibration task, ascending.");
    field("calibration", knowledge.calibration,
          "The constant in use and its source: \"as shipped: …\" or \"learned from …\".");
    field("runs", knowledge.runs, "Earlier runs of the requested signature, newest first.");
    field("kin_runs", knowledge.kin_runs, "Earlier runs of the same program, newest first.");
    field(
        "sm_active", knowledge.sm_active,
        "SM activity of a task with this signature when running alone on the most common GPU type.",
        {.least = 0, .most = 1});
    field("sensitivity", knowledge.sensitivity,
          "How much neighbours slow the task down under MPS, measured by carma profile.",
          {.low = 0});
    field("pressure", knowledge.pressure,
          "How much the task slows down its neighbours, measured by carma profile.", {.low = 0});
    field("alone_ms", knowledge.alone_ms,
          "Run time of earlier runs that had their GPUs to themselves.", {.low = 0});
    field("iteration_ms", knowledge.iteration_ms,
          "Time per iteration when running alone, measured by carma profile.", {.low = 0});
    field("profile_by", knowledge.profile_by,
          "Source of the SM activity: \"carma profile\" or \"runs\"; empty if unknown.");
  }
};

}  // namespace carma::api
