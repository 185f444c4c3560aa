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
namespace {

struct Replica {
  std::string hash, name;
};

// Throws if not all have the same hash.
void check_same(const std::vector<Replica>& all, std::int64_t step) {
  std::map<std::string, std::size_t> counts;
  for (const Replica& each : all) ++counts[each.hash];
  if (counts.size() == 1) return;
  const auto most = std::ranges::max_element(counts, {}, [](const auto& count) { return count.second; });
  const bool majority = 2 * most->second > all.size();
  std::vector<std::string> names;
  for (const Replica& each : all)
    if (!majority || each.hash != most->first) names.push_back(printable(each.name));
  throw Error(ErrorKind::kCorrupt,
              majority
                  ? fmt::format("after step {} {} had other bits than the other ranks", step, fmt::join(names, ", "))
                  : fmt::format("after step {} these ranks had different bits: {}", step, fmt::join(names, ", ")),
              "a CPU or its memory is faulty: leave that host out; what was trained since the last check is lost");
}

}  // namespace

void check_replicas(Communicator& ranks, const Digest& own, std::int64_t step, int part) {
  const std::string hash = own.hex(), said = fmt::format("{}{} {}", hash, part, ranks.name());
  std::map<std::string, std::vector<Replica>> parts;
  for (const Bytes& bytes : all_gather(ranks, as_bytes(said))) {
    const std::string text(as_text(bytes));
    const std::size_t space = std::min(text.find(' '), text.size());
    const std::size_t digits = std::min(hash.size(), space);
    parts[text.substr(digits, space - digits)].push_back(
        {text.substr(0, digits), text.substr(std::min(space + 1, text.size()))});
  }
  for (const auto& [name, replicas] : parts) check_same(replicas, step);
}

}  // namespace mlx::dist
