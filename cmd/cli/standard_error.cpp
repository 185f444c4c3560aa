// Marks lines by the rank that MPI has given to this process.
#include "cmd/cli/standard_error.h"

#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/environment.h"
#include "dist/pulse.h"
#include "dist/rank_lines.h"

namespace mlx::cmd {
namespace {

// The rank; -1 without a launcher that listens.
int own_rank() {
  static const int rank = [] {
    const Environment environment = process_environment();
    const std::string number = environment.get("OMPI_COMM_WORLD_RANK").value_or("");
    if (!environment.get(dist::kPulseVariable) || number.empty()) return -1;
    return std::atoi(number.c_str());
  }();
  return rank;
}

void write_bytes(std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

void write_stderr(std::string_view text) {
  if (!has_launcher()) return write_bytes(text);
  // A line a write, so that those of several threads come out whole.
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    write_bytes(dist::said_line(own_rank(), text.substr(0, end)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

bool has_launcher() {
  return own_rank() >= 0;
}

void tell_run(std::string_view run) {
  if (has_launcher()) write_bytes(dist::run_line(run));
}

}  // namespace mlx::cmd
