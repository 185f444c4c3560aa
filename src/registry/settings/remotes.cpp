// The remotes of mlx.toml. The file belongs to the user, so remotes are added and removed by editing its text.
#include "registry/settings/remotes.h"

#include <algorithm>

#include "base/error.h"
#include "base/fd.h"
#include "base/foreign_files.h"
#include "base/path.h"
#include "base/text.h"
#include "base/toml.h"
#include "base/toml_edit.h"
#include "registry/settings/settings.h"
#include "store/remote/remote.h"
#include "store/worktree/beneath.h"

namespace mlx::registry {
namespace {

std::string config_path(const std::string& root) {
  return join_path(root, "mlx.toml");
}

std::string read_config(const std::string& root) {
  const std::string path = config_path(root);
  return path_exists(path) ? read_project_text(path) : std::string();
}

std::vector<RemoteConfig> parse_remotes(const std::string& text, const std::string& file) {
  const TomlNode tree = parse_toml(text, file);
  TomlReader top(tree, file, "");
  TomlReader table = top.table("remotes");
  std::vector<RemoteConfig> found;
  for (const std::string& name : table.keys()) {
    TomlReader remote = table.table(name, true);
    found.push_back({name, remote.string("url"), remote.boolean("encrypt", false), remote.string("keys", "")});
    remote.finish();
  }
  return found;
}

bool is_remote_name(const std::string& name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

void check_remote(const std::string& root, const RemoteConfig& remote) {
  if (!is_remote_name(remote.name)) {
    fail(ErrorKind::kUsage, "'{}' cannot name a remote: up to 64 letters, digits, '_' and '-'", remote.name);
  }
  const bool control =
      std::ranges::any_of(remote.url, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  if (remote.url.empty() || control || !is_utf8(remote.url))
    fail(ErrorKind::kUsage, "the URL of the remote '{}' must be UTF-8 text without control characters, and not empty",
         remote.name);
  store::check_remote_url(remote.url);
  if (holds_password(remote.url)) {
    throw Error(ErrorKind::kRefused, "a password in a URL would be tracked by git",
                "leave it out: ssh and the environment know how to log in");
  }
  for (const RemoteConfig& known : registry::remotes(root)) {
    if (known.name != remote.name) continue;
    if (known.url == remote.url && known.encrypt == remote.encrypt) return;
    throw Error(ErrorKind::kConflict, fmt::format("mlx.toml: the remote '{}' has the URL {}", known.name, known.url),
                fmt::format("remove it first: mlx remote remove {}", shell_quoted(known.name)));
  }
}

}  // namespace

std::vector<RemoteConfig> remotes(const std::string& root) {
  return parse_remotes(read_config(root), "mlx.toml");
}

void add_remote(const std::string& root, const RemoteConfig& remote, bool dry_run) {
  check_remote(root, remote);
  const std::vector<std::string> table = {"remotes", remote.name};
  std::string text = with_toml_key(read_config(root), table, "url", toml_quoted(remote.url), "mlx.toml");
  if (remote.encrypt) text = with_toml_key(text, table, "encrypt", "true", "mlx.toml");
  if (!remote.keys.empty()) text = with_toml_key(text, table, "keys", toml_quoted(remote.keys), "mlx.toml");
  if (!dry_run) store::Beneath(root).replace("mlx.toml", text);
}

void pin_keys(const std::string& root, const std::string& name, const std::string& fingerprint) {
  (void)pick_remote(root, name);  // throws if there is none
  store::Beneath(root).replace(
      "mlx.toml", with_toml_key(read_config(root), {"remotes", name}, "keys", toml_quoted(fingerprint), "mlx.toml"));
}

void remove_remote(const std::string& root, const std::string& name, bool dry_run) {
  (void)pick_remote(root, name);  // throws if there is none
  const std::string text = without_toml_table(read_config(root), {"remotes", name}, "mlx.toml");
  if (!dry_run) store::Beneath(root).replace("mlx.toml", text);
}

RemoteConfig pick_remote(const std::string& root, const std::string& name) {
  const std::vector<RemoteConfig> known = remotes(root);
  const std::string wanted = name.empty() ? "origin" : name;
  for (const RemoteConfig& remote : known) {
    if (remote.name == wanted) return remote;
  }
  if (known.empty())
    throw Error(ErrorKind::kNotFound, "mlx.toml names no remote", "add one: mlx remote add origin FOLDER");
  if (name.empty() && known.size() == 1) return known.front();
  std::vector<std::string> names;
  std::string list;
  for (const RemoteConfig& remote : known) {
    names.push_back(remote.name);
    list += (list.empty() ? "" : ", ") + remote.name;
  }
  if (name.empty()) {
    throw Error(ErrorKind::kNotFound, "several remotes, and none of them is called origin",
                fmt::format("name one of {}", list));
  }
  const std::string meant = did_you_mean(name, names);
  throw Error(ErrorKind::kNotFound, fmt::format("no remote is called '{}'", name),
              meant.empty() ? fmt::format("there is {}", list) : fmt::format("did you mean '{}'?", meant));
}

}  // namespace mlx::registry
