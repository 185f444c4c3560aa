// The signer of the operations that this clone records: an Ed25519 key in OpenSSH's format. Used by Repository::record,
// and by commands that show or share the public key.
//
// The setting user.signingkey (MLX_SIGNING_KEY) comes first. It names a file with a private key, or a public key (a
// file or its text) whose private key an ssh-agent holds. Without the setting a key is made on first use:
// ~/.config/mlx/signing_key, or .mlx/signing_key if the home is not writable. mlx.toml cannot set it, because others
// write that file.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "registry/settings/settings.h"
#include "store/crypto/signature.h"

namespace mlx::registry {

struct Signer {
  Digest public_key;
  // `purpose` is the signature's namespace. Throws kRefused if an agent declines to sign.
  std::function<store::Signature(std::string_view purpose, ByteView message)> sign;
};

// Throws kNotFound, kUsage or kRefused, naming the file or the setting, if the key cannot be used: others can read it,
// it has a passphrase, or it is of another type. nullopt if no setting names a key and none was made yet.
std::optional<Signer> find_signer(const SettingSources& sources);
Signer find_or_make_signer(const SettingSources& sources);

// Reads a file of secrets (keys, identities, passphrases): its first `most` bytes, which the caller wipes. Throws
// kRefused if others than the owner can read the file. A pipe counts as private.
Bytes read_private_file(const std::string& path, std::size_t most);
Bytes read_secret(int fd, const std::string& source, std::size_t most);

}  // namespace mlx::registry
