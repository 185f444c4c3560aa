// Deriving and printing identities.
#include "store/crypto/identity.h"

#include "base/error.h"

namespace mlx::store {

namespace {

constexpr std::string_view kIdentity = "mlx-identity-1:", kPublic = "mlx-key-2:";
constexpr std::string_view kSigningInfo = "mlx sign 1";
constexpr std::size_t kCheckDigits = 8;

bool is_lower_hex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

std::string identity_text(const KeyPair& pair) {
  return std::string(kIdentity) + to_hex(pair.private_key) + "\n";
}

KeyPair parse_identity(std::string_view text, const std::string& what) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (!text.starts_with(kIdentity) || text.size() != kIdentity.size() + 64 ||
      !is_lower_hex(text.substr(kIdentity.size()))) {
    throw Error(ErrorKind::kUsage, fmt::format("{}: not an identity of mlx", what), "`mlx key new-identity` makes one");
  }
  Bytes raw = from_hex(text.substr(kIdentity.size()));
  const Secret secret{ByteView(raw)};
  wipe(raw);
  return x25519_pair(secret);
}

SigningKey signing_key_of(const KeyPair& identity) {
  return signing_key_of(hkdf_sha256(identity.private_key, {}, kSigningInfo, 32));
}

PublicIdentity public_identity(const KeyPair& identity) {
  return {identity.public_key, signing_key_of(identity).public_key};
}

std::string public_key_text(const PublicIdentity& who) {
  const std::string digits = who.locks.hex() + who.signs.hex();
  return fmt::format("{}{}{}", kPublic, digits, Digest::of(as_bytes(digits)).hex().substr(0, kCheckDigits));
}

PublicIdentity parse_public_key(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  const std::string_view digits = text.starts_with(kPublic) ? text.substr(kPublic.size()) : std::string_view();
  if (digits.size() == 128 + kCheckDigits && is_lower_hex(digits)) {
    const PublicIdentity who{Digest::parse(digits.substr(0, 64)), Digest::parse(digits.substr(64, 64))};
    if (public_key_text(who) == text) return who;
  }
  throw Error(ErrorKind::kUsage, fmt::format("'{}' is no public key of mlx", text.substr(0, 200)),
              "it begins with mlx-key-2: and is printed by `mlx key export-public`");
}

}  // namespace mlx::store
