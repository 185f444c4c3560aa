// bench_infer: mlx's side of infer.py. Computes the logits of the batch in INPUTS with the model of FOLDER (as `mlx
// checkout --to` writes it), again and again for about SECONDS, as evaluation does.
//
// usage: bench_infer FOLDER INPUTS SECONDS [--threads N] [--logits FILE] [--profile on]
//
// MLX_KERNELS as for mlx. INPUTS: f32, normalised images [H,W,C] one after another. Prints the seconds of each pass
// over all of them as JSON, and writes the logits as f32 to FILE.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/parallel.h"
#include "graph/passes/passes.h"
#include "graph/session/session.h"
#include "nn/model.h"

namespace {

using namespace mlx;

struct How {
  int threads = cores();
  std::string logits;
  bool profile = false;
};

void print_profile(const graph::Session& session) {
  std::vector<graph::NodeTime> times = session.profile();
  double all = 0;
  for (const graph::NodeTime& time : times) all += time.seconds;
  std::ranges::sort(times, std::greater<>{}, &graph::NodeTime::seconds);
  for (const graph::NodeTime& time : times) {
    fmt::print(stderr, "{:<44} {:<16} {:<8} {:8.3f} ms {:5.1f} % {:7.1f} GFLOP/s {:6.1f} GB/s\n", time.name, time.op,
               time.kernel, 1e3 * time.seconds / static_cast<double>(time.calls), 100 * time.seconds / all,
               time.flops / time.seconds / 1e9, time.bytes / time.seconds / 1e9);
  }
}

void run(const std::string& folder, const std::string& inputs, double seconds, const How& how) {
  const nn::Model model = nn::load_model_folder(folder).model;
  const data::Preprocessing& image = model.preprocessing;
  const Bytes images = read_file(inputs);
  const std::int64_t count =
      static_cast<std::int64_t>(images.size() / sizeof(float)) / (image.height * image.width * image.channels);
  const auto [graph, weights] = graph::fuse(graph::to_inference(model.graph), *model.weights);
  Pool pool(how.threads);
  graph::SessionOptions options;
  const char* const backend = std::getenv("MLX_KERNELS");
  options.backend = kernels::parse_backend(backend ? backend : "");
  graph::Session session(graph, weights, options, pool);
  const std::vector<graph::Feed> feeds{
      {graph.inputs.at(0), images.data(), {count, image.height, image.width, image.channels}}};

  session.run(feeds);  // plans, packs weights, warms caches
  if (!how.logits.empty()) write_file_atomically(how.logits, session.output(graph.outputs.at(0)));
  session.set_profiling(how.profile);
  Json times = Json::array();
  for (const double until = seconds_now() + seconds; seconds_now() < until;) {
    const double started = seconds_now();
    session.run(feeds);
    times.push_back(seconds_now() - started);
  }
  if (how.profile) print_profile(session);
  fmt::print("{}\n", Json({{"seconds", times}, {"images", count}}).dump());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    How how;
    for (int i = 4; i + 1 < argc; i += 2) {
      const std::string option = argv[i], value = argv[i + 1];
      if (option == "--threads")
        how.threads = std::stoi(value);
      else if (option == "--logits")
        how.logits = value;
      else if (option == "--profile")
        how.profile = value == "on";
      else
        mlx::fail(mlx::ErrorKind::kUsage, "bench_infer: {} {} is not known", option, value);
    }
    if (argc < 4)
      mlx::fail(mlx::ErrorKind::kUsage,
                "usage: bench_infer FOLDER INPUTS SECONDS [--threads N] [--logits FILE] [--profile on]");
    run(argv[1], argv[2], std::stod(argv[3]), how);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
