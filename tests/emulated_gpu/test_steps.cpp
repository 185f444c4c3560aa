// Trainings on the emulated GPU: a step is one replay and one wait, whatever its streams do first gives the same bits,
// an interruption drops what was staged, and a loss that is not finite is traced although the step went on.
#include <doctest/doctest.h>

#include <array>

#include "base/json.h"
#include "data/kinds/rows_dataset.h"
#include "probe.h"
#include "tests/train/world.h"
#include "train/loop/training_step.h"
#include "train/repository_sink.h"

namespace mlx::train::test {
namespace {

// Three steps an epoch.
constexpr const char* kImages =
    "[data]\ndataset = \"data/bars\"\nhold_out = 204\naugment = { shift = 1 }\n"
    "[model]\nname = \"clf\"\nfamily = \"mlp\"\nhidden = [16]\ndropout = 0.1\n"
    "[train]\nepochs = 3\nbatch = 32\nseed = 5\ncheckpoint_every = 0.5\n";

struct GpuWorld : World {
  explicit GpuWorld(const std::string& config) : World(2, config) { backend = kernels::cuda_backend(); }
};

// A step of a perceptron over two numbers and three classes.
struct Steps {
  explicit Steps(const std::string& lines) : world(2, with(lines, kRows)), config(world.config()) {
    about.kind = &data::rows_kind;
    about.features = 2;
    about.outputs = 3;
    built = nn::build(TomlReader(*config.model, config.file, "[model]"), nn::InputSpec::rows(2, 3));
    training = std::make_unique<TrainingStep>(built, config, about, kernels::cuda_backend(), *alone, world.pool);
    training->start(nn::initialize(built, config.seed));
    view.count = view.units = 8;
    view.inputs = {{about.kind->input, inputs.data(), {8, 2}}};
    view.target = labels.data();
    view.target_dims = {8};
  }
  static constexpr const char* kRows =
      "[data]\ndataset = \"data/bars\"\n[model]\nname = \"clf\"\nfamily = \"mlp\"\nhidden = [4]\n"
      "[train]\nepochs = 1\nbatch = 8\n";
  World world;
  TrainConfig config;
  data::Description about;
  nn::Built built;
  std::unique_ptr<dist::Communicator> alone = dist::lone_rank();
  std::unique_ptr<TrainingStep> training;
  std::array<float, 16> inputs{0.5f, -1, 2, 0.25f, -0.5f};
  std::array<std::int32_t, 8> labels{0, 1, 2, 0, 1, 2, 0, 1};
  data::BatchView view;
};

TEST_CASE("a step is one replay and one wait, of several micro-batches one replay for each and one for the update") {
  for (const std::int64_t parts : {1, 2}) {
    CAPTURE(parts);
    Steps steps(fmt::format("accumulate = {}\nclip = 1.0", parts));
    TrainingStep& training = *steps.training;
    StepOutcome outcome;
    for (std::int64_t step = 0; step < 3; ++step) outcome = training.run(steps.view, step, 0.1);  // runs, is captured
    CHECK(outcome.counted == 8);
    CHECK(outcome.gradient_norm > 0);
    training.stage(steps.view, 3, 0.1);
    for (std::int64_t step = 3; step < 6; ++step) {
      const emulation::Counts before = emulation::counts();
      training.launch(steps.view, step, 0.1);
      training.stage(steps.view, step + 1, 0.1);
      const emulation::Counts launched = emulation::counts();
      training.finish();
      const emulation::Counts after = emulation::counts();
      CHECK(after.launches - before.launches == (parts == 1 ? 0 : 8));  // four gradients are added, and then scaled
      CHECK(after.replays - before.replays == static_cast<std::size_t>(parts == 1 ? 1 : parts + 1));
      CHECK(launched.waits - before.waits ==
            (parts == 1 ? 0 : 1));  // for pinned memory, which a GPU has copied by then
      CHECK(after.waits - launched.waits == 1);
    }
  }
}

TEST_CASE("trainings have the same bits whichever stream is first, and stopped at any step and resumed") {
  for (const char* lines : {"", "accumulate = 2\nclip = 0.5\nema = 0.9"}) {
    CAPTURE(lines);
    const std::string config = with(lines, kImages);
    GpuWorld late(config), early(config), stopped(config);
    const Json summary = parse_json(late.train().run.summary, "summary");
    CHECK(summary.at("steps") == 9);
    emulation::copies_first(true);
    early.train();
    CHECK(early.id() == late.id());
    for (const std::uint64_t step : {2u, 2u}) {
      StopAt tripwire(step);
      const bool first = registry::runs(*stopped.repository).empty();
      CHECK_THROWS_WITH_AS(stopped.train(tripwire, first ? "" : stopped.run()),
                           doctest::Contains("a checkpoint is kept"), Error);
    }
    emulation::copies_first(false);
    stopped.train(stopped.run());
    CHECK(stopped.id() == late.id());
  }
}

TEST_CASE("a loss that is not finite is traced to the operation, and no checkpoint holds what it spoiled") {
  GpuWorld world(with("accumulate = 2\nlearning_rate = 1000.0", kImages));
  std::string message;
  try {
    world.train();
  } catch (const Error& error) {
    message = error.message;
  }
  REQUIRE_MESSAGE(message.find("was the first to become non-finite, at step ") != std::string::npos, message);
  const registry::Run run = registry::runs(*world.repository)[0];
  CHECK(run.status == registry::RunStatus::kFailed);
  if (const auto state = load_checkpoint(*world.repository, run.id, run.key))
    CHECK(graph::first_not_finite(state->tensors).empty());
}

}  // namespace
}  // namespace mlx::train::test
