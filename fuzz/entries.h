// One function for each kind of external input. Any input must produce a value or an error, never a
// crash, and accepted input must satisfy its invariants. libFuzzer drives these functions
// (fuzz_main.cc), and in ordinary builds replay_test.cc runs the corpora through them.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/result.h"

namespace carma::fuzz {

void FuzzScript(std::string_view bytes);       // #CARMA and #SBATCH directives
void FuzzRad(std::string_view bytes);          // .rad files
void FuzzSpec(std::string_view bytes);         // TaskSpec as JSON
void FuzzOom(std::string_view bytes);          // the end of a task's stderr
void FuzzProgress(std::string_view bytes);     // the output of training programs
void FuzzAttach(std::string_view bytes);       // messages between carma run and a shim
void FuzzMps(std::string_view bytes);          // replies and logs of an MPS control daemon
void FuzzTrace(std::string_view bytes);        // task traces
void FuzzJobs(std::string_view bytes);         // cluster traces of every format
void FuzzPhilly(std::string_view bytes);       // cluster traces, read as Philly's JSON
void FuzzCatalogue(std::string_view bytes);    // workload catalogues
void FuzzTarget(std::string_view bytes);       // targets of HTTP requests
void FuzzViews(std::string_view bytes);        // the API's JSON objects
void FuzzConfig(std::string_view bytes);       // configuration files
void FuzzReport(std::string_view bytes);       // saved reports, including records of runs
void FuzzShim(std::string_view bytes);         // files that a shim leaves in its attempt's folder
void FuzzScenario(std::string_view bytes);     // scenario files
void FuzzResidency(std::string_view bytes);    // measured runs, replayed
void FuzzPairs(std::string_view bytes);        // measured pairs, fitted
void FuzzReservation(std::string_view bytes);  // reservations of simulated servers
void FuzzRule(std::string_view bytes);         // site rules
void FuzzProfiles(std::string_view bytes);     // profiles of workloads
void FuzzSummary(std::string_view bytes);      // model summaries of every format
void FuzzSafetensors(std::string_view bytes);  // network weights
void FuzzHfConfig(std::string_view bytes);     // a transformer's config.json, training plan files
void FuzzTraining(std::string_view bytes);     // scripts that start training
void FuzzSettings(std::string_view bytes);     // training configurations in YAML and JSON
void FuzzSpank(std::string_view bytes);        // carmad's responses to the Slurm plug-in
void FuzzSite(std::string_view bytes);         // output of Slurm's programs, and Slurm's own files
void FuzzDcgmi(std::string_view bytes);        // the text of `dcgmi dmon`
void FuzzRecording(std::string_view bytes);    // recorded driver responses
void FuzzReader(std::string_view bytes);       // lines between carmad and carma-reader
void FuzzKernelLog(std::string_view bytes);    // the kernel's log
void FuzzShape(std::string_view bytes);        // shapes of simulated servers
void FuzzSqueue(std::string_view bytes);       // squeue's output about a job
void FuzzSimMps(std::string_view bytes);       // messages between programs of a simulated MPS

struct Entry {
  const char* name;  // its corpus is fuzz/corpus/<name>
  void (*run)(std::string_view bytes);
};
inline constexpr std::array kEntries{
    Entry{"script", FuzzScript},
    Entry{"rad", FuzzRad},
    Entry{"spec", FuzzSpec},
    Entry{"oom", FuzzOom},
    Entry{"progress", FuzzProgress},
    Entry{"trace", FuzzTrace},
    Entry{"catalogue", FuzzCatalogue},
    Entry{"target", FuzzTarget},
    Entry{"views", FuzzViews},
    Entry{"config", FuzzConfig},
    Entry{"report", FuzzReport},
    Entry{"squeue", FuzzSqueue},
    Entry{"shim", FuzzShim},
    Entry{"scenario", FuzzScenario},
    Entry{"summary", FuzzSummary},
    Entry{"jobs", FuzzJobs},
    Entry{"philly", FuzzPhilly},
    Entry{"residency", FuzzResidency},
    Entry{"dcgmi", FuzzDcgmi},
    Entry{"recording", FuzzRecording},
    Entry{"mps", FuzzMps},
    Entry{"attach", FuzzAttach},
    Entry{"shape", FuzzShape},
    Entry{"simmps", FuzzSimMps},
    Entry{"pairs", FuzzPairs},
    Entry{"booking", FuzzReservation},
    Entry{"reader", FuzzReader},
    Entry{"hf_config", FuzzHfConfig},
    Entry{"kernel_log", FuzzKernelLog},
    Entry{"rule", FuzzRule},
    Entry{"profiles", FuzzProfiles},
    Entry{"training", FuzzTraining},
    Entry{"settings", FuzzSettings},
    Entry{"spank", FuzzSpank},
    Entry{"site", FuzzSite},
};

template <class T>
void CheckError(const Result<T>& result) {
  if (result) return;
  CARMA_CHECK(result.error().message.find('\n') == std::string::npos,
              "an error message is one line");
}

}  // namespace carma::fuzz
