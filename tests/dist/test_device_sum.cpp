// Sums in the memory of devices have the bits of those on hosts; and each rank has a device of its own. The device here
// is the host, and messages between devices are those between threads: the tests of mlx_cuda and of the program have
// the GPU's calls (tests/emulated_gpu, tests/cli/test_gpu_ranks.sh).
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "base/error.h"
#include "dist/device_links.h"
#include "dist/device_sum.h"
#include "dist/gradient_sum.h"
#include "ranks.h"

namespace mlx::dist {
namespace {

class HostLinks final : public DeviceLinks {
 public:
  explicit HostLinks(Communicator& all) : all_(all) {}
  int rank() const override { return all_.rank(); }
  int ranks() const override { return all_.ranks(); }
  void exchange(std::span<const kernels::PeerMessage> messages) override {
    std::vector<Communicator::Transfer> transfers;
    const auto bytes = [](std::int64_t elements) { return static_cast<std::size_t>(elements) * sizeof(float); };
    for (const kernels::PeerMessage& each : messages) {
      CHECK(each.other != all_.rank());
      if (each.leaving > 0) transfers.push_back(all_.send(each.other, 0, each.leaves, bytes(each.leaving)));
      if (each.arriving > 0) transfers.push_back(all_.receive(each.other, 0, each.arrives, bytes(each.arriving)));
    }
    all_.wait(transfers);
  }
  void check() override {}
  void give_up() override {}

