// int8: a child version that is a quarter of the size and nearly as good.
#include <doctest/doctest.h>

#include "../train/synthetic.h"
#include "base/error.h"
#include "compress/quantize.h"
#include "compress/quantized_graph.h"
#include "graph/passes.h"
#include "registry/sync/open_repository.h"
#include "registry/versions/references.h"
#include "train/evaluate.h"
#include "train/trainer.h"

namespace mlx {
namespace {

TEST_CASE("a quantized model is a child version, nearly as accurate, with all layers in eight bits") {
  TempFolder folder;
  Pool pool(2);
  const std::unique_ptr<store::Disk> disk = store::real_disk();
  synthetic::make_repository(folder.path(), *disk, pool);
  write_file_atomically(join_path(folder.path(), "train.toml"), std::string_view(synthetic::kConfig));
  registry::Repository repository = registry::open_repository(folder.path(), *disk, pool);
  NoProgress silent;
  train::TrainOptions options;
  options.level = kernels::best_level();
  train::train(repository, train::read_train_config(join_path(folder.path(), "train.toml")), options, silent);

  compress::QuantizeOptions quantize;
  quantize.model = "clf";
  quantize.dataset = "data/bars";
  quantize.split = "train";
  quantize.level = options.level;
  const compress::QuantizeOutcome outcome = compress::quantize_version(repository, quantize, silent);
  CHECK(outcome.to.name() == "clf@v2");
  CHECK(outcome.to.parent == outcome.from.digest);
  CHECK(compress::quantize_version(repository, quantize, silent).unchanged);

  const auto evaluate = [&](const char* model, kernels::Level level) {
    const nn::Model loaded = nn::load_model(repository.store(), registry::resolve(repository, model).digest);
    const data::Split test =
        data::load(repository.store(), registry::resolve(repository, "data/bars").digest, "test", {}, silent);
    return train::evaluate(loaded, test, level, pool, silent);
  };
  const train::Evaluation f32 = evaluate("clf@v1", options.level), int8 = evaluate("clf@v2", options.level);
  CHECK(int8.accuracy() >= f32.accuracy() - 0.03);
  CHECK(int8.loss == doctest::Approx(f32.loss).epsilon(0.2));
  // The oracle's integer arithmetic says the same of nearly every example.
  CHECK(std::abs(evaluate("clf@v2", kernels::Level::kRef).correct - int8.correct) <= 1);

  const nn::Model model = nn::load_model(repository.store(), outcome.to.digest);
  CHECK(model.precision == "int8");
  int layers = 0;
  for (const graph::Node& node : model.graph.nodes) {
    if (node.op != graph::Op::kConv2d && node.op != graph::Op::kLinear) continue;
    ++layers;
    CHECK(model.graph.value(node.inputs[1]).dtype == graph::DType::kS8);
  }
  CHECK(layers == 4);
  CHECK_THROWS_AS(compress::quantize_int8(model, {}), Error);
}

// Residual sums stay in f32 between layers of eight bits; depthwise convolutions are layers as others.
void check_family(const std::string& family) {
  CAPTURE(family);
  TempFolder folder;
  Pool pool(2);
  const std::unique_ptr<store::Disk> disk = store::real_disk();
  synthetic::make_repository(folder.path(), *disk, pool);
  const std::string file = join_path(folder.path(), "train.toml");
  write_file_atomically(file, "[data]\ndataset = \"data/bars\"\n[model]\nname = \"clf\"\n" + family +
                                  "[train]\nepochs = 3\nbatch = 30\nseed = 5\n");
  registry::Repository repository = registry::open_repository(folder.path(), *disk, pool);
  NoProgress silent;
  train::TrainOptions options;
  options.level = kernels::best_level();
  train::train(repository, train::read_train_config(file), options, silent);
  compress::QuantizeOptions quantize;
  quantize.model = "clf";
  quantize.dataset = "data/bars";
  quantize.split = "train";
  quantize.level = options.level;
  const compress::QuantizeOutcome outcome = compress::quantize_version(repository, quantize, silent);

  const data::Split test =
      data::load(repository.store(), registry::resolve(repository, "data/bars").digest, "test", {}, silent);
  const nn::Model f32 = nn::load_model(repository.store(), outcome.from.digest),
                  int8 = nn::load_model(repository.store(), outcome.to.digest);
  const double before = train::evaluate(f32, test, options.level, pool, silent).accuracy();
  CHECK(before > 0.7);
  CHECK(train::evaluate(int8, test, options.level, pool, silent).accuracy() >= before - 0.05);
  int sums = 0;
  for (const graph::Node& node : int8.graph.nodes) {
    sums += node.op == graph::Op::kAdd;
    if (node.op == graph::Op::kConv2d) CHECK(int8.graph.value(node.inputs[1]).dtype == graph::DType::kS8);
    CHECK(node.op != graph::Op::kBatchNormInference);
  }
  CHECK(sums > 0);
}

TEST_CASE("residual networks quantize with all layers in eight bits") {
  check_family("family = \"resnet\"\ndepth = 20\nwidth = 0.25\n");
}

TEST_CASE("MobileNetV2 quantizes with all layers in eight bits") {
  check_family("family = \"mobilenet_v2\"\nwidth = 0.25\nhalvings = 2\ndropout = 0.0\n");
}

}  // namespace
}  // namespace mlx
