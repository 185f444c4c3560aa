// Hashes and names of all ranks, and the one that most have.
#include "dist/replicas.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "dist/collectives.h"

namespace mlx::dist {

void check_replicas(Communicator& ranks, const Digest& own, std::int64_t step) {
  const std::string hash = own.hex(), said = hash + ranks.name();
  const std::vector<Bytes> all = all_gather(ranks, as_bytes(said));
  const auto hash_of = [&](const Bytes& bytes) { return std::string(as_text(bytes).substr(0, hash.size())); };
  std::map<std::string, std::size_t> counts;
  for (const Bytes& each : all) ++counts[hash_of(each)];
  if (counts.size() == 1) return;
  const auto most = std::ranges::max_element(counts, {}, [](const auto& count) { return count.second; });
  const bool majority = 2 * most->second > all.size();
  std::vector<std::string> names;
  for (const Bytes& each : all)
    if (!majority || hash_of(each) != most->first)
      names.push_back(printable(as_text(each).substr(std::min(each.size(), hash.size()))));
  throw Error(ErrorKind::kCorrupt,
              majority
                  ? fmt::format("after step {} {} had other bits than the other ranks", step, fmt::join(names, ", "))
                  : fmt::format("after step {} these ranks had different bits: {}", step, fmt::join(names, ", ")),
              "a CPU or its memory is faulty: leave that host out; what was trained since the last check is lost");
}

}  // namespace mlx::dist
