// The gear hash (as in "FastCDC", Xia et al., USENIX ATC 2016): h = 2h + G[byte], so that h depends on the last 64
// bytes only, and a stricter mask before the target than behind it, which keeps sizes near the target.
#include "store/format/chunker.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "formats/gguf.h"
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

constexpr std::size_t kShortestHead = 16;  // enough to tell every format
constexpr std::string_view kNpyMagic = "\x93NUMPY";

bool is_npy(ByteView head) {
  return as_text(head.first(kNpyMagic.size())) == kNpyMagic;
}

// The width of a dtype as safetensors writes it: 2 for "BF16". 1 for types of a byte or less.
int width_of(std::string_view dtype) {
  if (dtype.ends_with("64")) return 8;
  if (dtype.ends_with("32")) return 4;
  if (dtype.ends_with("16")) return 2;
  return 1;
}

std::vector<Stretch> safetensors_stretches(ByteView head, std::uint64_t size) {
  std::uint64_t header = formats::safetensors_header_size(head.first(8), size);
  if (header == 0 || header > head.size()) return {};
  std::vector<Stretch> stretches;
  for (const auto& tensor : formats::parse_safetensors(head.first(header), size).tensors) {
    if (tensor.begin < tensor.end) stretches.push_back({tensor.begin, tensor.end, tensor.name, width_of(tensor.dtype)});
  }
  return stretches;
}

std::vector<Stretch> gguf_stretches(ByteView head, std::uint64_t size) {
  std::vector<Stretch> stretches;
  for (const auto& tensor : formats::parse_gguf(head, size).tensors) {
    if (tensor.begin < tensor.end)
      stretches.push_back({tensor.begin, tensor.end, tensor.name, formats::gguf_element_size(tensor.type)});
  }
  return stretches;
}

// The width in a npy header's "'descr': '<f4'"; 1 for anything else.
int npy_width(std::string_view header) {
  constexpr std::string_view kKey = "'descr': '";
  std::size_t at = header.find(kKey);
  if (at == std::string_view::npos || at + kKey.size() + 3 >= header.size()) return 1;
  std::string_view descr = header.substr(at + kKey.size(), 4);  // byte order, kind, digit, quote
  if (descr[3] != '\'' || std::string_view("248").find(descr[2]) == std::string_view::npos) return 1;
  return std::string_view("fiu").find(descr[1]) == std::string_view::npos ? 1 : descr[2] - '0';
}

// NumPy's NEP 1: magic, version, length of the header (2 bytes in version 1, else 4), header, data.
std::vector<Stretch> npy_stretches(ByteView head, std::uint64_t size) {
  ByteReader in(head);
  in.take(kNpyMagic.size());
  std::uint8_t major = in.u8();
  in.u8();
  std::uint64_t length = major == 1 ? in.u16() : in.u32();
  int width = npy_width(as_text(in.take(length)));
  std::uint64_t begin = in.offset();
  if (begin >= size) return {};
  return {{begin, size, "", width}};
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
  if (head.size() < kShortestHead) return {};
  try {
    if (is_npy(head)) return npy_stretches(head, size);
    if (formats::is_gguf(head)) return gguf_stretches(head, size);
    return safetensors_stretches(head, size);
  } catch (const Error&) {
    return {};  // a damaged file can be stored, too
  }
}

std::size_t header_room(ByteView head, std::uint64_t size) {
  if (head.size() < kShortestHead) return 0;
  if (is_npy(head)) return std::size_t{1} << 16;
  if (formats::is_gguf(head)) return kLongestHeader;  // the header does not give its length
  std::uint64_t header = formats::safetensors_header_size(head.first(8), size);
  return header > kLongestHeader ? 0 : static_cast<std::size_t>(header);
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
