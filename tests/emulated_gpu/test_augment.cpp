// Trainings that are fed images as bytes on the emulated GPU: the same bits as of images made on the CPU and fed as
// f32, of which less is sent, however the batch is cut and whatever is computed again.
#include <doctest/doctest.h>

#include <algorithm>

#include "data/kinds/images_dataset.h"
#include "graph/session/feeding.h"
#include "graph/session/recompute.h"
#include "probe.h"
#include "tests/train/world.h"
#include "train/loop/training_step.h"

namespace mlx::train::test {
namespace {

constexpr const char* kModel =
    "[model]\nname = \"clf\"\nfamily = \"cnn\"\n"
    "layers = [{ conv = 6, norm = \"batch\", activation = \"relu\" }, { pool = \"max\", size = 2 }, "
    "{ flatten = true }, { dense = 9 }]\n[train]\nepochs = 1\nbatch = 8\n";

data::Images made_up(std::int64_t count) {
  data::Images out;
  out.count = count, out.height = 7, out.width = 9, out.channels = 3, out.classes = 4;
  Bytes pixels;
  for (std::int64_t i = 0; i < count * 7 * 9 * 3; ++i)
    pixels.push_back(static_cast<std::uint8_t>(kernels::random_u32(3, 1, 0, static_cast<std::uint64_t>(i))));
  data::SpoolWriter writer(out.image_bytes(), {});
  writer.append(pixels.data(), count);
  out.pixels = writer.finish();
  for (std::int64_t i = 0; i < count; ++i) out.labels.push_back(static_cast<std::int32_t>(i % 4));
  return out;
}

struct Training {
  explicit Training(const std::string& lines) : world(2, lines), config(world.config()) {
    about.kind = &data::images_kind;
    about.targets = data::TargetKind::kClass;
    about.height = 7, about.width = 9, about.channels = 3, about.outputs = 4;
    built = nn::build(TomlReader(*config.model, config.file, "[model]"), nn::InputSpec::images(7, 9, 3, 4));
  }
  TrainingStep step() { return {built, config, about, kernels::cuda_backend(), *alone, world.pool}; }
  graph::TrainingGraph fed_whole() const {
    return graph::to_training(built.graph, config.optimizer, loss_spec(config, about.targets),
                              {precision_of(config, about, kernels::cuda_backend()), kernels::cuda_backend().can()});
  }
  std::unique_ptr<data::BatchSource> batches(const data::Dataset& dataset, bool raw) {
    data::BatchOptions options;
    options.batch = config.batch;
    options.seed = 5;
    options.shuffle = options.drop_last = true;
    options.augment = config.reading.augment;
    options.raw = raw;
    return dataset.batches({7, 9, 3, {{0.5f, 0.4f, 0.3f}, {0.3f, 0.2f, 0.4f}}}, options, world.pool);
  }
  World world;
  std::unique_ptr<dist::Communicator> alone = dist::lone_rank();
  TrainConfig config;
  data::Description about;
  nn::Built built;
};

struct Trained {
  std::vector<double> losses;
  graph::Tensors state;
};

Trained train(Training& training, TrainingStep& step, bool raw) {
  const auto source = training.batches(*data::make_dataset(made_up(40)), raw);
  step.start(nn::initialize(training.built, training.config.seed));
  source->start(0);
  Trained out;
  for (std::int64_t at = 0; at < source->batches(); ++at)
    out.losses.push_back(step.run(*source->next(), at, 0.05).loss);
  out.state = step.state();
  return out;
}

void check_same(const Trained& one, const Trained& other) {
  CHECK(one.losses == other.losses);
  REQUIRE(one.state.size() == other.state.size());
  for (const auto& [name, tensor] : one.state) {
    CAPTURE(name);
    CHECK(tensor.data == other.state.at(name).data);
  }
}

TEST_CASE("images as bytes: the same bits as of images made on the CPU") {
  for (const char* augment : {"", "augment = { shift = 2, flip = true, erase = 3 }\n",
                              "augment = { shift = 1, flip = true, mixup = 0.4 }\n"}) {
    for (const char* lines : {"precision = \"f32\"\naccumulate = 2\n", "precision = \"bf16\"\n",
                              "precision = \"fp16\"\naccumulate = 4\n"}) {
      CAPTURE(augment);
      CAPTURE(lines);
      Training training(std::string("[data]\ndataset = \"data/bars\"\n") + augment + kModel + lines);
      TrainingStep raw = training.step(), whole = training.step(), again = training.step();
      REQUIRE(raw.takes_raw());
      whole.use(training.fed_whole());
      std::vector<graph::NodeRange> parts = graph::recomputable_parts(raw.training());
      REQUIRE(parts.size() > 1);
      again.use(graph::recompute(raw.training(), {{parts[0].begin, parts[1].end}}));
      const auto is_made_again = [](const graph::Node& node) { return node.name == "augment.again"; };
      CHECK(std::ranges::any_of(again.graph().nodes, is_made_again));
      const Trained expected = train(training, whole, false);
      REQUIRE(expected.losses.size() == 5);
      check_same(train(training, raw, true), expected);
      check_same(train(training, again, true), expected);
      // A byte an element, with mixup two, instead of four; beside them changes, and tables whatever the batch.
      const auto sent = [](const TrainingStep& step) {
        return graph::feeding_bytes(step.graph(), {1024}) - graph::feeding_bytes(step.graph(), {512});
      };
      const std::size_t images = training.config.reading.augment.mixup > 0 ? 2 : 1;
      CHECK(sent(whole) - sent(raw) == 512 * (4 * 189 - images * (189 + 24)));
    }
  }
}

}  // namespace
}  // namespace mlx::train::test
