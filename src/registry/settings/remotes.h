// The remotes declared in mlx.toml.
#pragma once

#include <string>
#include <vector>

namespace mlx::registry {

struct RemoteConfig {
  std::string name, url;
  bool encrypt = false;  // never send plaintext there
  std::string keys;      // fingerprint of a key revision that the remote must have; "" for any
};
// In mlx.toml (tracked): [remotes.NAME] url = "…", encrypt = true, keys = "SHA256:…". Refuses credentials in a URL.
std::vector<RemoteConfig> remotes(const std::string& root);
void add_remote(const std::string& root,
                const RemoteConfig& remote,  // kConflict if the name exists with another URL
                bool dry_run = false);       // everything but the write
void pin_keys(const std::string& root, const std::string& name, const std::string& fingerprint);
void remove_remote(const std::string& root, const std::string& name, bool dry_run = false);  // kNotFound
RemoteConfig pick_remote(const std::string& root,
                         const std::string& name);  // "" means "origin" or the only remote; kNotFound with a hint

}  // namespace mlx::registry
