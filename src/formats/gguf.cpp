// Reader of GGUF headers. The input may be hostile: every count is bounded by the bytes that it needs.
#include "formats/gguf.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/error.h"

namespace mlx::formats {
namespace {

constexpr std::string_view kGgufMagic = "GGUF";
constexpr std::uint32_t kDefaultAlignment = 32;
constexpr std::uint32_t kMostGgufDims = 8;
constexpr int kDeepestArray = 4;
constexpr std::size_t kLongestName = 4096;

constexpr auto kString = static_cast<std::uint32_t>(GgufKind::kString),
               kArray = static_cast<std::uint32_t>(GgufKind::kArray),
               kUint32 = static_cast<std::uint32_t>(GgufKind::kU32);
constexpr std::array<std::uint8_t, 13> kValueSizes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};  // 0: no fixed size

// A type's blocks: how many elements, in how many bytes.
struct BlockType {
  std::uint32_t type;
  std::uint32_t elements, bytes;
};
constexpr BlockType kTypes[] = {
    {0, 1, 4},      {1, 1, 2},     {2, 32, 18},    {3, 32, 20},    {6, 32, 22},    {7, 32, 24},    {8, 32, 34},
    {9, 32, 36},    {10, 256, 84}, {11, 256, 110}, {12, 256, 144}, {13, 256, 176}, {14, 256, 210}, {15, 256, 292},
    {16, 256, 66},  {17, 256, 74}, {18, 256, 98},  {19, 256, 50},  {20, 32, 18},   {21, 256, 110}, {22, 256, 82},
    {23, 256, 136}, {24, 1, 1},    {25, 1, 2},     {26, 1, 4},     {27, 1, 8},     {28, 1, 8},     {29, 256, 56},
    {30, 1, 2},     {34, 256, 54}, {35, 256, 66},
};

const BlockType* find_type(std::uint32_t type) {
  const auto* found = std::ranges::find(kTypes, type, &BlockType::type);
  return found == std::end(kTypes) ? nullptr : found;
}

ByteView read_string(ByteReader& in) {
  return in.take(in.u64());
}

void skip_value(ByteReader& in, std::uint32_t type, int depth) {
  if (type >= kValueSizes.size() || depth > kDeepestArray) in.corrupt("metadata of an unknown type");
  if (type == kString) {
    read_string(in);
  } else if (type != kArray) {
    in.take(kValueSizes[type]);
  } else {
    std::uint32_t inner = in.u32();
    std::uint64_t count = in.u64();
    if (inner < kValueSizes.size() && kValueSizes[inner] > 0) {
      if (count > in.left()) in.corrupt("an array that is longer than the file");
      in.take(count * kValueSizes[inner]);
      return;
    }
    for (std::uint64_t i = 0; i < count; ++i) skip_value(in, inner, depth + 1);  // each takes bytes, or the input ends
  }
}

// The alignment of tensors: the one metadata value that their offsets depend on.
std::uint32_t read_metadata(ByteReader& in, std::uint64_t count) {
  std::uint32_t alignment = kDefaultAlignment;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string_view key = as_text(read_string(in));
    std::uint32_t type = in.u32();
    if (key == "general.alignment" && type == kUint32) {
      alignment = in.u32();
      if (alignment == 0 || (alignment & (alignment - 1)) != 0) in.corrupt("an alignment that is no power of two");
    } else {
      skip_value(in, type, 0);
    }
  }
  return alignment;
}

// Bytes of the tensor's data; 0 for an unknown type.
std::uint64_t data_size(const ByteReader& in, const GgufTensor& tensor) {
  const BlockType* type = find_type(tensor.type);
  if (!type) return 0;
  std::uint64_t elements = 1;
  for (std::uint64_t dim : tensor.shape) {
    if (__builtin_mul_overflow(elements, dim, &elements)) in.corrupt("a tensor of more than 2^64 elements");
  }
  if (elements % type->elements != 0) in.corrupt("a tensor that ends inside a block");
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(elements / type->elements, std::uint64_t{type->bytes}, &bytes)) {
    in.corrupt("a tensor of more than 2^64 bytes");
  }
  return bytes;
}

GgufTensor read_tensor(ByteReader& in) {
  GgufTensor tensor;
  ByteView name = read_string(in);
  if (name.size() > kLongestName) in.corrupt("a tensor's name is too long");
  tensor.name = as_text(name);
  std::uint32_t dims = in.u32();
  if (dims > kMostGgufDims) in.corrupt("a tensor of too many dimensions");
  for (std::uint32_t i = 0; i < dims; ++i) tensor.shape.push_back(in.u64());
  tensor.type = in.u32();
  tensor.begin = in.u64();  // from the start of the data
  return tensor;
}

