// Sums of micro-batches in a GPU's memory have the bits of those on the host, also where streams do their work as late
// or as early as they may.
#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "dist/device_sum.h"
#include "dist/gradient_sum.h"
#include "kernels/backend.h"
#include "tests/emulated_gpu/probe.h"

namespace mlx::dist {
namespace {

std::vector<float> of_term(int term, std::size_t array, std::int64_t count) {
  std::vector<float> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = 1.0f / static_cast<float>(1 + (i * 7 + static_cast<std::size_t>(term) * 13 + array * 5) % 1009);
  return out;
}

void check_steps(const kernels::Device& device, int terms) {
  const std::vector<SummedArray> arrays{{3}, {257}, {1}};
  const std::unique_ptr<Communicator> alone = lone_rank();
  GradientSum expected(*alone, terms, arrays);
  DeviceSum sum(device, nullptr, terms, arrays);
  std::vector<float*> memory;
  memory.reserve(arrays.size());
  for (const SummedArray& array : arrays)
    memory.push_back(static_cast<float*>(device.allocate(static_cast<std::size_t>(array.count) * sizeof(float))));
  for (int step = 0; step < 2; ++step) {
    for (int term = 0; term < terms; ++term) {
      for (std::size_t i = 0; i < arrays.size(); ++i) {
        const std::vector<float> values = of_term(term + step, i, arrays[i].count);
        expected.add(i, values);
        device.upload(memory[i], values.data(), values.size() * sizeof(float));
        sum.add(i, memory[i]);
      }
      expected.end_term();
      sum.end_term();
    }
    expected.wait();
    sum.finish();
    sum.wait();
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      std::vector<float> own(static_cast<std::size_t>(arrays[i].count)), scaled(own.size());
      device.download(own.data(), sum.sum(i), own.size() * sizeof(float));
      CHECK(std::memcmp(own.data(), expected.sum(i).data(), own.size() * sizeof(float)) == 0);
      device.scale(memory[i], sum.sum(i), 0.3f, arrays[i].count, device.stream);
      device.download(scaled.data(), memory[i], scaled.size() * sizeof(float));
      for (std::size_t at = 0; at < own.size(); ++at) CHECK_EQ(scaled[at], own[at] * 0.3f);
    }
    expected.end_step();
    sum.end_step();
  }
  for (float* each : memory) device.release(each);
}

TEST_CASE("device sums on a GPU: the bits of the host") {
  for (const bool first : {false, true}) {
    emulation::copies_first(first);
    for (const int terms : {1, 2, 3, 6, 8, 11}) check_steps(kernels::cuda_device(1), terms);
  }
  emulation::copies_first(false);
}

TEST_CASE("GPUs have ids of their own, and a backend works on the one that it is given") {
  const kernels::Backend backend = kernels::cuda_backend(0);
  const std::vector<std::string> devices = kernels::devices_of(backend);
  REQUIRE_EQ(devices.size(), 2);
  CHECK(devices[0].ends_with(" emulated GPU"));
  CHECK(devices[0] != devices[1]);
  CHECK_EQ(&kernels::on_device(backend, 1).device(), &kernels::cuda_device(1));
  CHECK_EQ(kernels::devices_of(kernels::best_backend()).size(), 1);
}

}  // namespace
}  // namespace mlx::dist
