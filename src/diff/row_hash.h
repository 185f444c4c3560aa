// SipHash-2-4 with 128 bits of output (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012): identifies
// rows. With a secret key, nobody can make different rows with equal hashes on purpose.
#pragma once

#include <bit>
#include <compare>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace mlx::diff {

struct Hash128 {
  std::uint64_t low = 0, high = 0;
  auto operator<=>(const Hash128&) const = default;
  // The sum of hashes identifies a set of cells, whatever their order.
  Hash128& operator+=(const Hash128& other) {
    low += other.low;
    high += other.high + (low < other.low ? 1 : 0);
    return *this;
  }
};

class SipState {
 public:
  explicit SipState(Hash128 key)
      : a_(key.low ^ 0x736f6d6570736575),
        b_(key.high ^ 0x646f72616e646f6d ^ 0xee),
        c_(key.low ^ 0x6c7967656e657261),
        d_(key.high ^ 0x7465646279746573) {}

  void add(std::uint64_t word) {
    d_ ^= word;
    round(), round();
    a_ ^= word;
  }
  Hash128 finish() {
    Hash128 hash;
    c_ ^= 0xee;
    round(), round(), round(), round();
    hash.low = a_ ^ b_ ^ c_ ^ d_;
    b_ ^= 0xdd;
    round(), round(), round(), round();
    hash.high = a_ ^ b_ ^ c_ ^ d_;
    return hash;
  }

 private:
  void round() {
    a_ += b_, c_ += d_;
    b_ = std::rotl(b_, 13) ^ a_, d_ = std::rotl(d_, 16) ^ c_;
    a_ = std::rotl(a_, 32);
    c_ += b_, a_ += d_;
    b_ = std::rotl(b_, 17) ^ c_, d_ = std::rotl(d_, 21) ^ a_;
    c_ = std::rotl(c_, 32);
  }
  std::uint64_t a_, b_, c_, d_;
};

inline Hash128 sip_hash(Hash128 key, std::string_view text) {
  SipState state(key);
  std::size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    state.add(word);
  }
  std::uint64_t last = std::uint64_t{text.size()} << 56;
  for (std::size_t i = 0; at + i < text.size(); ++i) {
    last |= std::uint64_t{static_cast<unsigned char>(text[at + i])} << (8 * i);
  }
  state.add(last);
  return state.finish();
}

}  // namespace mlx::diff
