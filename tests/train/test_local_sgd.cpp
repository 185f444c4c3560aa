// Local SGD on ranks that are threads: against the algorithm written out, stopped and resumed, and what cannot be.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <functional>
#include <thread>

#include "../dist/ranks.h"
#include "data/kinds/images_dataset.h"
#include "memory_sink.h"
#include "train/build_model.h"
#include "train/loop/training_loop.h"
#include "world.h"

namespace mlx::train::test {
namespace {

const char* const kPlain = R"([data]
dataset = "data/bars"

[model]
name = "clf"
family = "mlp"
hidden = [16]

[train]
epochs = 2
batch = 32
learning_rate = 0.02
schedule = "constant"
)";

struct Prepared {
  explicit Prepared(const std::string& text) : config(config_of(text)) {
    data = make_training_data(config, data::make_dataset(synthetic::make_examples(300, 1)), nullptr);
    config.precision = "f32";
    built = build_model(config, data.train->describe(), nullptr);
  }
  TrainConfig config;
  TrainingData data;
  nn::Built built;
};

using MakeProgress = std::function<std::unique_ptr<Progress>(int rank)>;

std::unique_ptr<Progress> silent(int /*rank*/) {
  return std::make_unique<NoProgress>();
}

// What the first rank returns.
TrainingResult train_on(int ranks, const std::string& text, MemorySink& sink, const MakeProgress& progress = silent,
                        bool resume = false, std::int64_t verify_every = 0) {
  TrainingResult result;
  dist::on_ranks(ranks, [&](dist::Communicator& communicator) {
    const Prepared prepared(text);
    Pool pool(1);
    LoopOptions options;
    options.resume = resume;
    options.keep_state = communicator.rank() == 0;
    options.ranks = &communicator;
    options.verify_every = verify_every;
    MemorySink others;
    const std::unique_ptr<Progress> own = progress(communicator.rank());
    TrainingResult of_rank = run_training(prepared.config, prepared.built, prepared.data, options,
                                          communicator.rank() == 0 ? sink : others, pool, *own);
    if (communicator.rank() == 0) result = std::move(of_rank);
  });
  return result;
}

Bytes bits_of(const TrainingResult& result) {
  return nn::encode_tensors(result.tensors);
}

std::string local(const std::string& lines, const std::string& config = kPlain) {
  return with(lines, config);
}

// The algorithm as its authors write it down, of a network with one hidden layer, in f64.
struct Reference {
  using Vector = std::vector<double>;
  Vector w1, b1, w2, b2;  // of the layers, outputs x inputs
  std::array<Vector*, 4> all() { return {&w1, &b1, &w2, &b2}; }

