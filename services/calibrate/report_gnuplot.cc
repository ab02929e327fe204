// Running gnuplot: see report.h.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/base/status.h"
#include "common/predictor/mapped_file.h"
#include "fmt/format.h"
#include "services/calibrate/report.h"

extern char** environ;

namespace riskkv::calibrate {
namespace {

constexpr int kCommandNotFound = 127;

std::string ReadWhole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// Runs `gnuplot <script>` in the folder, its messages going to `log` there. NOT_FOUND when there is no such program.
absl::Status RunGnuplot(const std::string& folder, const std::string& script, const std::string& log) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  std::string program = "gnuplot", argument = script;
  char* argv[] = {program.data(), argument.data(), nullptr};
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, program.c_str(), &actions, nullptr, argv, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed == ENOENT) return absl::NotFoundError("gnuplot is not installed");
  if (failed != 0) return absl::InternalError(fmt::format("cannot start gnuplot: {}", std::strerror(failed)));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCommandNotFound) return absl::NotFoundError("gnuplot is not installed");
  return absl::InternalError(fmt::format("gnuplot failed on {}/{}: {}", folder, script, ReadWhole(folder + "/" + log)));
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> RenderPlots(const std::vector<Plot>& plots, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return absl::InternalError(fmt::format("cannot make the folder {}: {}", folder, error.message()));
  std::map<std::string, std::string> pictures;
  for (const Plot& plot : plots) {
    const std::string script = fmt::format(
        "set terminal svg size 640,420 dynamic font 'sans-serif,12' background 'white' noenhanced name '{0}'\n"
        "set output '{0}.svg'\nset border 3 lc rgb '#444444'\nset tics nomirror\nset key tmargin center horizontal\nset grid ytics lc rgb '#e4e4e4'\n{1}",
        plot.name, plot.script);
    RETURN_IF_ERROR(WriteFileAtomically(fmt::format("{}/{}.gp", folder, plot.name), script));
    RETURN_IF_ERROR(RunGnuplot(folder, plot.name + ".gp", "gnuplot.log"));
    pictures[plot.name] = ReadWhole(fmt::format("{}/{}.svg", folder, plot.name));
  }
  std::filesystem::remove(folder + "/gnuplot.log", error);
  return pictures;
}

}  // namespace riskkv::calibrate
