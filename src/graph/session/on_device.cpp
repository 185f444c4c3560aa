// Copies to and from a GPU, captured launches, and the errors of devices (on_device.h).

#include "graph/session/on_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace mlx::graph {
namespace {

constexpr std::size_t kNamed = 3;          // of the largest holders
constexpr std::size_t kFewCollected = 32;  // copies at first

std::string size_text(std::size_t bytes) {
  return format_bytes(static_cast<std::uint64_t>(bytes));
}

void refuse(const char* problem, const std::string& node, bool waited_for_each) {
  if (!problem) return;
  const std::string elsewhere = "MLX_CUDA_LIBRARIES=0 disables cuBLASLt and cuDNN; nvidia-smi shows ECC errors";
  if (waited_for_each) throw Error(ErrorKind::kMissing, fmt::format("GPU: {}, at '{}'", problem, node), elsewhere);
  throw Error(ErrorKind::kMissing, fmt::format("GPU: {}, at '{}' or before it in the same step", problem, node),
              "CUDA_LAUNCH_BLOCKING=1 waits for each operation, which identifies it; " + elsewhere);
}

}  // namespace

Memory take(const kernels::Device& device, std::size_t bytes, const std::string& what, std::vector<Holder> holders,
            bool training) {
  Memory memory = allocate(bytes, device);
  if (memory) return memory;
  refuse(device.problem(), what, false);  // a device that has failed has no memory either
  std::ranges::sort(holders, [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  std::string largest;
  for (std::size_t i = 0; i < holders.size() && i < kNamed && holders[i].bytes > 0; ++i)
    largest += fmt::format("{}{} {}", i > 0 ? ", " : "; held: ", holders[i].name, size_text(holders[i].bytes));
  throw Error(ErrorKind::kMissing,
              fmt::format("GPU: {} of memory for {}, of which {} are free{}", size_text(bytes), what,
                          size_text(device.free_bytes()), largest),
              training ? "another program may hold memory: nvidia-smi; else a smaller batch, [train] accumulate, "
                         "precision = \"bf16\", or --memory SIZE to compute parts again"
                       : "another program may hold memory: nvidia-smi; else --device cpu");
}

void check_device(const kernels::Device& device, const std::string& node) {
  if (!device.host) refuse(device.wait(), node, true);
}

OnDevice::OnDevice(const kernels::Device& device, std::size_t values)
    : device_(device), feeding_(device, values), fetched_(values), waits_for_each_(device.blocks_launches) {}

OnDevice::~OnDevice() {
  device_.wait();
  drop_captured();
}

void OnDevice::start_run(kernels::Args& args, const std::string& last) {
  args.key = feeding_.key();
  args.stream = device_.stream;
  last_ = last;
}

void OnDevice::run(const Stretch& stretch, const std::function<void()>& steps) {
  const auto [at, first_time] = stretches_.try_emplace(stretch);
  Captured& captured = at->second;
  if (!first_time && !captured.launches && !captured.refused) {
    if (device_.begin_capture()) {
      steps();
      captured.launches = device_.end_capture();
    }
    captured.refused = captured.launches == nullptr;
  }
  if (captured.launches) {
    device_.replay(captured.launches);
  } else {
    steps();
  }
}

void OnDevice::check_launches() const {
  refuse(device_.problem(), last_, false);
}

void OnDevice::wait() const {
  refuse(device_.wait(), last_, false);
}

Bytes OnDevice::fetch(const void* from, std::size_t bytes) const {
  Bytes copy(bytes);
  device_.download(copy.data(), from, bytes);
  wait();
  return copy;
}

ByteView OnDevice::view(ValueId id, const void* data, std::size_t bytes) {
  Bytes& copy = fetched_[static_cast<std::size_t>(id)];
  copy = fetch(data, bytes);
  return copy;
}

void OnDevice::collect(const void* from, std::size_t bytes) {
  CHECK(bytes <= Session::kCollected);
  if (collected_count_ == collected_capacity_) {
    wait();  // the copies so far have arrived
    const std::size_t capacity = std::max(kFewCollected, 2 * collected_capacity_);
    PinnedMemory larger = allocate_pinned(capacity * Session::kCollected, device_);
    if (collected_) std::memcpy(larger.get(), collected_.get(), collected_count_ * Session::kCollected);
    collected_ = std::move(larger);
    collected_capacity_ = capacity;
  }
  auto* const to = static_cast<std::uint8_t*>(collected_.get()) + collected_count_++ * Session::kCollected;
  device_.copy(to, from, bytes, device_.stream);
}

ByteView OnDevice::collected() {
  wait();
  return {static_cast<const std::uint8_t*>(collected_.get()), std::exchange(collected_count_, 0) * Session::kCollected};
}

void OnDevice::drop_captured() {
  for (const auto& [stretch, captured] : stretches_)
    if (captured.launches) device_.destroy_graph(captured.launches);
  stretches_.clear();
}

}  // namespace mlx::graph
