// A person's key pair and its public half, with their text forms (mlx-format-keys(5), IDENTITY).
#pragma once

#include <string>
#include <string_view>

#include "base/crypto.h"
#include "store/crypto/signature.h"

namespace mlx::store {

// What others must know of a person to let them in: the key that things are locked for, and the key that verifies their
// signatures. Both private keys are derived from the one secret of an identity.
struct PublicIdentity {
  Digest locks, signs;
  bool operator==(const PublicIdentity&) const = default;
};
SigningKey signing_key_of(const KeyPair& identity);
PublicIdentity public_identity(const KeyPair& identity);

// One line each. The public key ends in a checksum, so that a mistyped one is noticed before anything is encrypted for
// nobody. Parsing: kUsage.
std::string identity_text(const KeyPair& pair);
KeyPair parse_identity(std::string_view text, const std::string& what);
std::string public_key_text(const PublicIdentity& who);
PublicIdentity parse_public_key(std::string_view text);

}  // namespace mlx::store
