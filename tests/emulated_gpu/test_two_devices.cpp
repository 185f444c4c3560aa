// A process that uses two GPUs: sessions on either, taking turns on one thread and on threads of their own, with the
// bits that one device gives. The emulated driver refuses a launch on a stream of another device than the thread's
// current one, as a GPU does.
#include <doctest/doctest.h>

#include <memory>
#include <thread>
#include <vector>

#include "base/error.h"
#include "kernels/device.h"
#include "tests/graph/sample.h"

namespace mlx::graph {
namespace {

constexpr std::int64_t kTurns = 6;

struct OnDevice {
  Pool pool{1};
  TrainingGraph training = to_training(sample::cnn(), {"adamw"}, 0.05f);
  Session session;

  explicit OnDevice(int gpu) : session(training.graph, sample::random_tensors(training.graph), options(gpu), pool) {}
  static SessionOptions options(int gpu) {
    SessionOptions out;
    out.backend = kernels::cuda_backend(gpu);
    out.training = true;
    out.seed = 42;
    return out;
  }
  void step(std::int64_t at) {
    const sample::Batch batch = sample::images(16, 40 + static_cast<std::uint64_t>(at));
    const float rate = 0.05f;
    session.stage({{training.graph.find("images"), batch.images.data(), {16, 12, 12, 2}},
                   {training.labels, batch.labels.data(), {16}},
                   {training.learning_rate, &rate, {1}}},
                  {.step = static_cast<std::uint64_t>(at)});
    session.run_staged();
  }
};

Tensors trained_alone() {
  OnDevice alone(0);
  for (std::int64_t at = 0; at < kTurns; ++at) alone.step(at);
  return alone.session.tensors();
}

void check_same_state(const Tensors& a, const Tensors& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, tensor] : a) {
    INFO(name);
    CHECK(tensor.data == b.at(name).data);
  }
}

TEST_CASE("two devices: sessions that take turns on one thread") {
  const Tensors alone = trained_alone();
  OnDevice first(0), second(1);
  for (std::int64_t at = 0; at < kTurns; ++at) {
    first.step(at);
    second.step(at);
  }
  check_same_state(first.session.tensors(), alone);
  check_same_state(second.session.tensors(), alone);
}

TEST_CASE("two devices: a session on the host beside those on GPUs") {
  const Tensors alone = trained_alone();
  OnDevice second(1);
  Pool pool(1);
  SessionOptions on_host;
  on_host.backend = kernels::backend_named("ref");
  const Graph forward = to_inference(sample::cnn());
  Session host(forward, sample::random_tensors(forward), on_host, pool);
  const sample::Batch batch = sample::images(4, 3);
  for (std::int64_t at = 0; at < kTurns; ++at) {
    second.step(at);
    host.run({{host.graph().find("images"), batch.images.data(), {4, 12, 12, 2}}});
  }
  check_same_state(second.session.tensors(), alone);
}

TEST_CASE("two devices: each by a thread of its own") {
  const Tensors alone = trained_alone();
  std::vector<Tensors> trained(2);
  std::vector<std::thread> threads;
  for (int gpu = 0; gpu < 2; ++gpu) {
    threads.emplace_back([gpu, &trained] {
      OnDevice own(gpu);
      for (std::int64_t at = 0; at < kTurns; ++at) own.step(at);
      trained[static_cast<std::size_t>(gpu)] = own.session.tensors();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Tensors& each : trained) check_same_state(each, alone);
}

TEST_CASE("two devices: each holds its own memory, and one that is not there is refused") {
  const kernels::Device &first = kernels::cuda_device(0), &second = kernels::cuda_device(1);
  CHECK(&first == &kernels::cuda_device(0));
  CHECK(&first != &second);
  const std::size_t free_first = first.free_bytes(), free_second = second.free_bytes();
  void* const memory = second.allocate(std::size_t{1} << 20);
  CHECK(first.free_bytes() == free_first);
  CHECK(second.free_bytes() <= free_second - (std::size_t{1} << 20));
  second.release(memory);
  CHECK_THROWS_WITH_AS(kernels::cuda_device(7), doctest::Contains("no GPU 7"), Error);
}

}  // namespace
}  // namespace mlx::graph
