// The gear hash (as in "FastCDC", Xia et al., USENIX ATC 2016): h = 2h + G[byte], so that h depends on the last 64
// bytes only, and a stricter mask before the target than behind it, which keeps sizes near the target.
#include "store/chunker.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "formats/safetensors.h"

namespace mlx::store {

namespace {

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) from the bytes "mlx-gear".
constexpr std::array<std::uint64_t, 256> make_gear() {
  std::array<std::uint64_t, 256> table{};
  std::uint64_t state = 0x6d6c782d67656172;
  for (std::uint64_t& value : table) {
    state += 0x9e3779b97f4a7c15;
    std::uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    value = z ^ (z >> 31);
  }
  return table;
}

constexpr std::array<std::uint64_t, 256> kGear = make_gear();
// The same shifted, for taking two bytes a step: h after two bytes is 4h + 2G[a] + G[b].
constexpr std::array<std::uint64_t, 256> make_gear_twice() {
  std::array<std::uint64_t, 256> table = make_gear();
  for (std::uint64_t& value : table) value <<= 1;
  return table;
}
constexpr std::array<std::uint64_t, 256> kGearTwice = make_gear_twice();

constexpr std::uint64_t upper_bits(int count) {
  return ~std::uint64_t{0} << (64 - count);
}
constexpr std::uint64_t kMaskBeforeTarget = upper_bits(17);
constexpr std::uint64_t kMaskBehindTarget = upper_bits(15);

// Scans [begin, end) for a byte behind which the masked bits of the hash are 0; the length up to and with it, or 0.
std::size_t scan(const std::uint8_t* data, std::size_t begin, std::size_t end, std::uint64_t mask,
                 std::uint64_t& hash) {
  std::uint64_t h = hash;
  std::size_t i = begin;
  for (; i + 2 <= end; i += 2) {
    // `twice` is twice the hash behind the first byte; its own masked bits are one further up.
    std::uint64_t twice = (h << 2) + kGearTwice[data[i]];
    if ((((h << 1) + kGear[data[i]]) & mask) == 0) return i + 1;
    h = twice + kGear[data[i + 1]];
    if ((h & mask) == 0) return i + 2;
  }
  for (; i < end; ++i) {
    h = (h << 1) + kGear[data[i]];
    if ((h & mask) == 0) return i + 1;
  }
  hash = h;
  return 0;
}

std::vector<Stretch> safetensors_stretches(ByteView head, std::uint64_t size) {
  std::uint64_t header = formats::safetensors_header_size(head.first(8), size);
  if (header == 0 || header > head.size()) return {};
  std::vector<Stretch> stretches;
  for (const auto& tensor : formats::parse_safetensors(head.first(header), size).tensors) {
    if (tensor.begin < tensor.end) stretches.push_back({tensor.begin, tensor.end});
  }
  return stretches;
}

// NumPy's NEP 1: magic, version, length of the header (2 bytes in version 1, else 4), header, data.
std::vector<Stretch> npy_stretches(ByteView head, std::uint64_t size) {
  ByteReader in(head);
  in.take(6);
  std::uint8_t major = in.u8();
  in.u8();
  std::uint64_t length = major == 1 ? in.u16() : in.u32();
  std::uint64_t begin = in.offset() + length;
  if (begin >= size) return {};
  return {{begin, size}};
}

}  // namespace

std::size_t cut_by_content(ByteView data) {
  if (data.size() <= kMinChunk) return data.size();
  std::size_t end = std::min(data.size(), kMaxChunk);
  std::uint64_t hash = 0;
  if (std::size_t cut = scan(data.data(), kMinChunk, std::min(end, kTargetChunk), kMaskBeforeTarget, hash)) return cut;
  if (end > kTargetChunk) {
    if (std::size_t cut = scan(data.data(), kTargetChunk, end, kMaskBehindTarget, hash)) return cut;
  }
  return end;
}

std::vector<Stretch> cut_points(ByteView head, std::uint64_t size) {
  if (head.size() < 16) return {};
  try {
    if (as_text(head.first(6)) == "\x93NUMPY") return npy_stretches(head, size);
    return safetensors_stretches(head, size);
  } catch (const Error&) {
    return {};  // any bytes may be stored, also those of a damaged file
  }
}

std::size_t Cutter::next(std::uint64_t offset, ByteView data, bool last) {
  if (data.empty()) return 0;
  while (current_ < stretches_.size() && stretches_[current_].end <= offset) ++current_;
  std::uint64_t limit = ~std::uint64_t{0};  // bytes until cutting changes its way
  bool inside = false;
  if (current_ < stretches_.size()) {
    const Stretch& stretch = stretches_[current_];
    inside = stretch.begin <= offset;
    limit = (inside ? stretch.end : stretch.begin) - offset;
  }
  std::uint64_t wanted = std::min<std::uint64_t>(inside ? kTargetChunk : kMaxChunk, limit);
  if (data.size() < wanted && !last) return 0;
  ByteView chunk = data.first(std::min<std::uint64_t>(wanted, data.size()));
  return inside ? chunk.size() : cut_by_content(chunk);
}

}  // namespace mlx::store
