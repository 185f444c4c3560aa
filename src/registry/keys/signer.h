// Who signs the operations that this clone records: an Ed25519 key of OpenSSH's kind. Used by Repository::record, and
// by commands that show or share the public key.
//
// Which one, from strongest to weakest: the setting user.signingkey (MLX_SIGNING_KEY), a file with a private key, or a
// public key (a file, or its text) whose private key an ssh-agent holds; else a key that is made when it is first
// needed,
// ~/.config/mlx/signing_key, or .mlx/signing_key where the home cannot be written. mlx.toml, which others write, has no
// say.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "registry/settings/settings.h"
#include "store/crypto/signature.h"

namespace mlx::registry {

struct Signer {
  Digest public_key;
  // `purpose` is the signature's namespace. kRefused where an agent does not sign.
  std::function<store::Signature(std::string_view purpose, ByteView message)> sign;
};

// kNotFound, kUsage or kRefused, naming the file or the setting, where the key cannot be used: others can read it, it
// is behind a passphrase, or of another kind. nullopt where no setting names one and none was made yet.
std::optional<Signer> find_signer(const SettingSources& sources);
Signer find_or_make_signer(const SettingSources& sources);

// Files of secrets: keys, identities, passphrases. The first `most` bytes, which whoever asks wipes. kRefused where
// others than the owner can read the file; a pipe is nobody else's.
Bytes read_private_file(const std::string& path, std::size_t most);
Bytes read_secret(int fd, const std::string& source, std::size_t most);

}  // namespace mlx::registry
