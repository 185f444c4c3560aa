// bench_train: mlx's side of train.py. Trains the model of FOLDER/train.toml on the batches in FOLDER, step by step in
// a session, without a repository.
//
// usage: bench_train FOLDER [--threads N] [--precision f32|tf32|bf16|fp16] [--numerics native|portable] [--device
// cpu|cuda]
//
// Reads case.json (batch, shape, classes, steps, distinct), inputs.bin and targets.bin; writes init.bin (the
// parameters' initial f32 values, one behind another) and init.json (their names and sizes); prints losses, seconds of
// each step, peak memory of the process (or of the GPU) and the floor of a step (train_floor.h; 0 for a GPU) as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/parallel.h"
#include "base/path.h"
#include "base/process_use.h"
#include "graph/passes/passes.h"
#include "graph/session/session.h"
#include "nn/family.h"
#include "tests/bench/train_floor.h"
#include "train/config/config.h"
#include "train/loop/training_step.h"

namespace {

using namespace mlx;

struct Case {
  std::int64_t batch = 0, classes = 0, steps = 0, distinct = 0;
  std::vector<std::int64_t> shape;  // of one input: H, W, C, or the length of a text
  bool text() const { return shape.size() == 1; }
};

Case read_case(const std::string& folder) {
  const std::string file = join_path(folder, "case.json");
  const Json json = parse_json(read_text(file), file);
  Case out;
  out.batch = json_int(json, "batch", file);
  out.classes = json_int(json, "classes", file);
  out.steps = json_int(json, "steps", file);
  out.distinct = json_int(json, "distinct", file);
  for (const Json& size : json_array(json, "shape", file)) out.shape.push_back(size.get<std::int64_t>());
  return out;
}

nn::InputSpec input_of(const Case& what) {
  if (what.text()) return nn::InputSpec::tokens(what.classes);
  return nn::InputSpec::images(what.shape.at(0), what.shape.at(1), what.shape.at(2), what.classes);
}

void write_initial(const std::string& folder, const graph::Graph& graph, const graph::Tensors& tensors) {
  Json list = Json::array();
  Bytes values;
  for (const graph::Value& value : graph.values) {
    if (value.role != graph::Role::kParameter) continue;
    const graph::Tensor& tensor = tensors.at(value.name);
    Json dims = Json::array();
    for (int i = 0; i < tensor.shape.rank; ++i) dims.push_back(tensor.shape.dims[static_cast<std::size_t>(i)]);
    list.push_back({{"name", value.name}, {"dims", dims}});
    values.insert(values.end(), tensor.data.begin(), tensor.data.end());
  }
  write_file_atomically(join_path(folder, "init.bin"), values);
  write_file_atomically(join_path(folder, "init.json"), as_bytes(list.dump()));
}

// Prints to stderr the nodes that take longest, with their share and rate.
void print_profile(const graph::Session& session) {
  std::vector<graph::NodeTime> times = session.profile();
  double all = 0;
  for (const graph::NodeTime& time : times) all += time.seconds;
  std::ranges::sort(times, std::greater<>{}, &graph::NodeTime::seconds);
  times.resize(std::min<std::size_t>(times.size(), 30));
  for (const graph::NodeTime& time : times) {
    fmt::print(stderr, "{:<44} {:<24} {:<8} {:8.3f} ms {:5.1f} % {:7.1f} GFLOP/s {:6.1f} GB/s\n", time.name, time.op,
               time.kernel, 1e3 * time.seconds / static_cast<double>(time.calls), 100 * time.seconds / all,
               time.flops / time.seconds / 1e9, time.bytes / time.seconds / 1e9);
  }
}

struct How {
  int threads = cores();
  graph::Precision precision = graph::Precision::kF32;
  bool portable = false, profile = false, gpu = false;
};

void run(const std::string& folder, const How& how) {
  const Case what = read_case(folder);
  const std::string file = join_path(folder, "train.toml");
  const train::TrainConfig config = train::read_train_config(file);
  const nn::Built built = nn::build(TomlReader(*config.model, file, "[model]"), input_of(what));
  const kernels::Backend wanted = how.gpu ? kernels::cuda_backend() : kernels::best_backend();
  const kernels::Backend backend = how.portable ? kernels::portable_backend(wanted) : wanted;
  graph::TrainingGraph training =
      graph::to_training(built.graph, config.optimizer, graph::LossSpec{}, {how.precision, backend.can()});
  const graph::ValueId input = training.graph.find(what.text() ? "ids" : "images");
  Pool pool(how.threads);
  graph::SessionOptions options;
  options.backend = backend;
  options.seed = config.seed;
  options.training = true;
  graph::Tensors tensors = nn::initialize(built.graph, built.family, config.seed);
  write_initial(folder, built.graph, tensors);
  if (training.loss_scale != graph::kNone) tensors.emplace(graph::kLossScale, train::first_loss_scale());
  graph::Session session(training.graph, tensors, options, pool);
  tensors.clear();

  const Bytes inputs = read_file(join_path(folder, "inputs.bin")),
              targets = read_file(join_path(folder, "targets.bin"));
  std::vector<std::int64_t> input_dims{what.batch}, target_dims{what.batch};
  input_dims.insert(input_dims.end(), what.shape.begin(), what.shape.end());
  if (what.text()) target_dims = input_dims;
  const std::size_t input_bytes = inputs.size() / static_cast<std::size_t>(what.distinct);
  const std::size_t target_bytes = targets.size() / static_cast<std::size_t>(what.distinct);
  const auto rate = static_cast<float>(config.schedule.rate);
  Json losses = Json::array(), seconds = Json::array();
  const auto feeds = [&](std::int64_t step) -> std::vector<graph::Feed> {
    const auto at = static_cast<std::size_t>(step % what.distinct);
    return {{input, inputs.data() + at * input_bytes, input_dims},
            {training.labels, targets.data() + at * target_bytes, target_dims},
            {training.learning_rate, &rate, {1}}};
  };
  const auto stage = [&](std::int64_t step) { session.stage(feeds(step), {.step = static_cast<std::uint64_t>(step)}); };
  stage(0);
  for (std::int64_t step = 0; step < what.steps; ++step) {
    if (how.profile && step == 3) session.set_profiling(true);
    const double started = seconds_now();
    float loss = 0;
    session.run_staged();  // as the training loop does
    session.collect({training.loss});
    if (step + 1 < what.steps) stage(step + 1);
    std::memcpy(&loss, session.collected().data(), sizeof loss);
    losses.push_back(loss);
    seconds.push_back(seconds_now() - started);
  }
  if (how.profile) print_profile(session);
  const double peak =
      how.gpu ? static_cast<double>(kernels::cuda_device().peak_bytes()) : static_cast<double>(peak_memory());
  const double peak_mib = peak / (1 << 20);
  std::vector<std::int64_t> sizes;
  for (const std::string& symbol : training.graph.symbols)
    sizes.push_back(symbol == "batch" ? what.batch : what.shape.at(0));
  const double floor = how.gpu ? 0 : floor_seconds(training.graph, sizes, pool);
  fmt::print("{}\n",
             Json({{"losses", losses}, {"seconds", seconds}, {"peak_mib", peak_mib}, {"floor_seconds", floor}}).dump());
}

std::optional<graph::Precision> precision_named(const std::string& word) {
  for (const auto each :
       {graph::Precision::kF32, graph::Precision::kTF32, graph::Precision::kBF16, graph::Precision::kF16})
    if (word == train::name_of(each)) return each;
  return std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    How how;
    for (int i = 2; i + 1 < argc; i += 2) {
      const std::string option = argv[i], value = argv[i + 1];
      if (option == "--threads")
        how.threads = std::stoi(value);
      else if (option == "--profile")
        how.profile = value == "on";
      else if (option == "--precision" && precision_named(value))
        how.precision = *precision_named(value);
      else if (option == "--numerics" && (value == "native" || value == "portable"))
        how.portable = value == "portable";
      else if (option == "--device" && (value == "cpu" || value == "cuda"))
        how.gpu = value == "cuda";
      else
        mlx::fail(mlx::ErrorKind::kUsage, "bench_train: {} {} is not known", option, value);
    }
    if (argc < 2)
      mlx::fail(mlx::ErrorKind::kUsage,
                "usage: bench_train FOLDER [--threads N] [--precision f32|tf32|bf16|fp16] [--numerics native|portable] "
                "[--device cpu|cuda] [--profile on]");
    run(argv[1], how);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
