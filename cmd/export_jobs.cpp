// See export_jobs.h. The config is read first, so that what cannot be trained does not wait in a queue.
#include "cmd/export_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/module.h"
#include "base/path.h"
#include "base/text.h"
#include "cmd/data_memory.h"
#include "cmd/ranks.h"
#include "dist/mpijob.h"
#include "dist/slurm_script.h"

namespace mlx::cmd {
namespace {

struct JobOptions {
  std::string config = "train.toml", memory, name, program, output;
  std::vector<std::string> sets;
  std::int64_t ranks = 0, cpus = 1;
  // Slurm's
  std::string launcher = "auto";
  std::int64_t notice = 120;
  std::vector<std::string> sbatch;
  // Kubernetes'
  std::string image, name_space, claim, mount = "/repository", folder;
  std::int64_t slots = 1;
};

// Nobody asks for more, and products of two of them fit.
void check_number(const char* option, std::int64_t number, std::int64_t most) {
  if (number < 1 || number > most) fail(ErrorKind::kUsage, "{} {}: expected 1 to {}", option, number, most);
}

train::TrainConfig checked_config(const JobOptions& options, Context& context) {
  check_number("--ranks", options.ranks, kMostRanks);
  check_number("--cpus", options.cpus, 4096);
  return config_for_ranks(join_path(context.folder(), options.config), options.sets, options.ranks);
}

std::vector<std::string> training(const JobOptions& options, const std::string& program) {
  std::vector<std::string> out = {options.program.empty() ? program : options.program, "train", "-c", options.config};
  for (const std::string& set : options.sets) out.insert(out.end(), {"--set", set});
  if (!options.memory.empty()) out.insert(out.end(), {"--memory", options.memory});
  return out;
}

int write(const JobOptions& options, const char* to, const std::string& text, Context& context) {
  if (options.output.empty() || options.output == "-") {
    if (!context.wants_json()) context.out(text);
  } else {
    write_file_atomically(join_path(context.folder(), options.output), text);
    context.line(fmt::format("{}  {}", context.bold(printable(options.output)),
                             counted(static_cast<std::uint64_t>(options.ranks), "rank")));
  }
  if (context.wants_json()) {
    context.json(
        {{"schema", "mlx.export/1"}, {"to", to}, {"ranks", options.ranks}, {"file", options.output}, {"text", text}});
  }
  return 0;
}

// "time=2:00:00", or "exclusive".
std::pair<std::string, std::string> sbatch_option(const std::string& text) {
  const std::size_t at = text.find('=');
  if (at == text.npos) return {text, ""};
  return {text.substr(0, at), text.substr(at + 1)};
}

int run_slurm(const JobOptions& options, Context& context) {
  const train::TrainConfig config = checked_config(options, context);
  check_number("--notice", options.notice, 65535);
  dist::SlurmJob job;
  job.command = training(options, executable_path());
  job.name = options.name.empty() ? config.name : options.name;
  job.folder = context.folder();
  job.ranks = options.ranks;
  job.cpus = options.cpus;
  job.memory = allowed_memory(options.memory);
  job.launcher = options.launcher;
  job.notice = options.notice;
  std::ranges::transform(options.sbatch, std::back_inserter(job.options), sbatch_option);
  return write(options, "slurm", dist::slurm_script(job), context);
}

// The model's name, as far as Kubernetes takes it.
std::string name_for_kubernetes(const std::string& model) {
  std::string out = lower(model);
  std::ranges::replace_if(
      out, [](char c) { return c == '_' || c == '.' || c == '/'; }, '-');
  return out;
}

int run_mpijob(const JobOptions& options, Context& context) {
  const train::TrainConfig config = checked_config(options, context);
  check_number("--slots", options.slots, kMostRanks);
  if (options.config.starts_with("/"))
    fail(ErrorKind::kUsage, "-c {}: a pod has other paths than this machine; name the config in the repository",
         options.config);
  dist::MpiJob job;
  job.command = training(options, "mlx");
  job.name = options.name.empty() ? name_for_kubernetes(config.name) : options.name;
  job.image = options.image;
  job.name_space = options.name_space;
  job.claim = options.claim;
  job.mount = options.mount;
  job.folder = options.folder.empty() ? options.mount : options.folder;
  job.ranks = options.ranks;
  job.slots = options.slots;
  job.cpus = options.cpus;
  job.memory = allowed_memory(options.memory);
  return write(options, "mpijob", dist::mpijob_manifest(job), context);
}

// What both have. `program`: its default.
std::vector<Option> job_options(JobOptions& options, const char* program) {
  Option ranks = integer("--ranks", "N", options.ranks, "The number of processes that train together");
  ranks.required = true;
  return {
      option("-c,--config", "FILE", options.config, "The config (default: train.toml)", Complete::kFile),
      std::move(ranks),
      {.names = "--set",
       .value = "KEY=VALUE",
       .help = "Set a key of the config, such as train.epochs=20; may be repeated",
       .many = true,
       .texts = &options.sets},
      integer("--cpus", "N", options.cpus, "The cores of each rank (default: 1)"),
      option("--memory", "SIZE", options.memory, "The memory of each rank, such as 4GiB: asked for, and a limit"),
      option("--name", "NAME", options.name, "The name of the job (default: the model's)"),
      option("--program", "FILE", options.program, fmt::format("mlx there (default: {})", program), Complete::kFile),
      option("-o,--out", "FILE", options.output, "Write it to a file instead of stdout", Complete::kFile),
  };
}

}  // namespace

Command export_slurm() {
  auto options = std::make_shared<JobOptions>();
  Command command;
  command.name = "slurm";
  command.summary = "Write a batch script that trains on several ranks under Slurm";
  command.options = job_options(*options, "this one");
  command.options.push_back(choice("--launcher", "WHICH", {"auto", "srun", "mpirun"}, options->launcher,
                                   "What starts the ranks (default: auto, srun where it speaks PMIx)"));
  command.options.push_back(integer("--notice", "SECONDS", options->notice,
                                    "How long before the time limit to make a checkpoint and stop (default: 120)"));
  command.options.push_back({.names = "--sbatch",
                             .value = "OPTION",
                             .help = "A long option of sbatch, such as time=2:00:00; may be repeated",
                             .many = true,
                             .texts = &options->sbatch});
  command.examples = {"mlx export slurm -c train.toml --ranks 8 --cpus 4 --sbatch time=2:00:00 -o train.sbatch"};
  command.run = [options](Context& context) { return run_slurm(*options, context); };
  return command;
}

Command export_mpijob() {
  auto options = std::make_shared<JobOptions>();
  Command command;
  command.name = "mpijob";
  command.summary = "Write a manifest that trains on several ranks under Kubeflow's mpi-operator";
  command.options = job_options(*options, "mlx");
  Option image = option("--image", "IMAGE", options->image, "The container image, with mlx, Open MPI and sshd");
  image.required = true;
  command.options.push_back(std::move(image));
  command.options.push_back(integer("--slots", "N", options->slots, "The ranks of each pod (default: 1)"));
  command.options.push_back(
      option("--claim", "NAME", options->claim, "The persistent volume claim that holds the repository"));
  command.options.push_back(
      option("--mount", "DIR", options->mount, "Where that is mounted in the pods (default: /repository)"));
  command.options.push_back(
      option("--workdir", "DIR", options->folder, "The folder to train in (default: that of --mount)"));
  command.options.push_back(
      option("--namespace", "NAME", options->name_space, "The namespace (default: that of who applies it)"));
  command.examples = {"mlx export mpijob --ranks 8 --cpus 4 --image example/mlx:1 --claim clf | kubectl apply -f -"};
  command.run = [options](Context& context) { return run_mpijob(*options, context); };
  return command;
}

}  // namespace mlx::cmd
