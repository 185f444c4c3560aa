// SHA-256 digests (FIPS 180-4, through OpenSSL): the identity of everything that mlx stores.
//
// Text form is "sha256:" and 64 lower-case hex digits; people may type at least 8 of the digits.
#pragma once

#include <array>
#include <compare>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace mlx {

inline constexpr std::uint8_t kSha256Number = 1;  // what every format calls the algorithm

struct Digest {
  std::array<std::uint8_t, 32> bytes{};

  std::string hex() const { return to_hex(bytes); }
  std::string text() const { return "sha256:" + hex(); }
  std::string brief() const { return hex().substr(0, 12); }
  bool is_zero() const { return *this == Digest{}; }
  auto operator<=>(const Digest&) const = default;

  static Digest of(ByteView bytes);
  static Digest of(std::string_view text) { return of(as_bytes(text)); }
  static Digest from(ByteView raw);            // exactly 32 bytes, else kCorrupt
  static Digest parse(std::string_view text);  // "sha256:HEX" or bare 64 hex digits, else kCorrupt
};

struct DigestHash {
  std::size_t operator()(const Digest& d) const {
    std::size_t h;
    std::memcpy(&h, d.bytes.data(), sizeof h);
    return h;
  }
};

// Incremental hashing. Movable; not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void update(ByteView bytes);
  Digest finish();  // afterwards the object is as new

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlx
