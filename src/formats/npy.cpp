// Reads the header of an npy file: a Python dictionary of three keys, only in the form that NumPy writes.
#include "formats/npy.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/error.h"

namespace mlx::formats {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::uint64_t kLongestNpyHeader = 1 << 20;

// The text behind `'key': `.
std::string_view value_of(std::string_view text, std::string_view key) {
  const std::string quoted = fmt::format("'{}':", key);
  const std::size_t at = text.find(quoted);
  if (at == std::string_view::npos) fail(ErrorKind::kCorrupt, "npy header: '{}' is missing", key);
  text.remove_prefix(at + quoted.size());
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return text;
}

std::vector<std::int64_t> parse_shape(std::string_view text) {
  const std::size_t end = text.find(')');
  if (!text.starts_with('(') || end == std::string_view::npos)
    fail(ErrorKind::kCorrupt, "npy header: 'shape' is not in brackets");
  std::vector<std::int64_t> shape;
  for (std::string_view rest = text.substr(1, end - 1); !rest.empty();) {
    std::int64_t size = 0;
    const auto [read, wrong] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    if (wrong != std::errc() || size < 0) fail(ErrorKind::kCorrupt, "npy header: a size in 'shape' is no number");
    shape.push_back(size);
    rest.remove_prefix(static_cast<std::size_t>(read - rest.data()));
    if (rest.empty()) break;
    if (rest[0] != ',') fail(ErrorKind::kCorrupt, "npy header: sizes in 'shape' are not set apart by commas");
    rest.remove_prefix(std::min(rest.find_first_not_of(", "), rest.size()));
  }
  return shape;
}

}  // namespace

std::uint64_t npy_header_size(ByteView first_bytes) {
  if (first_bytes.size() < 12 || as_text(first_bytes.first(kNpyMagic.size())) != kNpyMagic) return 0;
  ByteReader in(first_bytes.subspan(kNpyMagic.size()), "npy header");
  const int major = in.u8();
  in.u8();
  if (major < 1 || major > 3) return 0;
  const std::uint64_t length = major == 1 ? in.u16() : in.u32();
  return length > kLongestNpyHeader ? 0 : kNpyMagic.size() + in.offset() + length;
}

NpyHeader parse_npy(ByteView head) {
  const std::uint64_t size = npy_header_size(head);
  if (size == 0) fail(ErrorKind::kCorrupt, "npy: no header that NumPy writes");
  if (size > head.size()) fail(ErrorKind::kCorrupt, "npy: the header has {} bytes, the file {}", size, head.size());
  const std::string_view text = as_text(head.subspan(10, size - 10));
  NpyHeader header;
  header.data_begin = size;
  const std::string_view descr = value_of(text, "descr");
  const std::size_t end = descr.find('\'', 1);
  if (!descr.starts_with('\'') || end == std::string_view::npos)
    fail(ErrorKind::kCorrupt, "npy header: 'descr' is of several fields");
  header.descr = descr.substr(1, end - 1);
  header.fortran_order = value_of(text, "fortran_order").starts_with("True");
  header.shape = parse_shape(value_of(text, "shape"));
  return header;
}

Bytes encode_npy_header(std::int64_t rows, std::int64_t columns) {
  constexpr std::size_t kAlignment = 64, kBefore = 10;
  std::string text = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  text.append(kAlignment - (kBefore + text.size() + 1) % kAlignment, ' ');
  text += '\n';
  ByteWriter out;
  out.raw(as_bytes(kNpyMagic));
  out.u8(1);
  out.u8(0);
  out.u16(static_cast<std::uint16_t>(text.size()));
  out.raw(as_bytes(text));
  return out.take();
}

}  // namespace mlx::formats