  // The gradients of a batch.
  Reference gradients(const data::BatchView& batch) const {
    const auto* const x = static_cast<const float*>(batch.inputs.at(0).data);
    const auto* const y = static_cast<const std::int32_t*>(batch.target);
    const std::size_t hidden = b1.size(), classes = b2.size(), inputs = w1.size() / hidden;
    Reference out{Vector(w1.size()), Vector(hidden), Vector(w2.size()), Vector(classes)};
    for (std::int64_t n = 0; n < batch.count; ++n) {
      const float* const row = x + static_cast<std::size_t>(n) * inputs;
      Vector h(hidden), z(b2);
      for (std::size_t i = 0; i < hidden; ++i) {
        h[i] = b1[i];
        for (std::size_t j = 0; j < inputs; ++j) h[i] += w1[i * inputs + j] * double{row[j]};
        h[i] = std::max(0.0, h[i]);
      }
      double sum = 0;
      for (std::size_t k = 0; k < classes; ++k) {
        for (std::size_t i = 0; i < hidden; ++i) z[k] += w2[k * hidden + i] * h[i];
        sum += std::exp(z[k]);
      }
      for (std::size_t k = 0; k < classes; ++k) {
        const double d =
            (std::exp(z[k]) / sum - (static_cast<std::int32_t>(k) == y[n] ? 1 : 0)) / static_cast<double>(batch.count);
        out.b2[k] += d;
        for (std::size_t i = 0; i < hidden; ++i) {
          out.w2[k * hidden + i] += d * h[i];
          if (h[i] <= 0) continue;
          out.b1[i] += d * w2[k * hidden + i];
          for (std::size_t j = 0; j < inputs; ++j) out.w1[i * inputs + j] += d * w2[k * hidden + i] * double{row[j]};
        }
      }
    }
    return out;
  }
};

Reference reference_of(const Prepared& prepared, const graph::Tensors& tensors) {
  Reference out;
  std::size_t next = 0;
  for (const graph::Value& value : prepared.built.graph.values) {
    if (value.role != graph::Role::kParameter) continue;
    const Bytes& bytes = tensors.at(value.name).data;
    const auto* const floats = reinterpret_cast<const float*>(bytes.data());
    out.all().at(next++)->assign(floats, floats + bytes.size() / sizeof(float));
  }
  REQUIRE(next == 4);
  return out;
}

TEST_CASE("local SGD is that of its authors: Nesterov steps with the mean of how far the workers have moved") {
  constexpr std::int64_t kEvery = 4;
  const Prepared prepared(local("sync_every = 4\nworkers = 2"));
  MemorySink sink;
  const TrainingResult result = train_on(2, local("sync_every = 4\nworkers = 2"), sink);

  constexpr double kRate = 0.02, kMomentum = 0.9, kOuterRate = 0.7, kOuterMomentum = 0.9;
  Pool pool(1);
  Reference global = reference_of(prepared, nn::initialize(prepared.built, prepared.config.seed));
  std::array<Reference, 2> worker{global, global}, velocity{global, global};
  Reference outer = global;
  for (Reference* zero : {&velocity[0], &velocity[1], &outer})
    for (Reference::Vector* each : zero->all()) std::ranges::fill(*each, 0.0);
  std::array<std::unique_ptr<data::BatchSource>, 2> sources;
  for (int i = 0; i < 2; ++i) {
    data::BatchOptions options;
    options.batch = 32, options.seed = 1, options.shuffle = options.drop_last = true;
    options.rank = i, options.ranks = 2;
    sources[static_cast<std::size_t>(i)] = prepared.data.train->batches(prepared.data.preprocessing, options, pool);
  }
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    for (const auto& source : sources) source->start(epoch);
    const std::int64_t steps = sources[0]->batches();
    for (std::int64_t step = 1; step <= steps; ++step) {
      for (std::size_t i = 0; i < 2; ++i) {
        Reference gradients = worker[i].gradients(*sources[i]->next());
        for (std::size_t part = 0; part < 4; ++part) {
          for (std::size_t at = 0; at < gradients.all()[part]->size(); ++at) {
            const double g = (*gradients.all()[part])[at];
            double& v = (*velocity[i].all()[part])[at];
            v = kMomentum * v + g;
            (*worker[i].all()[part])[at] -= kRate * (g + kMomentum * v);
          }
        }
      }
      if (step % kEvery != 0 && step != steps) continue;
      for (std::size_t part = 0; part < 4; ++part) {
        for (std::size_t at = 0; at < global.all()[part]->size(); ++at) {
          double& weight = (*global.all()[part])[at];
          const double moved = weight - ((*worker[0].all()[part])[at] + (*worker[1].all()[part])[at]) / 2;
          double& v = (*outer.all()[part])[at];
          v = kOuterMomentum * v + moved;
          weight -= kOuterRate * (moved + kOuterMomentum * v);
        }
      }
      worker = {global, global};
    }
  }
  Reference made = reference_of(prepared, result.tensors);
  double apart = 0, size = 0;
  for (std::size_t part = 0; part < 4; ++part) {
    for (std::size_t at = 0; at < made.all()[part]->size(); ++at) {
      apart = std::max(apart, std::abs((*made.all()[part])[at] - (*global.all()[part])[at]));
      size = std::max(size, std::abs((*global.all()[part])[at]));
    }
  }
  CHECK(apart < 1e-4 * size);
  CHECK(sink.metrics["train/loss"].size() == 18);
}

// With running statistics, dropout, averages, clipping and two micro-batches a worker.
const std::string kRich = "sync_every = 3\nworkers = 2\nema = 0.9\nclip = 1.0\naccumulate = 2\nkeep = \"best\"\n";

