// Shared by the fuzz targets. A target is a parser under libFuzzer with AddressSanitizer and UBSan. For any bytes it
// returns or throws an Error; what it accepts must be consistent. tests/fuzz/run.sh builds and runs the targets.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "base/bytes.h"
#include "base/error.h"

namespace mlx::fuzz {

// Aborts, so that the fuzzer keeps the input.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: does not hold: %s\n", what);
  std::abort();
}

// Runs a parser. An Error is a valid answer if it is about the data.
template <typename Body>
void errors_are_fine(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    require(error.kind != ErrorKind::kIo && error.kind != ErrorKind::kInterrupted, "errors of parsers are about data");
    require(!error.message.empty(), "errors say something");
  }
}

// Divides an input: first choices, then the bytes that they apply to.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}
  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const std::uint8_t value = rest_[0];
    rest_ = rest_.subspan(1);
    return value;
  }
  std::uint32_t number() {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | byte();
    return value;
  }
  ByteView take(std::size_t count) {
    const ByteView taken = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  ByteView rest() const { return rest_; }
  bool empty() const { return rest_.empty(); }

 private:
  ByteView rest_;
};

}  // namespace mlx::fuzz
