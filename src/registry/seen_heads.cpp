// A file is text: "mlx seen 1", then the id of an operation a line. Its name is the hash of the remote's URL, so that a
// remote that moves under an old name is a new one.
#include "registry/seen_heads.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "registry/history.h"
#include "registry/trust.h"

namespace mlx::registry {
namespace {

constexpr std::string_view kMagic = "mlx seen 1";
constexpr std::size_t kMost = 4096;

std::string path_of(Repository& repository, const RemoteConfig& remote) {
  return join_path(join_path(repository.mlx_folder(), "seen"), Digest::of(remote.url).hex());
}

// Nothing where the file is missing or damaged: what was seen is then not known.
std::vector<Digest> read_seen(const std::string& path) {
  if (!path_exists(path)) return {};
  const std::string text = read_text(path);
  std::string_view rest = text;
  std::vector<Digest> seen;
  for (bool first = true; !rest.empty(); first = false) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (first ? line != kMagic : line.size() != 71) return {};
    try {
      if (!first) seen.push_back(Digest::parse(line));
    } catch (const Error&) {
      return {};
    }
  }
  return seen;
}

// Those of `seen` that are known here and that `heads` do not reach.
std::vector<Digest> out_of_reach(Repository& repository, std::vector<Digest> seen, const std::vector<Digest>& heads,
                                 const std::vector<Operation>& received) {
  store::Database& db = repository.db();
  std::erase_if(seen,
                [&](const Digest& id) { return std::ranges::find(heads, id) != heads.end() || !is_recorded(db, id); });
  if (seen.empty()) return seen;
  std::unordered_map<Digest, const Operation*, DigestHash> unrecorded;
  for (const Operation& operation : received) unrecorded.emplace(operation.id, &operation);
  const DigestSet reached = with_ancestors(heads, [&](const Digest& id) -> std::optional<std::vector<Digest>> {
    if (const auto at = unrecorded.find(id); at != unrecorded.end()) return at->second->parents;
    return is_recorded(db, id) ? std::optional(select_parents(db, id)) : std::nullopt;
  });
  std::erase_if(seen, [&](const Digest& id) { return reached.contains(id); });
  return seen;
}

}  // namespace

std::vector<Digest> rolled_back(Repository& repository, const RemoteConfig& remote, const std::vector<Digest>& heads,
                                const std::vector<Operation>& received) {
  return out_of_reach(repository, read_seen(path_of(repository, remote)), heads, received);
}

void remember_heads(Repository& repository, const RemoteConfig& remote, const std::vector<Digest>& heads) {
  const std::string path = path_of(repository, remote);
  const std::vector<Digest> before = read_seen(path);
  std::vector<Digest> seen = out_of_reach(repository, before, heads, {});
  seen.insert(seen.end(), heads.begin(), heads.end());
  std::ranges::sort(seen);
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  if (seen == before || seen.size() > kMost) return;
  std::string text = std::string(kMagic) + "\n";
  for (const Digest& id : seen) text += id.text() + "\n";
  make_folders(parent_path(path));
  write_file_atomically(path, text);
}

}  // namespace mlx::registry
