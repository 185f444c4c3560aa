// A text file: "mlx seen keys 1", then the id of a link (mlx-format-keys(5)). It is named by the hash of the remote's
// URL, so that a remote with an old name and another URL counts as new.
#include "registry/sync/seen_keys.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"

namespace mlx::registry {
namespace {

constexpr std::string_view kSeenMagic = "mlx seen keys 1\n";

std::string seen_path(Repository& repository, const RemoteConfig& remote) {
  return join_path(join_path(repository.mlx_folder(), "seen"), Digest::of(as_bytes(remote.url)).hex() + ".keys");
}

}  // namespace

std::optional<Digest> parse_seen_keys(std::string text) {
  if (!text.starts_with(kSeenMagic) || !text.ends_with('\n')) return std::nullopt;
  text.pop_back();
  try {
    return Digest::parse(text.substr(kSeenMagic.size()));
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<Digest> seen_keys(Repository& repository, const RemoteConfig& remote) {
  const std::string path = seen_path(repository, remote);
  return path_exists(path) ? parse_seen_keys(read_text(path)) : std::nullopt;
}

void remember_keys(Repository& repository, const RemoteConfig& remote, const Digest& link) {
  if (seen_keys(repository, remote) == link) return;
  const std::string path = seen_path(repository, remote);
  make_folders(parent_path(path));
  write_file_atomically(path, std::string(kSeenMagic) + link.hex() + "\n");
}

}  // namespace mlx::registry
