// See slurm_script.h. Slurm's own options stand in comments that sbatch reads, quoted as it reads them; all else is
// bash.
#include "dist/slurm_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "dist/mpi_parameters.h"

namespace mlx::dist {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

// A word of sbatch's option lines: within double quotes, a backslash takes the next character as it is.
std::string directive_word(const std::string& name, const std::string& value) {
  const bool control = std::ranges::any_of(value, [](char c) { return static_cast<unsigned char>(c) < ' '; });
  if (control) fail(ErrorKind::kUsage, "--{}: a line of sbatch's options cannot hold '{}'", name, printable(value));
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string directive(const std::string& name, const std::string& value) {
  if (value.empty()) return fmt::format("#SBATCH --{}\n", name);
  return fmt::format("#SBATCH --{}={}\n", name, directive_word(name, value));
}

// Slurm counts by cores. A tenth is for what the kernel and MPI need besides.
std::int64_t mib_of_core(const SlurmJob& job) {
  const std::int64_t each = job.memory / job.cpus;
  return (each + each / 10 + kMiB - 1) / kMiB;
}

std::string directives(const SlurmJob& job) {
  std::vector<std::pair<std::string, std::string>> lines = {
      {"job-name", job.name},
      {"chdir", job.folder},
      {"ntasks", std::to_string(job.ranks)},
      {"cpus-per-task", std::to_string(job.cpus)},
      {"signal", fmt::format("B:USR1@{}", job.notice)},
      {"requeue", ""},
      {"open-mode", "append"},
  };
  if (job.memory > 0) lines.emplace_back("mem-per-cpu", fmt::format("{}M", mib_of_core(job)));
  for (const auto& option : job.options) {
    const std::string& name = option.first;
    const bool word = !name.empty() && name[0] != '-' && std::ranges::all_of(name, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
    });
    if (!word) fail(ErrorKind::kUsage, "'{}' is no option of sbatch: expected a name such as time", printable(name));
    const bool taken = std::ranges::any_of(lines, [&](const auto& line) { return line.first == name; });
    if (taken) fail(ErrorKind::kUsage, "the option {} of sbatch is given twice, or by an option of mlx", name);
    lines.push_back(option);
  }
  std::string out;
  for (const auto& [name, value] : lines) out += directive(name, value);
  return out;
}

std::string words(const std::vector<std::string>& command) {
  std::string out;
  for (const std::string& word : command) out += (out.empty() ? "" : " ") + shell_quoted(word);
  return out;
}

std::string launcher_text(const SlurmJob& job) {
  const std::string srun = fmt::format(
      "launcher=(srun --mpi=pmix --ntasks={} --cpus-per-task={} --kill-on-bad-exit=1)\n", job.ranks, job.cpus);
  const std::string mpirun =
      fmt::format("launcher=(mpirun --np {} --bind-to none -x MLX_THREADS -x NO_COLOR)\n", job.ranks);
  if (job.launcher == "srun") return srun;
  if (job.launcher == "mpirun") return mpirun;
  return "# srun itself, where it speaks PMIx with Open MPI; else mpirun, which finds Slurm's nodes.\n"
         "if srun --mpi=list 2>&1 | grep -qw pmix; then\n  " +
         srun + "else\n  " + mpirun + "fi\n";
}

}  // namespace

std::string slurm_script(const SlurmJob& job) {
  std::string out = "#!/bin/bash\n" + directives(job);
  out += fmt::format("\nexport MLX_THREADS={} NO_COLOR=1\n", job.cpus);
  for (const auto& [name, value] : mpi_parameters())
    out += fmt::format("export OMPI_MCA_{0}=${{OMPI_MCA_{0}:-{1}}}\n", name, value);
  out += launcher_text(job);
  out += R"(
# Before the time limit Slurm sends USR1: the ranks make a checkpoint and stop.
stopping=
trap 'stopping=yes; kill -USR1 "$ranks"' USR1
"${launcher[@]}" )" +
         words(job.command) + R"( &
ranks=$!
while
  code=0
  wait "$ranks" || code=$?
  [ $code -gt 128 ] && kill -0 "$ranks" 2>/dev/null  # the signal ended the wait, not the ranks
do :; done

# The same job again, which continues from the checkpoint.
if [ -n "$stopping" ] && [ $code -ne 0 ]; then
  scontrol requeue "$SLURM_JOB_ID" && exit 0
fi
exit $code
)";
  return out;
}

}  // namespace mlx::dist
