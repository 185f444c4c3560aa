// Sessions that are fed ahead on the emulated GPU: the bits are those of a session that is fed when it runs, whatever
// its two streams do first, and however early the memory of a feed is used for something else.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "probe.h"
#include "tests/graph/sample.h"

namespace mlx::graph {
namespace {

constexpr std::int64_t kSteps = 9;

// 16 or 24 images: the blocks grow while a run is under way, and two buckets take turns.
std::int64_t size_of_step(std::int64_t step) {
  return step % 3 == 2 ? 24 : 16;
}

// One batch in memory that is used for all of them, as a loader's is.
struct Batches {
  explicit Batches(const TrainingGraph& graph) : training(graph) {}
  std::vector<Feed> feeds(std::int64_t step) {
    const std::int64_t count = size_of_step(step);
    batch = sample::images(count, 40 + static_cast<std::uint64_t>(step));
    rate = 0.05f / static_cast<float>(1 + step);
    return {{training.graph.find("images"), batch.images.data(), {count, 12, 12, 2}},
            {training.labels, batch.labels.data(), {count}},
            {training.learning_rate, &rate, {1}}};
  }
  void spoil() {
    std::ranges::fill(batch.images, std::numeric_limits<float>::quiet_NaN());
    std::ranges::fill(batch.labels, -1);
    rate = std::numeric_limits<float>::quiet_NaN();
  }
  const TrainingGraph& training;
  sample::Batch batch;
  float rate = 0;
};

RunOptions options_of(std::int64_t step) {
  RunOptions options;
  options.step = static_cast<std::uint64_t>(step);
  options.part = static_cast<std::uint64_t>(step % 2);
  return options;
}

struct FedTraining {
  std::vector<float> losses;
  std::vector<std::int32_t> counted;
  Tensors tensors;
};

struct OnGpu {
  Pool pool{1};
  TrainingGraph training = to_training(sample::cnn(), {"adamw"}, 0.05f);
  Session session{training.graph, sample::random_tensors(training.graph), options(), pool};
  Batches batches{training};

  static SessionOptions options() {
    SessionOptions out;
    out.backend = kernels::cuda_backend();
    out.training = true;
    out.seed = 42;
    return out;
  }
  void stage(std::int64_t step) {
    session.stage(batches.feeds(step), options_of(step));
    batches.spoil();
  }
  void launch() {
    session.run_staged();
    session.collect({training.loss, training.counted});
  }
  void add_collected(FedTraining& out) {
    const ByteView bytes = session.collected();
    for (std::size_t at = 0; at < bytes.size(); at += 2 * Session::kCollected) {
      std::memcpy(&out.losses.emplace_back(), bytes.data() + at, sizeof(float));
      std::memcpy(&out.counted.emplace_back(), bytes.data() + at + Session::kCollected, sizeof(std::int32_t));
    }
  }
};

FedTraining fed_when_run() {
  OnGpu on;
  FedTraining out;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    on.session.run(on.batches.feeds(step), options_of(step));
    on.batches.spoil();
    out.losses.push_back(sample::floats(on.session.output(on.training.loss))[0]);
    std::memcpy(&out.counted.emplace_back(), on.session.output(on.training.counted).data(), sizeof(std::int32_t));
  }
  out.tensors = on.session.tensors();
  return out;
}

// Waits for the figures of every `together` steps by one wait.
FedTraining fed_ahead(std::int64_t together) {
  OnGpu on;
  FedTraining out;
  on.stage(0);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    on.launch();
    if (step + 1 < kSteps) on.stage(step + 1);
    if ((step + 1) % together == 0) on.add_collected(out);
  }
  out.tensors = on.session.tensors();
  return out;
}

void check_same(const FedTraining& a, const FedTraining& b) {
  CHECK(a.losses == b.losses);
  CHECK(a.counted == b.counted);
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (const auto& [name, tensor] : a.tensors) CHECK_MESSAGE(tensor.data == b.tensors.at(name).data, name);
}

TEST_CASE("what is fed ahead gives the bits of what is fed when it is run, whichever stream is first") {
  const FedTraining expected = fed_when_run();
  for (const std::int64_t count : {16, 24}) CHECK(std::ranges::count(expected.counted, count) > 0);
  CHECK(std::ranges::all_of(expected.losses, [](float loss) { return std::isfinite(loss); }));
  for (const bool first : {false, true}) {
    emulation::copies_first(first);
    for (const std::int64_t together : {1, 3, 9}) {
      CAPTURE(first);
      CAPTURE(together);
      check_same(fed_ahead(together), expected);
    }
  }
  emulation::copies_first(false);
}

TEST_CASE("what is staged and not run is dropped") {
  OnGpu on, other;
  for (std::int64_t step = 0; step < 3; ++step) {
    on.stage(step + 4);  // the next takes its place
    on.stage(step + 5);
    CHECK(on.session.staged());
    on.session.run(on.batches.feeds(step), options_of(step));
    CHECK_FALSE(on.session.staged());
    other.stage(step);
    other.session.run_staged();
    CHECK_FALSE(other.session.staged());
  }
  check_same({{}, {}, on.session.tensors()}, {{}, {}, other.session.tensors()});
}

TEST_CASE("a run that was launched stands in all that is asked for afterwards") {
  for (const bool first : {false, true}) {
    emulation::copies_first(first);
    OnGpu on, other;
    on.stage(0);
    on.session.run_staged();
    on.stage(1);
    other.session.run(other.batches.feeds(0), options_of(0));
    other.session.wait();
    const std::string name = "dense2.weight";
    CHECK(on.session.tensors().at(name).data == other.session.tensors().at(name).data);
    CHECK(sample::floats(on.session.output(on.training.loss)) ==
          sample::floats(other.session.output(on.training.loss)));
    on.session.run_staged();  // whose results nobody asks for
  }
  emulation::copies_first(false);
}

TEST_CASE("feeds that do not fit are refused when they are staged, and the session goes on") {
  OnGpu on;
  std::vector<Feed> feeds = on.batches.feeds(0);
  feeds[0].dims = {16, 12, 12, 3};
  CHECK_THROWS_WITH_AS(on.session.stage(feeds, {}), doctest::Contains("[16,12,12,3]"), Error);
  CHECK_FALSE(on.session.staged());
  on.stage(0);
  CHECK_NOTHROW(on.session.run_staged());
}

}  // namespace
}  // namespace mlx::graph
