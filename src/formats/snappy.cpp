// A sequence of elements after the size: literal bytes, or copies of bytes that were written before.
#include "formats/snappy.h"

#include <algorithm>
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

// By the last two bits of a tag: how many bytes hold the rest of a copy's offset, and which of four loaded bytes.
constexpr std::size_t kOffsetBytes[] = {0, 1, 2, 4};
constexpr std::uint32_t kOffsetMask[] = {0, 0xff, 0xffff, 0xffffffff};

// One element: literal bytes, or a copy of bytes that were written before.
void unpack_element(Input& in, std::span<std::uint8_t> plain, std::size_t& done) {
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

// The same for elements of at most 64 bytes that are far from both ends, so that whole blocks can be copied: what they
// write beyond an element, the next ones overwrite. Stops before any other element.
void unpack_inside(Input& in, std::span<std::uint8_t> plain, std::size_t& done) {
  constexpr std::ptrdiff_t kMargin = 80;
  std::uint8_t* const begin = plain.data();
  std::uint8_t* const last = begin + plain.size() - std::min<std::size_t>(plain.size(), kMargin);
  std::uint8_t* to = begin + done;
  const std::uint8_t* at = in.at;
  while (in.end - at >= kMargin && to < last) {
    const std::uint8_t tag = *at;
    const std::size_t kind = tag & 3, upper = tag >> 2;
    if (kind == 0) {
      if (upper >= 60) break;
      std::memcpy(to, at + 1, 16);
      if (upper >= 16) std::memcpy(to + 16, at + 17, 48);
      at += upper + 2, to += upper + 1;
      continue;
    }
    std::uint32_t offset;
    std::memcpy(&offset, at + 1, sizeof offset);
    offset &= kOffsetMask[kind];
    std::size_t count = upper + 1;
    if (kind == 1) count = (upper & 7) + 4, offset |= static_cast<std::uint32_t>(upper >> 3 << 8);
    if (offset == 0 || offset > static_cast<std::size_t>(to - begin)) break;
    at += 1 + kOffsetBytes[kind];
    const std::uint8_t* const from = to - offset;
    if (offset >= 8) {  // most copies are short: 16 bytes without asking
      std::memcpy(to, from, 8);
      std::memcpy(to + 8, from + 8, 8);
      for (std::size_t i = 16; i < count; i += 8) std::memcpy(to + i, from + i, 8);
    } else {
      for (std::size_t i = 0; i < count; ++i) to[i] = from[i];
    }
    to += count;
  }
  in.at = at, done = static_cast<std::size_t>(to - begin);
}

}  // namespace

void unpack_snappy(ByteView packed, std::span<std::uint8_t> plain) {
  Input in{packed.data(), packed.data() + packed.size()};
  if (in.varint() != plain.size()) Input::damaged("the data has another size than its page says");
  std::size_t done = 0;
  while (in.at != in.end) {
    unpack_inside(in, plain, done);
    if (in.at != in.end) unpack_element(in, plain, done);
  }
  if (done != plain.size()) Input::damaged("the data is shorter than its size");
}

}  // namespace mlx::formats
