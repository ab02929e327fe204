// What `riskkv demo` is asked to do.
#ifndef RISKKV_SERVICES_CLI_DEMO_OPTIONS_H_
#define RISKKV_SERVICES_CLI_DEMO_OPTIONS_H_

#include <string>

namespace riskkv::cli {

struct DemoOptions {
  std::string engine = "llama";
  std::string model;
  std::string predictors;            // a folder with sets; "": the cache folder of this model
  std::string fit, select, confirm;  // texts to calibrate with
  std::string text;      // the prompts are cut from it; "": confirm, select or a passage of our own
  double seconds = 240;  // of calibration
  bool recalibrate = false;
  std::string coordinator_binary, worker_binary;  // "": beside this program
  std::string work;                               // logs, store, ports; "": a new temporary folder
  int prompt_tokens = 640;                        // about
  int max_tokens = 224;
  int move_after = 48;  // output tokens before the move
  int cells = 4096;
  int max_pause_ms = 500;
  // > 0: a third worker, whose way out is this slow, from which each mode moves once.
  int link_mbit = 0;
  bool keep = false;
  bool json = false;
};

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_DEMO_OPTIONS_H_
