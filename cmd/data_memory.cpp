// Sizes of memory on the command line.
#include "cmd/data_memory.h"

#include <unistd.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/process_use.h"
#include "registry/repository.h"

namespace mlx::cmd {

std::int64_t allowed_memory(const std::string& text) {
  if (text.empty()) return 0;
  try {
    const auto bytes = static_cast<std::int64_t>(parse_byte_size(text));
    if (bytes > 0) return bytes;
  } catch (const Error& error) {
    fail(error.kind, "--memory: {}", error.message);
  }
  fail(ErrorKind::kUsage, "--memory: expected more than 0 bytes");
}

data::MemoryBudget data_memory(std::int64_t bytes, Context& context) {
  std::string folder = "/tmp";
  if (const auto named = context.environment().get("TMPDIR"))
    folder = *named;
  else if (context.has_repository() && ::access(context.repository().mlx_folder().c_str(), W_OK) == 0)
    folder = context.repository().mlx_folder();
  return {bytes > 0 ? bytes : machine_memory() / 2, std::move(folder)};
}

data::MemoryBudget training_data_memory(std::int64_t memory, Context& context) {
  constexpr std::int64_t kDataShare = 4;  // the engine needs the larger part: weights, optimizer state, activations
  return data_memory(memory > 0 ? std::max<std::int64_t>(1, memory / kDataShare) : 0, context);
}

Option data_memory_option(std::string& memory) {
  return option("--memory", "SIZE", memory, "Limit the memory of the data, such as 1GiB; the rest is read from disk");
}

}  // namespace mlx::cmd
