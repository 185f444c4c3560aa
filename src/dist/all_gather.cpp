// One exchange, in which all messages are under way at a time.
#include "dist/all_gather.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace mlx::dist {
namespace {

// That of collectives.h: gradients, which may be under way meanwhile, have others.
constexpr int kGatherTag = Communicator::kTags - 1;

}  // namespace

Traffic all_gather(Communicator& ranks, ByteView own, std::span<std::uint8_t> all) {
  const auto rank = static_cast<std::size_t>(ranks.rank()), count = static_cast<std::size_t>(ranks.ranks());
  CHECK(all.size() == own.size() * count);
  std::ranges::copy(own, all.begin() + static_cast<std::ptrdiff_t>(rank * own.size()));
  std::vector<Communicator::Transfer> transfers;
  for (std::size_t other = 0; other < count; ++other) {
    if (other == rank) continue;
    const std::span<std::uint8_t> to = all.subspan(other * own.size(), own.size());
    transfers.push_back(ranks.receive(static_cast<int>(other), kGatherTag, to.data(), to.size()));
  }
  for (std::size_t other = 0; other < count; ++other)
    if (other != rank) transfers.push_back(ranks.send(static_cast<int>(other), kGatherTag, own.data(), own.size()));
  ranks.wait(transfers);
  return traffic_of_gather(static_cast<std::int64_t>(own.size()), ranks.ranks());
}

Traffic traffic_of_gather(std::int64_t bytes, int ranks) {
  return {bytes * (ranks - 1), ranks - 1};
}

}  // namespace mlx::dist
