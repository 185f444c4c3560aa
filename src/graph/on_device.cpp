// Errors of devices (on_device.h).

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
  throw Error(ErrorKind::kMissing, fmt::format("GPU: {}, at '{}' or shortly before", problem, node),
              "run it again with CUDA_LAUNCH_BLOCKING=1 to name the operation; nvidia-smi tells of ECC errors");
}

Bytes fetch(const kernels::Device& device, const void* from, std::size_t bytes) {
  const auto* first = static_cast<const std::uint8_t*>(from);
  if (device.host) return {first, first + bytes};
  Bytes copy(bytes);
  device.download(copy.data(), from, bytes);
  check_device(device, "a copy to the host");
  return copy;
}

}  // namespace mlx::graph
