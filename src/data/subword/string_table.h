// A map from strings to numbers that is built once and only read then: the vocabulary of a model. Used by models.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace mlx::data::subword {

// Mixes bytes well; the same on every machine of one byte order, and no part of a result.
inline std::uint64_t hash_bytes(std::string_view text) {
  constexpr std::uint64_t kA = 0x9E3779B97F4A7C15U, kB = 0xD6E8FEB86659FD93U;
  const auto mixed = [](std::uint64_t x) {
    x ^= x >> 32;
    x *= kB;
    return x ^ x >> 29;
  };
  std::uint64_t hash = text.size() * kA;
  const char* at = text.data();
  std::size_t left = text.size();
  for (; left >= 8; left -= 8, at += 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, at, 8);
    hash = mixed(hash ^ eight) * kA;
  }
  if (left > 0) {
    std::uint64_t rest = 0;
    std::memcpy(&rest, at, left);
    hash = mixed(hash ^ rest) * kA;
  }
  return hash ^ hash >> 32;
}

class StringTable {
 public:
  static constexpr std::int32_t kNone = -1;

  StringTable() { slots_.resize(16); }
  void reserve(std::size_t count);
  // Replaces the number of a string that is there.
  void set(std::string_view text, std::int32_t number);
  std::int32_t find(std::string_view text) const {
    const Slot& slot = slots_[place_of(text)];
    return slot.number;
  }
  std::size_t size() const { return count_; }
  std::size_t longest() const { return longest_; }  // bytes of a string

 private:
  struct Slot {
    std::uint32_t at = 0, length = 0;
    std::int32_t number = kNone;
    std::uint32_t hash = 0;
  };
  std::size_t place_of(std::string_view text) const;
  void grow(std::size_t slots);

  std::vector<Slot> slots_;  // a power of two
  std::string bytes_;
  std::size_t count_ = 0, longest_ = 0;
};

}  // namespace mlx::data::subword
