// The fault matrix: every state with every fault, every message with every trouble, FULL and RISK. Writes a table, says one line, and
// fails when a promise was broken.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <thread>

#include "CLI/CLI.hpp"
#include "fmt/format.h"
#include "tests/faults/cell.h"

namespace riskkv::faults {
namespace {

struct Options {
  std::string out = ".";
  std::string match;
  int jobs = 4;
  int every = 1;
  bool list = false;
};

bool Matches(const CellSpec& cell, const std::string& match) { return cell.Name().find(match) != std::string::npos; }

std::vector<CellSpec> Chosen(const Options& options) {
  std::vector<CellSpec> chosen;
  int number = 0;
  for (const CellSpec& cell : AllCells()) {
    if (!Matches(cell, options.match)) continue;
    if (number++ % options.every == 0) chosen.push_back(cell);
  }
  return chosen;
}

std::vector<CellResult> RunAll(const std::vector<CellSpec>& cells, int jobs) {
  std::vector<CellResult> results(cells.size());
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < jobs; ++i) {
    threads.emplace_back([&] {
      for (std::size_t n = next++; n < cells.size(); n = next++) {
        results[n] = RunCell(cells[n]);
        if (results[n].ok()) continue;
        std::string text = fmt::format("BROKEN {}: {} ({:.0f} ms)\n", cells[n].Name(), results[n].outcome, results[n].ms);
        for (const std::string& v : results[n].violations) text += "  ! " + v + "\n";
        std::fputs((text + results[n].text).c_str(), stderr);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::string Joined(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : "; ") + item;
  return text;
}

void WriteCsv(const std::vector<CellResult>& results, const std::string& path) {
  std::ofstream out(path);
  out << "mode,state,fault,reached,outcome,ms,cancel_ms,cancelled_by,cancel_job_ms,violations\n";
  for (const CellResult& r : results) {
    out << fmt::format("{},{},\"{}\",{},{},{:.1f},{:.1f},{},{:.1f},\"{}\"\n", Name(r.spec.mode), r.spec.state, r.spec.fault, r.reached ? 1 : 0, r.outcome,
                       r.ms, r.cancel_ms, r.cancelled_by_worker ? "worker" : "client", r.cancel_job_ms, Joined(r.violations));
  }
}

// Of the cells whose fault is a cancel: how many, the median and the longest.
std::string CancelFigures(const std::vector<CellResult>& results, const char* fault, double CellResult::*field) {
  std::vector<double> ms;
  int by_worker = 0;
  for (const CellResult& r : results) {
    if (r.spec.fault.rfind(fault, 0) != 0 || r.*field < 0) continue;
    ms.push_back(r.*field);
    by_worker += r.cancelled_by_worker ? 1 : 0;
  }
  if (ms.empty()) return "none";
  std::sort(ms.begin(), ms.end());
  const bool stream = field == &CellResult::cancel_ms;
  return fmt::format("{} in {:.1f} ms, at most {:.1f} ms{}", ms.size(), ms[ms.size() / 2], ms.back(),
                     stream ? fmt::format(" ({} by a worker's word, the rest by the client's giving up)", by_worker) : "");
}

// A row a fault, a column a state: how the job ended, in each mode.
void WriteMarkdown(const std::vector<CellResult>& results, const std::string& path) {
  std::map<std::string, std::map<std::string, std::string>> rows;
  std::vector<std::string> states;
  for (const CellResult& r : results) {
    if (std::find(states.begin(), states.end(), r.spec.state) == states.end()) states.push_back(r.spec.state);
    std::string& cell = rows[r.spec.fault][r.spec.state];
    cell += (cell.empty() ? "" : ", ") + (r.ok() ? r.outcome : "**BROKEN** " + r.outcome) + (r.reached ? "" : " (not reached)");
  }
  std::ofstream out(path);
  out << "| fault |";
  for (const std::string& state : states) out << " " << state << " |";
  out << "\n|---|";
  for (std::size_t i = 0; i < states.size(); ++i) out << "---|";
  out << "\n";
  for (const auto& [fault, row] : rows) {
    out << "| " << fault << " |";
    for (const std::string& state : states) out << " " << (row.count(state) > 0 ? row.at(state) : "") << " |";
    out << "\n";
  }
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app{"Runs a move with a fault at each state of the protocol, and checks what is promised."};
  app.add_option("--out", options.out, "folder of the tables (fault_matrix.csv, fault_matrix.md)")->capture_default_str();
  app.add_option("--match", options.match, "only cells whose name contains this");
  app.add_option("--jobs", options.jobs, "cells at a time")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--every", options.every, "only each n-th of them: a sample")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_flag("--list", options.list, "names the cells and runs none");
  CLI11_PARSE(app, argc, argv);
  const std::vector<CellSpec> cells = Chosen(options);
  if (options.list) {
    for (const CellSpec& cell : cells) fmt::print("{}\n", cell.Name());
    return 0;
  }
  Oracle();
  const absl::Time start = absl::Now();
  const std::vector<CellResult> results = RunAll(cells, options.jobs);
  WriteCsv(results, options.out + "/fault_matrix.csv");
  WriteMarkdown(results, options.out + "/fault_matrix.md");
  const auto broken = std::count_if(results.begin(), results.end(), [](const CellResult& r) { return !r.ok(); });
  const auto reached = std::count_if(results.begin(), results.end(), [](const CellResult& r) { return r.reached; });
  fmt::print("fault matrix: {} cells, {} kept every promise, {} broken, {} reached their state, {:.1f} s\n", results.size(),
             results.size() - broken, broken, reached, absl::ToDoubleSeconds(absl::Now() - start));
  fmt::print("cancelled streams ended: {}; cancelled migrations: {}\n", CancelFigures(results, "cancel the request", &CellResult::cancel_ms),
             CancelFigures(results, "cancel the migration", &CellResult::cancel_job_ms));
  return broken == 0 ? 0 : 1;
}

}  // namespace
}  // namespace riskkv::faults

int main(int argc, char** argv) { return riskkv::faults::Main(argc, argv); }
