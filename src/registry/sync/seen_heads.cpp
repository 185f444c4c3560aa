// A text file: "mlx seen 1", then one operation id per line. It is named by the hash of the remote's URL, so that a
// remote with an old name and another URL counts as new.
#include "registry/sync/seen_heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "registry/operations/history.h"
#include "registry/sync/seen_keys.h"

namespace mlx::registry {
namespace {

constexpr std::string_view kSeenHeadsMagic = "mlx seen 1";
constexpr std::size_t kMostHeads = 4096;

std::string path_of(Repository& repository, const RemoteConfig& remote) {
  return join_path(join_path(repository.mlx_folder(), "seen"), Digest::of(remote.url).hex());
}

// nullopt if it is damaged.
std::optional<std::vector<Digest>> parse_seen(std::string_view rest) {
  if (!rest.ends_with('\n')) return std::nullopt;
  std::vector<Digest> seen;
  for (bool first = true; !rest.empty(); first = false) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (first ? line != kSeenHeadsMagic : line.size() != 71) return std::nullopt;
    try {
      if (!first) seen.push_back(Digest::parse(line));
    } catch (const Error&) {
      return std::nullopt;
    }
  }
  return seen;
}

// Empty if the file is missing or damaged: it is then unknown what was seen.
std::vector<Digest> read_seen(const std::string& path) {
  if (!path_exists(path)) return {};
  return parse_seen(read_text(path)).value_or(std::vector<Digest>());
}

// Places of recorded operations that are heads, or parents of received operations that the heads reach.
std::vector<std::int64_t> recorded_tips(store::Database& db, std::vector<Digest> todo, OperationStage* received) {
  std::vector<std::int64_t> tips;
  std::vector<bool> passed(received ? received->size() + 1 : 0, false);  // by place
  while (!todo.empty()) {
    const Digest id = todo.back();
    todo.pop_back();
    const auto place = received ? received->place_of(id) : std::nullopt;
    if (!place) {
      if (const auto recorded = place_of(db, id)) tips.push_back(*recorded);
      continue;
    }
    if (passed[*place]) continue;
    passed[*place] = true;
    const auto parents = received->parents_of(id);
    todo.insert(todo.end(), parents->begin(), parents->end());
  }
  return tips;
}

// Those of `seen` that are known here and that `heads` do not reach.
std::vector<Digest> out_of_reach(Repository& repository, std::vector<Digest> seen, const std::vector<Digest>& heads,
                                 OperationStage* received) {
  store::Database& db = repository.db();
  std::erase_if(seen,
                [&](const Digest& id) { return std::ranges::find(heads, id) != heads.end() || !is_recorded(db, id); });
  if (seen.empty()) return seen;
  std::int64_t first = *place_of(db, seen.front());
  for (const Digest& id : seen) first = std::min(first, *place_of(db, id));
  const std::vector<bool> reached = places_before(db, recorded_tips(db, heads, received), first);
  std::erase_if(seen, [&](const Digest& id) {
    const auto place = static_cast<std::size_t>(*place_of(db, id));
    return place < reached.size() && reached[place];
  });
  return seen;
}

}  // namespace

std::string rollback_text(const RemoteConfig& remote, const Digest& lost) {
  return fmt::format("'{}' went back to an earlier state: it no longer has operation {}, which it had", remote.name,
                     lost.brief());
}

std::vector<Digest> rolled_back(Repository& repository, const RemoteConfig& remote, const std::vector<Digest>& heads,
                                OperationStage* received) {
  return out_of_reach(repository, read_seen(path_of(repository, remote)), heads, received);
}

std::optional<Digest> seen_head(Repository& repository, const RemoteConfig& remote) {
  const std::vector<Digest> seen = read_seen(path_of(repository, remote));
  return seen.empty() ? std::nullopt : std::optional(seen.front());
}

std::vector<std::string> damaged_seen(Repository& repository, bool mend) {
  const std::string folder = join_path(repository.mlx_folder(), "seen");
  std::vector<std::string> lines;
  if (!is_folder(folder)) return lines;
  for (const std::string& name : list_folder(folder)) {
    const std::string path = join_path(folder, name);
    constexpr std::size_t kHexDigits = 64;  // files with other names are still being written
    const bool of_keys = name.size() == kHexDigits + 5 && name.ends_with(".keys");
    if (!of_keys && name.size() != kHexDigits) continue;
    const std::string text = read_text(path);
    if (of_keys ? parse_seen_keys(text).has_value() : parse_seen(text).has_value()) continue;
    lines.push_back(fmt::format("{}: is damaged, so it is not known what this clone has seen at a remote", path));
    if (mend) repository.disk().remove(path);
  }
  return lines;
}

void remember_heads(Repository& repository, const RemoteConfig& remote, const std::vector<Digest>& heads) {
  const std::string path = path_of(repository, remote);
  const std::vector<Digest> before = read_seen(path);
  std::vector<Digest> seen = out_of_reach(repository, before, heads, nullptr);
  seen.insert(seen.end(), heads.begin(), heads.end());
  std::ranges::sort(seen);
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  if (seen == before || seen.size() > kMostHeads) return;
  std::string text = std::string(kSeenHeadsMagic) + "\n";
  for (const Digest& id : seen) text += id.text() + "\n";
  make_folders(parent_path(path));
  write_file_atomically(path, text);
}

}  // namespace mlx::registry
