// The primitives of encryption, over OpenSSL: HMAC and HKDF with SHA-256, AES-256-GCM, scrypt, X25519, Ed25519, random
// bytes. The only code that includes OpenSSL's ciphers and keys; used by the store and its keys, and between ranks.
//
// Secrets are wiped when they are destroyed. Everything here is thread-safe; errors of OpenSSL itself are kMissing.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string_view>

#include "base/hash.h"

namespace mlx {

// Bytes that are overwritten before their memory is freed.
class Secret {
 public:
  Secret() = default;
  explicit Secret(ByteView bytes) : bytes_(bytes.begin(), bytes.end()) {}
  explicit Secret(std::size_t size) : bytes_(size) {}
  Secret(const Secret&) = default;
  Secret(Secret&&) noexcept = default;
  Secret& operator=(const Secret& other);
  Secret& operator=(Secret&& other) noexcept;
  ~Secret() { wipe(); }
  std::uint8_t* data() { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  operator ByteView() const { return bytes_; }
  bool operator==(const Secret& other) const;  // in constant time

 private:
  void wipe();
  Bytes bytes_;
};

void random_bytes(std::span<std::uint8_t> out);
void wipe(std::span<std::uint8_t> bytes);  // as Secret does; for temporary copies of secrets

Digest hmac_sha256(ByteView key, ByteView message);
Digest hmac_sha256(ByteView key, ByteView first, ByteView second);  // of their concatenation
bool equal_in_constant_time(ByteView a, ByteView b);
Secret hkdf_sha256(ByteView input, ByteView salt, std::string_view info, std::size_t size);

inline constexpr std::size_t kNonceSize = 12, kTagSize = 16, kSealedExtra = kNonceSize + kTagSize;
// nonce | ciphertext | tag. `key` has 32 bytes, `nonce` 12.
Bytes aes_gcm_seal(ByteView key, ByteView nonce, ByteView additional, ByteView plain);
// False, and `plain` is empty, if the tag does not match. Accepts sealed bytes of any size.
bool aes_gcm_open(ByteView key, ByteView additional, ByteView sealed, Bytes& plain);

// One key for many messages, set up once. One thread at a time.
class AesGcm {
 public:
  explicit AesGcm(ByteView key);  // 32 bytes
  ~AesGcm();
  AesGcm(AesGcm&&) noexcept;
  AesGcm& operator=(AesGcm&&) noexcept;
  // Writes ciphertext | tag: plain.size() + kTagSize bytes. No two messages may have the same nonce (12 bytes).
  void seal(ByteView nonce, ByteView additional, ByteView plain, std::uint8_t* sealed);
  // Writes sealed.size() - kTagSize bytes. False, and they are zero, if the tag does not match.
  bool open(ByteView nonce, ByteView additional, ByteView sealed, std::uint8_t* plain);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct ScryptCost {
  int log2_n = 16, r = 8, p = 1;  // 64 MiB, about a tenth of a second
};
Secret scrypt(ByteView passphrase, ByteView salt, const ScryptCost& cost, std::size_t size);

struct KeyPair {
  Secret private_key;
  Digest public_key;
};
KeyPair x25519_pair(const Secret& private_key);  // 32 bytes
KeyPair x25519_generate();
// nullopt if `peer` is a point of small order.
std::optional<Secret> x25519_agree(const Secret& private_key, const Digest& peer);

// Ed25519 (RFC 8032). A private key is its seed of 32 bytes; its public key has 32 too.
using Ed25519Signature = std::array<std::uint8_t, 64>;
Digest ed25519_public(const Secret& seed);
Ed25519Signature ed25519_sign(const Secret& seed, ByteView message);
bool ed25519_verify(const Digest& public_key, ByteView message, const Ed25519Signature& signature);

std::array<std::uint8_t, 64> sha512(ByteView bytes);

}  // namespace mlx
