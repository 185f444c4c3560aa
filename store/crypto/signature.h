// Ed25519 signatures in OpenSSH's format, and OpenSSH's keys as text. They sign operations and rings of keys.
// `ssh-keygen -Y verify` accepts signatures made here, and the other way round.
//
// Formats: RFC 8032 (Ed25519), RFC 8709 (keys on the wire), OpenSSH's PROTOCOL.sshsig and PROTOCOL.key. The hash under
// a signature is SHA-512. Pure functions, thread-safe; parsing is strict and bounded.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/crypto.h"

namespace mlx::store {

struct SigningKey {
  Secret seed;        // 32 bytes
  Digest public_key;  // 32 bytes; a Digest holds them
};

struct Signature {
  std::array<std::uint8_t, 64> bytes{};
  auto operator<=>(const Signature&) const = default;
};

SigningKey generate_signing_key();
SigningKey signing_key_of(Secret seed);  // of 32 bytes

// `purpose` is the namespace of PROTOCOL.sshsig: a signature for one purpose is invalid for another.
Signature sign(const SigningKey& key, std::string_view purpose, ByteView message);
bool verify(const Digest& public_key, std::string_view purpose, ByteView message, const Signature& signature);

// "ssh-ed25519 AAAA…", as in ~/.ssh/id_ed25519.pub; a comment behind it is skipped. kUsage, naming `what`, for
// anything else, other kinds of keys included.
std::string ssh_public_key(const Digest& public_key);
Digest parse_ssh_public_key(std::string_view line, const std::string& what);
std::string ssh_fingerprint(const Digest& public_key);  // "SHA256:…", as `ssh-keygen -l` prints it

// A file like ~/.ssh/id_ed25519. kUsage for other kinds of keys; kRefused for one behind a passphrase.
std::string ssh_private_key(const SigningKey& key);
SigningKey parse_ssh_private_key(std::string_view text, const std::string& what);

// "-----BEGIN SSH SIGNATURE-----…". Parsing also returns the public key; kCorrupt for another kind or purpose.
std::string armored_signature(const Digest& public_key, std::string_view purpose, const Signature& signature);
struct Signed {
  Digest public_key;
  Signature signature;
};
Signed parse_armored_signature(std::string_view text, std::string_view purpose, const std::string& what);

}  // namespace mlx::store
