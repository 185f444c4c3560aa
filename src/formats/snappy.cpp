// A sequence of elements after the size: literal bytes, or copies of bytes that were written before.
#include "formats/snappy.h"

#include <cstring>

#include "base/error.h"

namespace mlx::formats {
namespace {

struct Input {
  const std::uint8_t* at;
  const std::uint8_t* end;

  [[noreturn]] static void damaged(const char* why) { fail(ErrorKind::kCorrupt, "snappy: {}", why); }
  const std::uint8_t* take(std::size_t count) {
    if (count > static_cast<std::size_t>(end - at)) damaged("the data is cut off");
    at += count;
    return at - count;
  }
  // `bytes` bytes, little-endian.
  std::size_t number(std::size_t bytes) {
    const std::uint8_t* from = take(bytes);
    std::size_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value |= std::size_t{from[i]} << (8 * i);
    return value;
  }
  std::size_t varint() {
    std::size_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
      const std::uint8_t byte = *take(1);
      value |= std::size_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    damaged("the size is not a number");
  }
};

// Source and target may overlap: then what was copied is copied again.
void copy_within(std::uint8_t* to, std::size_t offset, std::size_t count) {
  if (offset >= count) {
    std::memcpy(to, to - offset, count);
  } else {
    const std::uint8_t* const from = to - offset;
    for (std::size_t i = 0; i < count; ++i) to[i] = from[i];
  }
}

}  // namespace

void unpack_snappy(ByteView packed, std::span<std::uint8_t> plain) {
  Input in{packed.data(), packed.data() + packed.size()};
  if (in.varint() != plain.size()) Input::damaged("the data has another size than its page says");
  std::size_t done = 0;
  while (in.at != in.end) {
    const std::uint8_t tag = *in.take(1);
    const std::size_t upper = tag >> 2;
    std::size_t count = upper + 1, offset = 0;
    switch (tag & 3) {
      case 0:  // a literal; 60 to 63: one to four bytes hold its size
        if (upper >= 60) count = in.number(upper - 59) + 1;
        break;
      case 1:
        count = (upper & 7) + 4;
        offset = (upper >> 3) << 8 | in.number(1);
        break;
      default:
        offset = in.number((tag & 3) == 2 ? 2 : 4);
    }
    if (count > plain.size() - done) Input::damaged("the data is longer than its size");
    if ((tag & 3) == 0) {
      std::memcpy(plain.data() + done, in.take(count), count);
    } else {
      if (offset == 0 || offset > done) Input::damaged("a copy from before the beginning");
      copy_within(plain.data() + done, offset, count);
    }
    done += count;
  }
  if (done != plain.size()) Input::damaged("the data is shorter than its size");
}

}  // namespace mlx::formats