// Turns offsets into places in the file, sets ends, and checks that no tensor overlaps another or lies outside.
void place_tensors(const ByteReader& in, GgufHeader& header, std::uint64_t file_size) {
  if (header.data_begin > file_size && !header.tensors.empty()) in.corrupt("the data begins behind the file's end");
  std::ranges::stable_sort(header.tensors, {}, &GgufTensor::begin);
  for (GgufTensor& tensor : header.tensors) {
    if (tensor.begin > file_size - header.data_begin) in.corrupt("a tensor outside of the file");
    tensor.begin += header.data_begin;
  }
  for (std::size_t i = 0; i < header.tensors.size(); ++i) {
    GgufTensor& tensor = header.tensors[i];
    std::uint64_t next = i + 1 < header.tensors.size() ? header.tensors[i + 1].begin : file_size;
    std::uint64_t size = data_size(in, tensor);
    if (size > next - tensor.begin) in.corrupt("tensors that overlap, or reach beyond the file");
    tensor.end = find_type(tensor.type) ? tensor.begin + size : next;
  }
}

}  // namespace

bool is_gguf(ByteView head) {
  return head.size() >= kGgufMagic.size() && as_text(head.first(kGgufMagic.size())) == kGgufMagic;
}

GgufHeader parse_gguf(ByteView head, std::uint64_t file_size) {
  ByteReader in(head, "GGUF header");
  if (!is_gguf(head)) in.corrupt("does not begin with GGUF");
  in.take(kGgufMagic.size());
  GgufHeader header;
  header.version = in.u32();
  if (header.version != 2 && header.version != 3) in.corrupt("a version other than 2 and 3");
  std::uint64_t tensors = in.u64();
  std::uint64_t alignment = read_metadata(in, in.u64());
  for (std::uint64_t i = 0; i < tensors; ++i) header.tensors.push_back(read_tensor(in));
  header.alignment = alignment;
  header.data_begin = (in.offset() + alignment - 1) / alignment * alignment;
  place_tensors(in, header, file_size);
  return header;
}

GgufMetadata read_gguf_metadata(ByteView head) {
  ByteReader in(head, "GGUF header");
  in.take(kGgufMagic.size());
  in.u32();
  in.u64();
  GgufMetadata out;
  for (std::uint64_t left = in.u64(); left > 0; --left) {
    const std::string_view key = as_text(read_string(in));
    std::uint32_t type = in.u32();
    const std::uint64_t begin = in.offset();
    GgufValue value;
    skip_value(in, type, 0);
    value.bytes = head.subspan(begin, in.offset() - begin);
    if (type == kArray) {
      ByteReader array(value.bytes, "GGUF header");
      type = array.u32();
      value.array = true;
      value.count = array.u64();
      value.bytes = value.bytes.subspan(array.offset());
    }
    value.kind = static_cast<GgufKind>(type);
    if (key.size() > kLongestName || !out.emplace(key, value).second)
      in.corrupt("a key that is there twice, or too long");
  }
  return out;
}

namespace {

std::int64_t signed_at(const std::uint8_t* at, std::size_t size) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < size; ++i) bits |= std::uint64_t{at[i]} << (8 * i);
  const int unused = static_cast<int>(64 - 8 * size);
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

}  // namespace

bool gguf_integers(const GgufValue& value, std::vector<std::int64_t>& out) {
  const bool is_signed = value.kind == GgufKind::kI8 || value.kind == GgufKind::kI16 || value.kind == GgufKind::kI32 ||
                         value.kind == GgufKind::kI64;
  const bool is_unsigned = value.kind == GgufKind::kU8 || value.kind == GgufKind::kU16 ||
                           value.kind == GgufKind::kU32 || value.kind == GgufKind::kU64 ||
                           value.kind == GgufKind::kBool;
  if (!is_signed && !is_unsigned) return false;
  const std::size_t size = kValueSizes[static_cast<std::size_t>(value.kind)];
  out.clear();
  for (std::size_t at = 0; at < value.bytes.size(); at += size) {
    const std::int64_t number = signed_at(value.bytes.data() + at, size);
    if (is_unsigned && number < 0 && size == 8) return false;
    out.push_back(is_unsigned && number < 0 ? number + (std::int64_t{1} << (8 * size)) : number);
  }
  return true;
}

bool gguf_numbers(const GgufValue& value, std::vector<double>& out) {
  if (value.kind != GgufKind::kF32 && value.kind != GgufKind::kF64) {
    std::vector<std::int64_t> integers;
    if (!gguf_integers(value, integers)) return false;
    out.assign(integers.begin(), integers.end());
    return true;
  }
  out.clear();
  const std::size_t size = value.kind == GgufKind::kF32 ? sizeof(float) : sizeof(double);
  for (std::size_t at = 0; at < value.bytes.size(); at += size) {
    const std::uint8_t* const from = value.bytes.data() + at;
    out.push_back(size == sizeof(float) ? double{std::bit_cast<float>(load_little_endian<std::uint32_t>(from))}
                                        : std::bit_cast<double>(load_little_endian<std::uint64_t>(from)));
  }
  return true;
}

bool gguf_strings(const GgufValue& value, std::vector<std::string_view>& out) {
  if (value.kind != GgufKind::kString) return false;
  ByteReader in(value.bytes, "GGUF header");
  out.clear();
  for (std::uint64_t i = 0; i < value.count; ++i) out.push_back(as_text(read_string(in)));
  return true;
}

int gguf_element_size(std::uint32_t type) {
  const BlockType* found = find_type(type);
  return found && found->elements == 1 ? static_cast<int>(found->bytes) : 1;
}

}  // namespace mlx::formats