TEST_CASE("the same workers get the same bits, the ranks agree on them, and other workers get others") {
  const std::string two = local(kRich, synthetic::kConfig);
  MemorySink a, b, c, d;
  const TrainingResult first = train_on(2, two, a);
  CHECK(bits_of(train_on(2, two, b, silent, false, 2)) == bits_of(first));
  CHECK(a.metrics["train/loss"] == b.metrics["train/loss"]);
  CHECK(a.metrics["train/gradient_norm"].size() == 24);
  CHECK(bits_of(train_on(4, replaced(two, "workers = 2", "workers = 4"), c)) != bits_of(first));
  CHECK(bits_of(train_on(2, replaced(two, "sync_every = 3", "sync_every = 4"), d)) != bits_of(first));
  CHECK(first.valid.at(0).second > 0);
}

TEST_CASE("one worker alone trains with an outer step too") {
  MemorySink sink, again;
  const std::string text = local("sync_every = 3\n");
  const TrainingResult result = train_on(1, text, sink);
  CHECK(bits_of(train_on(1, text, again)) == bits_of(result));
  CHECK(sink.metrics["train/loss"].size() == 18);
}

TEST_CASE("stopped on any worker, in any place, and resumed, is the same as never stopped") {
  const std::string text =
      local(kRich, replaced(synthetic::kConfig, "checkpoint_every = 0.5", "checkpoint_every = \"5 steps\""));
  MemorySink whole;
  const TrainingResult expected = train_on(2, text, whole);
  for (const int who : {0, 1}) {
    MemorySink stopped;
    bool begun = false;
    for (const std::uint64_t step : {2u, 3u, 1u, 6u}) {
      CAPTURE(who);
      CAPTURE(step);
      const auto progress = [&](int rank) -> std::unique_ptr<Progress> {
        if (rank == who) return std::make_unique<StopAt>(step);
        return std::make_unique<NoProgress>();
      };
      CHECK_THROWS_WITH_AS(train_on(2, text, stopped, progress, begun), doctest::Contains("a checkpoint is kept"),
                           Error);
      begun = true;
      REQUIRE(stopped.last);
      REQUIRE(stopped.last->local.workers.size() == 2);
      // As it goes through the store.
      stopped.last = decode_checkpoint(encode_checkpoint(*stopped.last), "checkpoint");
    }
    const TrainingResult resumed = train_on(2, text, stopped, silent, true);
    CHECK(bits_of(resumed) == bits_of(expected));
    CHECK(stopped.metrics["train/loss"] == whole.metrics["train/loss"]);
    CHECK(stopped.metrics["valid/loss"] == whole.metrics["valid/loss"]);
    // The kept state too, of both workers.
    CHECK(encode_checkpoint(*stopped.last) == encode_checkpoint(*whole.last));
  }
}

// Counts the steps of a worker whose rounds have three.
struct Count final : Progress {
  explicit Count(std::atomic<int>& of) : steps(of) {}
  void begin(std::string_view, std::uint64_t, std::string_view) override {}
  void advance(std::uint64_t) override { ++steps; }
  void note(std::string_view) override {}
  void end() override {}
  void warn(std::string_view) override {}
  std::atomic<int>& steps;
};