 private:
  Communicator& all_;
};

// Numbers of many magnitudes, so that the order of a sum shows in its bits.
std::vector<float> of_term(int term, std::size_t array, std::int64_t count) {
  std::mt19937 random(static_cast<unsigned>(term + 1) * 31 + static_cast<unsigned>(array));
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& x : out) x = std::ldexp(static_cast<float>(random()) / 4e9f - 0.5f, static_cast<int>(random() % 24) - 12);
  return out;
}

std::vector<SummedArray> some_arrays() {
  std::vector<SummedArray> out;
  for (const std::int64_t count : {1, 17, 4000, 70'000, 5}) out.push_back({count});  // three buckets
  return out;
}

// By array: what one rank makes on the host.
std::vector<std::vector<float>> summed_on_host(const std::vector<SummedArray>& arrays, int terms) {
  const std::unique_ptr<Communicator> alone = lone_rank();
  GradientSum sum(*alone, terms, arrays);
  for (int term = 0; term < terms; ++term) {
    for (std::size_t i = 0; i < arrays.size(); ++i) sum.add(i, of_term(term, i, arrays[i].count));
    sum.end_term();
  }
  sum.wait();
  std::vector<std::vector<float>> out;
  for (std::size_t i = 0; i < arrays.size(); ++i) out.emplace_back(sum.sum(i).begin(), sum.sum(i).end());
  sum.end_step();
  return out;
}

// One rank's steps; how many arrays had the expected bits.
int right_of_steps(DeviceSum& sum, const std::vector<SummedArray>& arrays,
                   const std::vector<std::vector<float>>& expected, int steps) {
  int right = 0;
  for (int step = 0; step < steps; ++step) {  // its memory is used again
    for (int term = sum.terms().begin; term < sum.terms().end; ++term) {
      for (std::size_t i = 0; i < arrays.size(); ++i) sum.add(i, of_term(term, i, arrays[i].count).data());
      sum.end_term();
    }
    sum.finish();
    sum.wait();
    for (std::size_t i = 0; i < arrays.size(); ++i)
      right += std::memcmp(sum.sum(i), expected[i].data(), expected[i].size() * sizeof(float)) == 0 ? 1 : 0;
    sum.end_step();
  }
  return right;
}

TEST_CASE("device sums: the bits of one rank on the host, on any number of ranks") {
  std::vector<SummedArray> arrays = some_arrays();
  arrays.erase(arrays.begin() + 3);  // the large one
  for (const int terms : {1, 2, 4, 6, 12, 13}) {
    const std::vector<std::vector<float>> expected = summed_on_host(arrays, terms);
    for (const int ranks : {1, 2, 3, 4, 6}) {
      if (terms < ranks) continue;
      CAPTURE(terms);
      CAPTURE(ranks);
      std::atomic<int> right = 0;
      on_ranks(ranks, [&](Communicator& all) {
        HostLinks links(all);
        DeviceSum sum(kernels::host_device(), ranks > 1 ? &links : nullptr, terms, arrays);
        right += right_of_steps(sum, arrays, expected, 2);
      });
      CHECK_EQ(right, 2 * ranks * static_cast<int>(arrays.size()));
    }
  }
}

TEST_CASE("device sums: buckets, and what is sent is what is planned") {
  const std::vector<SummedArray> arrays = some_arrays();
  const std::vector<std::vector<float>> expected = summed_on_host(arrays, 4);
  for (const int ranks : {2, 4}) {
    std::atomic<int> right = 0;
    std::atomic<std::int64_t> most = 0, all_bytes = 0;
    on_ranks(ranks, [&](Communicator& all) {
      HostLinks links(all);
      DeviceSum sum(kernels::host_device(), &links, 4, arrays);
      right += right_of_steps(sum, arrays, expected, 1);
      all_bytes += sum.bytes_sent();
      for (std::int64_t before = most;
           before < sum.bytes_sent() && !most.compare_exchange_weak(before, sum.bytes_sent());)
        continue;
      CHECK(sum.ends_of_buckets() == std::vector<std::size_t>{2, 3, 4});
    });
    CHECK_EQ(right, ranks * static_cast<int>(arrays.size()));
    CHECK_EQ(most, DeviceSum::traffic(arrays, ranks, 4).bytes);
    std::int64_t elements = 0;
    for (const SummedArray& array : arrays) elements += array.count;
    CHECK_EQ(all_bytes, 2 * (ranks - 1) * elements * 4);  // the least of any all-reduce
  }
  CHECK_EQ(DeviceSum::traffic(arrays, 1, 4).bytes, 0);
  CHECK(DeviceSum::memory(arrays, 2, 4) > 70'000 * 4);
}

// Its ranks are on these hosts.
class OnHosts final : public Communicator {
 public:
  OnHosts(Communicator& all, std::string host) : all_(all), host_(std::move(host)) {}
  int rank() const override { return all_.rank(); }
  int ranks() const override { return all_.ranks(); }
  std::string name() const override { return "rank " + std::to_string(rank()) + " on " + host_; }
  Transfer send(int to, int tag, const void* data, std::size_t bytes) override {
    return all_.send(to, tag, data, bytes);
  }
  Transfer receive(int from, int tag, void* data, std::size_t bytes) override {
    return all_.receive(from, tag, data, bytes);
  }
  void wait(std::span<Transfer> transfers) override { all_.wait(transfers); }
  bool advance(std::span<Transfer> transfers) override { return all_.advance(transfers); }
  bool poll(std::span<Transfer> transfers) override { return all_.poll(transfers); }

 private:
  Communicator& all_;
  std::string host_;
};

using Devices = std::vector<std::string>;
struct OnHost {
  std::string host;
  Devices devices;
};

std::vector<int> chosen(const std::vector<OnHost>& ranks) {
  std::vector<int> out(ranks.size(), -1);
  on_ranks(static_cast<int>(ranks.size()), [&](Communicator& all) {
    const auto rank = static_cast<std::size_t>(all.rank());
    OnHosts here(all, ranks[rank].host);
    out[rank] = choose_device(here, ranks[rank].devices);
  });
  return out;
}

TEST_CASE("each rank has a device of its own: the first that none before it on its host has") {
  const Devices two{"g1 H200", "g2 H200"};
  CHECK_EQ(chosen({{"a", two}, {"a", two}, {"b", two}}), std::vector<int>{0, 1, 0});
  CHECK_EQ(chosen({{"a", two}, {"b", two}, {"a", two}}), std::vector<int>{0, 0, 1});
  CHECK_EQ(chosen({{"a", {"g2 H200"}}, {"a", two}}), std::vector<int>{0, 0});  // CUDA_VISIBLE_DEVICES of one rank
  CHECK_EQ(chosen({{"a", {"g1 H200"}}, {"a", {"g2 H200"}}}), std::vector<int>{0, 0});  // and of both
}

TEST_CASE("too few devices on a host, or those of two models, are refused by name") {
  const Devices one{"g1 H200"};
  CHECK_THROWS_WITH_AS(chosen({{"a", one}, {"b", one}, {"b", one}}),
                       "b has 1 GPU for 2 ranks, and each needs one of its own", Error);
  CHECK_THROWS_WITH_AS(chosen({{"a", one}, {"b", {}}}), "b has 0 GPUs for 1 rank, and each needs one of its own",
                       Error);
  CHECK_THROWS_WITH_AS(chosen({{"a", one}, {"b", {"g1 A100"}}}),
                       "rank 0 on a has 'H200', and rank 1 on b 'A100': they would not make the same bits", Error);
}

}  // namespace
}  // namespace mlx::dist
