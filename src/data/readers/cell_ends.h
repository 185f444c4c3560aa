// Finds where cells end, 64 bytes at a time. Used by the reader of CSV.
#pragma once

#include <emmintrin.h>

#include <bit>
#include <cstdint>
#include <string_view>

#include "data/readers/window.h"

namespace mlx::data {

// Keeps a bit for each byte of one block, set where a separator or line end stands, so that a block is compared once
// for all cells in it.
class CellEnds {
 public:
  // The first `separator` or line end of `text` from `at`; text.size() if there is none. Window::kPadding bytes after
  // `text` are read too.
  std::size_t next(std::string_view text, std::size_t at, char separator) {
    const char* const from = text.data() + at;
    const auto ahead = static_cast<std::size_t>(from - block_);
    std::uint64_t found = block_ && ahead < kBlock ? bits_ >> ahead : 0;
    if (found != 0) return std::min(at + static_cast<std::size_t>(std::countr_zero(found)), text.size());
    std::size_t begin = block_ && ahead < kBlock ? at + kBlock - ahead : at;
    for (; begin < text.size(); begin += kBlock) {
      look(text.data() + begin, separator);
      if (bits_ != 0) return std::min(begin + static_cast<std::size_t>(std::countr_zero(bits_)), text.size());
    }
    return text.size();
  }
  // The text has moved or grown.
  void forget() { block_ = nullptr; }

 private:
  static constexpr std::size_t kBlock = Window::kPadding;

  // SSE2, which every x86-64 has.
  void look(const char* block, char separator) {
    const __m128i ends = _mm_set1_epi8('\n'), separators = _mm_set1_epi8(separator);
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < kBlock; i += 16) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + i));
      const __m128i equal = _mm_or_si128(_mm_cmpeq_epi8(bytes, ends), _mm_cmpeq_epi8(bytes, separators));
      bits |= std::uint64_t{static_cast<std::uint16_t>(_mm_movemask_epi8(equal))} << i;
    }
    block_ = block, bits_ = bits;
  }

  const char* block_ = nullptr;
  std::uint64_t bits_ = 0;
};

}  // namespace mlx::data
