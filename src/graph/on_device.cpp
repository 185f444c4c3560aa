// Copies to and from a GPU, captured launches, and the errors of devices (on_device.h).

#include "graph/on_device.h"

#include <algorithm>

#include "base/error.h"

namespace mlx::graph {
namespace {

constexpr std::size_t kNamed = 3;  // of those who hold most

std::string size_text(std::size_t bytes) {
  return format_bytes(static_cast<std::uint64_t>(bytes));
}

}  // namespace

Memory take(const kernels::Device& device, std::size_t bytes, const std::string& what, std::vector<Holder> holders) {
  Memory memory = allocate(bytes, device);
  if (memory) return memory;
  std::ranges::sort(holders, [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  std::string largest;
  for (std::size_t i = 0; i < holders.size() && i < kNamed && holders[i].bytes > 0; ++i)
    largest += fmt::format("{}{} {}", i > 0 ? ", " : "; held: ", holders[i].name, size_text(holders[i].bytes));
  throw Error(ErrorKind::kMissing,
              fmt::format("GPU: {} of memory for {}, of which {} are free{}", size_text(bytes), what,
                          size_text(device.free_bytes()), largest),
              "a smaller batch, [train] accumulate, precision = \"bf16\", or --memory SIZE to compute parts again; "
              "another program may hold memory: nvidia-smi");
}

void check_device(const kernels::Device& device, const std::string& node) {
  if (device.host) return;
  const char* problem = device.wait();
  if (!problem) return;
  throw Error(
      ErrorKind::kMissing, fmt::format("GPU: {}, at '{}' or shortly before", problem, node),
      "run it again with CUDA_LAUNCH_BLOCKING=1 to name the operation, or with MLX_CUDA_LIBRARIES=0 to go without "
      "cuBLASLt and cuDNN; nvidia-smi tells of ECC errors");
}

Bytes fetch(const kernels::Device& device, const void* from, std::size_t bytes) {
  const auto* first = static_cast<const std::uint8_t*>(from);
  if (device.host) return {first, first + bytes};
  Bytes copy(bytes);
  device.download(copy.data(), from, bytes);
  check_device(device, "a copy to the host");
  return copy;
}

OnDevice::OnDevice(const kernels::Device& device, std::size_t values, const Take& take)
    : device_(device), fed_(values), fed_bytes_(values, 0), fetched_(values) {
  key_ = take(sizeof(kernels::RandomKey), "random numbers");
}

const void* OnDevice::feed(ValueId id, const void* data, std::size_t bytes, const std::string& name, const Take& take) {
  const auto at = static_cast<std::size_t>(id);
  if (!fed_[at] || fed_bytes_[at] < bytes) {
    fed_[at].reset();
    fed_[at] = take(bytes, "'" + name + "'");
    fed_bytes_[at] = bytes;
  }
  device_.upload(fed_[at].get(), data, bytes);
  return fed_[at].get();
}

ByteView OnDevice::view(ValueId id, const void* data, std::size_t bytes) {
  Bytes& copy = fetched_[static_cast<std::size_t>(id)];
  copy = fetch(device_, data, bytes);
  return copy;
}

void OnDevice::start_run(kernels::Args& args) {
  const kernels::RandomKey key{args.seed, args.step};
  device_.upload(key_.get(), &key, sizeof key);
  args.key = static_cast<const kernels::RandomKey*>(key_.get());
  args.stream = device_.stream;
}

void OnDevice::run(const Stretch& stretch, const std::function<void()>& steps) {
  const auto [at, first_time] = stretches_.try_emplace(stretch);
  Captured& captured = at->second;
  if (!first_time && !captured.launches && !captured.refused) {
    device_.begin_capture();
    steps();
    captured.launches = device_.end_capture();
    captured.refused = captured.launches == nullptr;
  }
  if (captured.launches) {
    device_.replay(captured.launches);
  } else {
    steps();
  }
}

void OnDevice::forget() {
  for (const auto& [stretch, captured] : stretches_)
    if (captured.launches) device_.forget(captured.launches);
  stretches_.clear();
}

}  // namespace mlx::graph
