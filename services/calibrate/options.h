// What `riskkv calibrate`, `evaluate` and `inspect` are asked to do. Plain data; flags in commands.cc.
#ifndef RISKKV_SERVICES_CALIBRATE_OPTIONS_H_
#define RISKKV_SERVICES_CALIBRATE_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/predictor/profile.h"
#include "common/quality/windows.h"

namespace riskkv::calibrate {

struct EngineOptions {
  std::string kind = "llama";  // "llama", or "fake" for tests of what is around
  std::string model;           // GGUF
  int threads = 0;             // 0: the machine's cores, at most 16
};

struct CalibrateOptions {
  EngineOptions engine;
  std::string method = "paper";      // or "coded"
  int windows_sensitivity = 6;       // coded: windows of the fit text that noise is scored on; 0: all planes alike
  std::string codec_weights = "auto";  // coded: "fp16", or int8 where that is admitted at no more bytes
  std::string base;                  // coded: a set's file that keeps its predictors and profiles; may be empty
  std::string fit, select, confirm;  // text files; confirm may be empty
  std::vector<double> epsilons = {0.002, 0.005};
  std::string out;     // a folder or a file
  double seconds = 0;  // > 0: choose the numbers of windows from the measured rate
  WindowShape shape;
  bool horizon_given = false;  // false: a time budget may shorten the horizon for the sake of more windows
  EndsPolicy ends;
  int windows_fit = 0, windows_select = 0, windows_confirm = 0;  // 0: all
  std::string dtype = "fp32";                                    // or "fp16"
  // Names or files (MakeGroupLayout). The first is the set's, "paper" when there is none; a report compares the others.
  std::vector<std::string> layouts;
  uint64_t seed = 1;
  int resamples = 10000;
  double probe_margin = 1.5;
  std::string work_dir;  // results kept for a later run; "": kept in a temporary file
  std::string temp_dir;  // of that temporary file; "": the system's
  std::string report;    // folder of the report; "": none
  std::string coded_set;       // a report compares the codec in this set's file; "": none
  std::vector<int> histories;  // other lengths of history that a report measures what was admitted at
  int trials = 1000;     // of Table II
  bool json = false;
};

struct EvaluateOptions {
  EngineOptions engine;
  std::string predictors;  // a set's file
  std::string text;
  std::string profile;  // "": the gated profile that omits most
  // Of "coded-step-S" alone; a profile of the set has its own.
  EndsPolicy coded_ends{4, 36};
  bool exact_ends = false;
  WindowShape shape;
  std::vector<int> histories;  // measured one after the other; empty: shape.history alone
  int windows = 0;             // of each history; 0: all
  uint64_t seed = 1;
  int resamples = 10000;
  std::string work_dir, temp_dir;  // as above
  bool json = false;
};

struct InspectOptions {
  std::string predictors;
  bool json = false;
};

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_OPTIONS_H_
