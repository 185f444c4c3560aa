// bench_weights: the memory that a language model's weights take at inference, with three batch sizes and two sessions.
//
// usage: bench_weights make FOLDER            a GPT-2 of 124 million random weights, as a folder and in FOLDER/.mlx
//        bench_weights (folder|store) FOLDER  loads it from there and runs it
//
// MLX_KERNELS as for mlx. Prints the resident memory after each step and at its peak: in total, and the part that is
// private to the process. (Mapped pages belong to the page cache and are freed when memory is short.)
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "base/toml.h"
#include "graph/passes/passes.h"
#include "graph/session/session.h"
#include "nn/family.h"
#include "nn/model.h"
#include "nn/model_json.h"
#include "store/disk.h"

namespace {

using namespace mlx;

constexpr std::int64_t kVocabulary = 50257, kTokens = 8;

std::int64_t status_kib(const std::string& key) {
  const std::string text = read_text("/proc/self/status");
  const std::size_t at = text.find(key + ":");
  return at == std::string::npos ? 0 : std::atoll(text.c_str() + at + key.size() + 1);
}

void print_memory(const std::string& step, double seconds) {
  fmt::print("{:<34} {:7.2f} s   resident {:6.0f} MiB, private {:6.0f} MiB   peak {:6.0f} MiB\n", step, seconds,
             static_cast<double>(status_kib("VmRSS")) / 1024, static_cast<double>(status_kib("RssAnon")) / 1024,
             static_cast<double>(status_kib("VmHWM")) / 1024);
}

template <typename Step>
void timed(const std::string& name, Step step) {
  const double start = seconds_now();
  step();
  print_memory(name, seconds_now() - start);
}

void make(const std::string& folder) {
  const TomlNode root =
      parse_toml("[model]\nfamily = \"gpt2\"\nlayers = 12\nwidth = 768\nheads = 12\ncontext = 1024\n", "-");
  TomlReader top(root, "-", "");
  const nn::Built built = nn::build(top.table("model"), nn::InputSpec::tokens(kVocabulary));
  nn::Model model;
  model.family = built.family;
  model.config = built.config;
  model.graph = built.graph;
  model.weights = std::make_shared<const graph::Weights>(nn::initialize(built, 1));
  make_folders(folder);
  write_file_atomically(join_path(folder, nn::kModelFile), canonical(nn::model_json(model)));
  write_file_atomically(join_path(folder, nn::kWeightsFile), nn::encode_tensors(model.weights->tensors()));
  const std::unique_ptr<store::Disk> disk = store::real_disk();
  Pool pool(cores());
  store::Store::create(join_path(folder, ".mlx"), *disk);
  store::Store store(join_path(folder, ".mlx"), *disk, pool);
  write_file_atomically(join_path(folder, "version"), nn::store_model(store, model).id.text());
}

nn::Model load(const std::string& from, const std::string& folder, Pool& pool) {
  if (from == "folder") return nn::load_model_folder(folder).model;
  const std::unique_ptr<store::Disk> disk = store::real_disk();
  const store::Store store(join_path(folder, ".mlx"), *disk, pool);
  return nn::load_model(store, Digest::parse(read_text(join_path(folder, "version"))));
}

void run(const std::string& from, const std::string& folder) {
  Pool pool(cores());
  nn::Model model;
  timed("load", [&] { model = load(from, folder, pool); });
  graph::SessionOptions options;
  const char* const backend = std::getenv("MLX_KERNELS");
  options.backend = kernels::parse_backend(backend ? backend : "");
  std::vector<std::unique_ptr<graph::Session>> sessions;
  std::vector<std::int32_t> ids(16 * kTokens, 7);
  const graph::WithWeights fused = graph::fuse(graph::to_inference(model.graph), *model.weights);
  for (const char* const name : {"one", "two"}) {
    timed(fmt::format("session {}", name),
          [&] { sessions.push_back(std::make_unique<graph::Session>(fused.graph, fused.weights, options, pool)); });
    for (const std::int64_t batch : {1, 4, 16}) {
      timed(fmt::format("session {}, batch of {} x {} tokens", name, batch, kTokens), [&] {
        sessions.back()->run({{fused.graph.inputs.at(0), ids.data(), {batch, kTokens}}});
      });
    }
  }
  fmt::print("weights {:.0f} MiB, packed {:.0f} MiB in {} forms\n",
             static_cast<double>(fused.weights->bytes()) / (1 << 20),
             static_cast<double>(fused.weights->packed_bytes()) / (1 << 20), fused.weights->times_packed());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string mode = argc == 3 ? argv[1] : "";
    if (mode == "make") {
      make(argv[2]);
    } else if (mode == "folder" || mode == "store") {
      run(mode, argv[2]);
    } else {
      mlx::fail(mlx::ErrorKind::kUsage, "usage: bench_weights (make|folder|store) FOLDER");
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
