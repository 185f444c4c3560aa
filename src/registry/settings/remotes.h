// The remotes that mlx.toml names.
#pragma once

#include <string>
#include <vector>

namespace mlx::registry {

struct RemoteConfig {
  std::string name, url;
  bool encrypt = false;  // nothing goes there in clear
  std::string keys;      // the fingerprint of a revision that its keys must have; "" for any
};
// mlx.toml (tracked) [remotes.NAME] url = "…", encrypt = true, keys = "SHA256:…". Credentials in a URL are refused.
std::vector<RemoteConfig> remotes(const std::string& root);
void add_remote(const std::string& root,
                const RemoteConfig& remote,  // kConflict where the name stands with another URL
                bool dry_run = false);       // everything but the writing
void pin_keys(const std::string& root, const std::string& name, const std::string& fingerprint);
void remove_remote(const std::string& root, const std::string& name, bool dry_run = false);  // kNotFound
RemoteConfig pick_remote(const std::string& root,
                         const std::string& name);  // "" means "origin" or the only one; kNotFound with a hint

}  // namespace mlx::registry