// Interrupts its worker after the first step, once the other one has done two and some time for the third.
struct SlowStop final : private OwnToken, Progress {
  explicit SlowStop(const std::atomic<int>& of) : Progress(token), others(of) {}
  void begin(std::string_view, std::uint64_t, std::string_view) override {}
  void advance(std::uint64_t) override {
    while (others < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    token.raise(SIGTERM);
  }
  void note(std::string_view) override {}
  void end() override {}
  void warn(std::string_view) override {}
  const std::atomic<int>& others;
};

TEST_CASE("a worker that was stopped while it waited for a slower one goes on with what follows the round") {
  const std::string text =
      local(kRich, replaced(synthetic::kConfig, "checkpoint_every = 0.5", "checkpoint_every = \"3 steps\""));
  MemorySink whole;
  const TrainingResult expected = train_on(2, text, whole);
  for (const int slow : {0, 1}) {
    MemorySink stopped;
    std::atomic<int> steps = 0;
    const auto progress = [&](int rank) -> std::unique_ptr<Progress> {
      if (rank == slow) return std::make_unique<SlowStop>(steps);
      return std::make_unique<Count>(steps);
    };
    CHECK_THROWS_WITH_AS(train_on(2, text, stopped, progress), doctest::Contains("a checkpoint is kept"), Error);
    REQUIRE(stopped.last);
    REQUIRE(stopped.last->local.workers.size() == 2);
    CHECK(stopped.last->local.workers[static_cast<std::size_t>(slow)].step == 2);
    CHECK(stopped.last->local.workers[static_cast<std::size_t>(1 - slow)].step == 3);
    const TrainingResult resumed = train_on(2, text, stopped, silent, true, 1);
    CHECK(bits_of(resumed) == bits_of(expected));
    CHECK(encode_checkpoint(*stopped.last) == encode_checkpoint(*whole.last));
  }
}

TEST_CASE("an exchange in every step, with a plain mean of SGD without momentum, is training with all gradients") {
  const std::string plain = local("optimizer = \"sgd\"\nmomentum = 0.0\nnesterov = false\n");
  MemorySink a, b;
  const TrainingResult exact = train_on(2, with("accumulate = 2", plain), a);
  const TrainingResult mean =
      train_on(2, with("sync_every = 1\nworkers = 2\nouter_learning_rate = 1.0\nouter_momentum = 0.0", plain), b);
  for (const auto& [step, loss] : a.metrics["train/loss"])
    CHECK(b.metrics["train/loss"].at(step) == doctest::Approx(loss).epsilon(1e-4));
  CHECK(mean.loss == doctest::Approx(exact.loss).epsilon(1e-4));
}

TEST_CASE("bf16 on the wire: the same bits on any number of ranks, and others than in f32") {
  const std::string f32 = with("accumulate = 4\nclip = 1.0", synthetic::kConfig), bf16 = with("wire = \"bf16\"", f32);
  MemorySink sinks[5];
  const Bytes one = bits_of(train_on(1, bf16, sinks[0]));
  CHECK(bits_of(train_on(2, bf16, sinks[1])) == one);
  CHECK(bits_of(train_on(4, bf16, sinks[2])) == one);
  CHECK(bits_of(train_on(2, f32, sinks[3])) != one);
  const TrainingResult local_bf16 = train_on(2, local(kRich + "wire = \"bf16\"", synthetic::kConfig), sinks[4]);
  CHECK(local_bf16.valid.at(0).second > 0);
  // Running statistics, losses and counts are not rounded.
  const Prepared prepared(bf16);
  CHECK(resolved(prepared.config, prepared.built).find("\"wire\":\"bf16\"") != std::string::npos);
  CHECK(resolved(Prepared(f32).config, prepared.built).find("wire") == std::string::npos);
}

TEST_CASE("numbers that are not finite on one worker end all, and the worker is named") {
  MemorySink sink;
  const std::string text = replaced(local("sync_every = 50\nworkers = 2\nloss = \"softmax\""), "learning_rate = 0.02",
                                    "learning_rate = 900.0");
  std::string message;
  try {
    train_on(2, replaced(text, "epochs = 2", "epochs = 40"), sink);
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kDiverged);
    message = error.message;
  }
  CHECK(message.find(" of rank ") != std::string::npos);
  CHECK(sink.ends == 1);
}

TEST_CASE("a checkpoint of other workers, and keys that do not fit, are refused") {
  MemorySink sink;
  const std::string two = local("sync_every = 3\nworkers = 2");
  train_on(2, two, sink);
  CHECK_THROWS_WITH_AS(train_on(4, replaced(replaced(two, "workers = 2", "workers = 4"), "epochs = 2", "epochs = 3"),
                                sink, silent, true),
                       "the checkpoint has 2 workers, and there are 4", Error);
  const Prepared prepared(two);
  const std::string key = resolved(prepared.config, prepared.built);
  for (const char* part :
       {"\"sync_every\":3", "\"workers\":2", "\"outer_learning_rate\":0.7", "\"outer_momentum\":0.9"})
    CHECK(key.find(part) != std::string::npos);
  CHECK(resolved(Prepared(kPlain).config, prepared.built).find("workers") == std::string::npos);
  CHECK_THROWS_WITH_AS(config_of(local("outer_momentum = 0.5")), doctest::Contains("only for local SGD"), Error);
  CHECK_THROWS_WITH_AS(config_of(local("sync_every = 0")), doctest::Contains("sync_every"), Error);
  CHECK_THROWS_WITH_AS(config_of(local("sync_every = 4\nworkers = 3")),
                       doctest::Contains("3 workers with 1 micro-batches each do not share a batch of 32 evenly"),
                       Error);
}

}  // namespace
}  // namespace mlx::train::test
