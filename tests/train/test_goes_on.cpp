// Trainings that go on with what is there: stopped ones by themselves, done ones for longer; and the defaults and
// settings that decide whether it is the same training.
#include <doctest/doctest.h>

#include "base/json.h"
#include "data/kinds/images_dataset.h"
#include "registry/versions/references.h"
#include "world.h"

namespace mlx::train::test {
namespace {

void stop_at(World& world, std::uint64_t step) {
  StopAt tripwire(step);
  CHECK_THROWS_WITH_AS(world.train(tripwire), doctest::Contains("a checkpoint is kept"), Error);
}

std::int64_t steps_before(const TrainOutcome& outcome) {
  const Json summary = parse_json(outcome.run.summary, "summary");
  return summary.contains("resumed_from") ? json_int(summary, "resumed_from", "summary") : 0;
}

TEST_CASE("bug: a training that was stopped began at step 0 again, without a word") {
  World whole, stopped;
  whole.train();
  stop_at(stopped, 10);
  NoProgress silent;
  std::string said;
  TrainOptions options;
  options.backend = stopped.backend;
  options.notice = [&](const std::string& text) { said += text; };
  const TrainOutcome outcome = train::train(*stopped.repository, stopped.config(), options, silent);
  CHECK(steps_before(outcome) == 10);
  CHECK(registry::runs(*stopped.repository).size() == 1);
  CHECK(said == "run:" + outcome.run.id +
                    " is the same training, interrupted, with a checkpoint at step 10: continuing from it (--fresh "
                    "starts anew)");
  CHECK(stopped.id() == whole.id());

  for (const bool force : {true, false}) {
    World anew;
    stop_at(anew, 10);
    options.force = force;
    options.fresh = !force;
    CHECK(steps_before(train::train(*anew.repository, anew.config(), options, silent)) == 0);
    CHECK(registry::runs(*anew.repository).size() == 2);
    CHECK(anew.id() == whole.id());
  }
}

TEST_CASE("the checkpoint interval is not part of the key, and may change on resume") {
  World whole, stopped;
  whole.train();
  stop_at(stopped, 5);
  stopped.write_config(replaced(synthetic::kConfig, "checkpoint_every = 0.5", "checkpoint_every = \"3 steps\""));
  const TrainOutcome outcome = stopped.train(stopped.run());
  CHECK(steps_before(outcome) == 5);
  CHECK(stopped.id() == whole.id());
  stopped.write_config(synthetic::kConfig);
  CHECK(stopped.train().unchanged);
}

// Eight layers whose weights are all ±1000 after the first step: in the second the squares of gradients, which adamw
// keeps, overflow, and the loss does not yet.
std::string diverging(const char* checkpoint_every) {
  return fmt::format(
      "[data]\ndataset = \"data/bars\"\n[model]\nname = \"clf\"\nfamily = \"mlp\"\n"
      "hidden = [16, 16, 16, 16, 16, 16, 16]\n[train]\nepochs = 2\nbatch = 32\noptimizer = \"adamw\"\n"
      "learning_rate = 1000\nschedule = \"constant\"\ncheckpoint_every = {}\n",
      checkpoint_every);
}

TEST_CASE("bug: how often checkpoints were made decided in which step a training diverged") {
  std::string first;
  for (const char* every : {"1000", "\"1 steps\"", "\"5 steps\""}) {
    World world(2, diverging(every));
    std::string message = "it did not diverge";
    try {
      world.train();
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::kDiverged);
      message = error.message;
    }
    CAPTURE(message);
    CHECK(message.find("is not finite at step 2: ") != std::string::npos);
    CHECK(message.find("was the first to become non-finite, at step 2") != std::string::npos);
    if (first.empty()) first = message;
    CHECK(message == first);
  }
}

TEST_CASE("a done training is extended with its optimizer state, as a new run") {
  const std::string constant =
      replaced(synthetic::kConfig, "learning_rate = 0.05", "learning_rate = 0.01\nschedule = \"constant\"");
  const std::string longer = replaced(constant, "epochs = 3", "epochs = 5");
  World world(2, constant), whole(2, longer);
  const std::string first = world.train().run.id;
  whole.train();
  world.write_config(longer);
  const TrainOutcome outcome = world.train("run:" + first);
  CHECK(outcome.run.id != first);
  CHECK(steps_before(outcome) == 24);
  CHECK(outcome.version.name() == "clf@v2");
  // Where the schedule does not depend on the length it is what the longer training gives.
  CHECK(world.id() == whole.id());
  CHECK(world.train("run:" + first).unchanged);
  CHECK(registry::read_run(*world.repository, first).status == registry::RunStatus::kDone);
  // Not with another dataset, batch or optimizer, nor for less than was done.
  for (const auto& [from, to, message] : std::initializer_list<std::array<const char*, 3>>{
           {"seed = 5", "seed = 6", "another config or dataset: train.seed"},
           {"batch = 32", "batch = 16", "train.batch"},
           {"seed = 5", "seed = 5\noptimizer = \"lion\"", "train.optimizer"},
           {"epochs = 5", "epochs = 2", "has done 24 of the 16 steps"}}) {
    world.write_config(replaced(longer, from, to));
    CHECK_THROWS_WITH_AS(world.train("run:" + first), doctest::Contains(message), Error);
  }
  World thrifty(2, with("keep_state = false", constant));
  const std::string none = thrifty.train().run.id;
  CHECK(thrifty.id() == registry::resolve(*world.repository, "clf@v1").digest.hex());
  thrifty.write_config(longer);
  CHECK_THROWS_WITH_AS(thrifty.train("run:" + none), doctest::Contains("has no checkpoint to continue from"), Error);
}

TEST_CASE("bug: the default batch was larger than the data and refused it") {
  TrainConfig config = World().config();
  config.batch_given = false;
  const auto batch_for = [&](std::int64_t examples, std::int64_t accumulate = 1) {
    config.accumulate = accumulate;
    settle(config, data::images_kind, examples);
    return config.batch;
  };
  CHECK(batch_for(60000) == 128);
  CHECK(batch_for(1024) == 128);
  CHECK(batch_for(1023) == 64);
  CHECK(batch_for(353) == 32);
  CHECK(batch_for(100) == 8);
  CHECK(batch_for(3) == 1);
  CHECK(batch_for(353, 3) == 30);
  World world(2, replaced(synthetic::kConfig, "batch = 32\n", ""));
  CHECK(parse_json(world.train().run.params, "params")["train"]["batch"] == 32);
}

TEST_CASE("keys of the command line count as those of the file") {
  World world;
  const std::string file = join_path(world.folder.path(), "train.toml");
  const TrainConfig set = read_train_config(
      file, {"train.epochs=7", "train.optimizer=adamw", "model.layers=[{ flatten = true }]", "data.augment.flip=true"});
  CHECK(set.epochs == 7);
  CHECK(set.optimizer.name == "adamw");
  CHECK(set.reading.augment.flip);
  CHECK(set.reading.augment.shift == 1);
  const auto refused = [&](const std::string& assignment) {
    try {
      (void)read_train_config(file, {assignment});
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::kUsage);
      return error.message + " | " + error.hint;
    }
    return std::string("it was taken");
  };
  CHECK(refused("train.epoch=7") == "--set train.epoch=7: [train] unknown key 'epoch' | did you mean 'epochs'?");
  CHECK(refused("trian.epochs=7") == "--set trian.epochs=7: unknown key 'trian' | did you mean 'train'?");
  CHECK(refused("train.epochs=many") ==
        "--set train.epochs=many: [train] epochs: expected an integer from 1 to 1000000, got \"many\" | ");
  CHECK(refused("train.epochs") == "--set train.epochs: expected KEY=VALUE | like --set train.epochs=20");
  CHECK(refused("train.epochs.x=1").starts_with("--set train.epochs.x=1: the part before 'x' is no table"));
  CHECK(refused("a b=1").starts_with("--set a b=1: expected a key"));
}

}  // namespace
}  // namespace mlx::train::test
