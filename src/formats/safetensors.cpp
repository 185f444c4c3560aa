// Strict reader and deterministic writer of safetensors headers. The input may be hostile: no allocation depends on a
// number in the file, and every tensor's place is checked before its data is read.

#include "formats/safetensors.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>

#include "base/error.h"
#include "base/json.h"

namespace mlx::formats {
namespace {

using Sorted = nlohmann::json;

constexpr std::uint64_t kLengthField = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // the limit of the reference implementation
constexpr std::size_t kMostDims = 32;

struct DTypeBits {
  std::string_view name;
  std::uint64_t bits;
};
constexpr std::array<DTypeBits, 20> kDTypes{{{"BOOL", 8}, {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
                                             {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
                                             {"U16", 16}, {"F16", 16},    {"BF16", 16},   {"I32", 32},    {"U32", 32},
                                             {"F32", 32}, {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64}}};

std::uint64_t read_length(ByteView bytes) {
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthField; ++i) length |= std::uint64_t{bytes[i]} << (8 * i);
  return length;
}

// Bytes of a tensor; kCorrupt if dtype is unknown, or the size overflows or ends inside a byte.
std::uint64_t tensor_bytes(const std::string& what, const std::string& dtype, const std::vector<std::int64_t>& shape) {
  const auto found = std::ranges::find(kDTypes, dtype, &DTypeBits::name);
  if (found == kDTypes.end()) fail(ErrorKind::kCorrupt, "{}: unknown dtype '{}'", what, dtype);
  std::uint64_t bits = found->bits;
  for (const std::int64_t dim : shape) {
    if (__builtin_mul_overflow(bits, static_cast<std::uint64_t>(dim), &bits)) {
      fail(ErrorKind::kCorrupt, "{}: its shape has more elements than 64 bits can count", what);
    }
  }
  if (bits % 8 != 0) fail(ErrorKind::kCorrupt, "{}: {} bits do not fill whole bytes", what, bits);
  return bits / 8;
}

std::uint64_t unsigned_number(const Sorted& value, const std::string& what, std::string_view key) {
  if (!value.is_number_unsigned()) {
    fail(ErrorKind::kCorrupt, "{}: '{}': expected whole numbers of at least 0, got {}", what, key, value.type_name());
  }
  return value.get<std::uint64_t>();
}

// base/json.h keeps keys in file order and searches them one by one. A header of 100 MB may have millions of keys, so
// this is a sorted tree. Refuses doubled names (the parser would keep the last) and nesting that no header has.
// nlohmann's parse() with a callback looks at all members of an object again with each that ends: not here.
class HeaderParser : public nlohmann::detail::json_sax_dom_parser<Sorted> {
  using Base = nlohmann::detail::json_sax_dom_parser<Sorted>;

 public:
  explicit HeaderParser(Sorted& to) : Base(to) {}
  bool start_object(std::size_t size) { return open() && Base::start_object(size); }
  bool start_array(std::size_t size) { return open() && Base::start_array(size); }
  bool end_object() { return close() && Base::end_object(); }
  bool end_array() { return close() && Base::end_array(); }
  bool key(std::string& name) {
    if (!open_.back().insert(name).second)
      fail(ErrorKind::kCorrupt, "safetensors header: the name '{}' occurs twice", name);
    return Base::key(name);
  }

 private:
  static constexpr std::size_t kDeepest = 4;
  bool open() {
    open_.emplace_back();
    if (open_.size() > kDeepest)
      fail(ErrorKind::kCorrupt, "safetensors header: nested deeper than {} levels", kDeepest);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  std::vector<std::unordered_set<std::string>> open_;  // names in the enclosing objects and arrays
};

Sorted parse_header(std::string_view text) {
  try {
    Sorted header;
    HeaderParser parser(header);
    Sorted::sax_parse(text, &parser);
    return header;
  } catch (const Sorted::parse_error& error) {
    fail(ErrorKind::kCorrupt, "safetensors header: offset {}: not JSON", kLengthField + error.byte);
  } catch (const Sorted::exception&) {
    fail(ErrorKind::kCorrupt, "safetensors header: a number in it is beyond any range");
  }
}

const Sorted& member(const Sorted& object, const std::string& what, const char* key, Sorted::value_t type,
                     const char* expected) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end()) fail(ErrorKind::kCorrupt, "{}: '{}' is missing", what, key);
  if (found->type() != type)
    fail(ErrorKind::kCorrupt, "{}: '{}': expected {}, got {}", what, key, expected, found->type_name());
  return *found;
}

SafetensorsEntry parse_entry(const std::string& name, const Sorted& value, std::uint64_t data_begin,
                             std::uint64_t file_size) {
  const std::string what = fmt::format("safetensors header: tensor '{}'", name);
  SafetensorsEntry entry;
  entry.name = name;
  entry.dtype = member(value, what, "dtype", Sorted::value_t::string, "a string").get<std::string>();
  const Sorted& shape = member(value, what, "shape", Sorted::value_t::array, "an array");
  const Sorted& offsets = member(value, what, "data_offsets", Sorted::value_t::array, "an array");
  if (value.size() != 3) fail(ErrorKind::kCorrupt, "{}: expected exactly dtype, shape and data_offsets", what);
  if (shape.size() > kMostDims) fail(ErrorKind::kCorrupt, "{}: {} dimensions are too many", what, shape.size());
  for (const Sorted& dim : shape) {
    const std::uint64_t size = unsigned_number(dim, what, "shape");
    if (size > INT64_MAX) fail(ErrorKind::kCorrupt, "{}: a dimension of {} is too large", what, size);
    entry.shape.push_back(static_cast<std::int64_t>(size));
  }
  if (offsets.size() != 2) fail(ErrorKind::kCorrupt, "{}: expected two data_offsets, got {}", what, offsets.size());
  const std::uint64_t begin = unsigned_number(offsets[0], what, "data_offsets");
  const std::uint64_t end = unsigned_number(offsets[1], what, "data_offsets");
  if (begin > end || end > file_size - data_begin) {
    fail(ErrorKind::kCorrupt, "{}: data from {} to {} is not inside the file's {} data bytes", what, begin, end,
         file_size - data_begin);
  }
  const std::uint64_t expected = tensor_bytes(what, entry.dtype, entry.shape);
  if (end - begin != expected) {
    fail(ErrorKind::kCorrupt, "{}: dtype and shape need {} bytes, data_offsets give {}", what, expected, end - begin);
  }
  entry.begin = data_begin + begin;
  entry.end = data_begin + end;
  return entry;
}

// Tensors must cover the data exactly, without holes or overlaps.
void check_cover(const SafetensorsHeader& header, std::uint64_t file_size) {
  std::uint64_t at = header.data_begin;
  for (const SafetensorsEntry& entry : header.tensors) {
    if (entry.begin != at) {
      fail(ErrorKind::kCorrupt,
           "safetensors header: tensor '{}' begins at byte {} of the file, the one before ends at {} ({})", entry.name,
           entry.begin, at, entry.begin < at ? "they overlap" : "there is a hole");
    }
    at = entry.end;
  }
  if (at != file_size) {
    fail(ErrorKind::kCorrupt, "safetensors: {} bytes after the last tensor belong to none", file_size - at);
  }
}

}  // namespace

std::uint64_t safetensors_header_size(ByteView first_bytes, std::uint64_t file_size) {
  if (first_bytes.size() < kLengthField || file_size < kLengthField) return 0;
  const std::uint64_t length = read_length(first_bytes);
  if (length < 2 || length > kLongestHeader || length > file_size - kLengthField) return 0;
  if (first_bytes.size() > kLengthField && first_bytes[kLengthField] != '{') return 0;
  return kLengthField + length;
}

SafetensorsHeader parse_safetensors(ByteView head, std::uint64_t file_size) {
  if (head.size() < kLengthField || file_size < kLengthField) {
    fail(ErrorKind::kCorrupt, "safetensors: {} bytes are too few for the length of a header",
         std::min<std::uint64_t>(head.size(), file_size));
  }
  const std::uint64_t size = safetensors_header_size(head, file_size);
  if (size == 0) {
    fail(ErrorKind::kCorrupt,
         "safetensors: offset 0: a header of {} bytes that begins with '{{' does not stand in this file of {} bytes",
         read_length(head), file_size);
  }
  if (size > head.size()) {
    fail(ErrorKind::kCorrupt, "safetensors: the header has {} bytes, only {} could be read", size, head.size());
  }
  const std::string_view text = as_text(head.subspan(kLengthField, size - kLengthField));
  const Sorted json = parse_header(text);
  if (!json.is_object()) fail(ErrorKind::kCorrupt, "safetensors header: expected an object, got {}", json.type_name());

  SafetensorsHeader header;
  header.data_begin = size;
  for (const auto& [name, value] : json.items()) {
    if (name != "__metadata__") {
      header.tensors.push_back(parse_entry(name, value, size, file_size));
      continue;
    }
    if (!value.is_object()) fail(ErrorKind::kCorrupt, "safetensors header: __metadata__: expected an object");
    for (const auto& [key, text_value] : value.items()) {
      if (!text_value.is_string())
        fail(ErrorKind::kCorrupt, "safetensors header: __metadata__: '{}' is not a string", key);
      header.metadata.emplace_back(key, text_value.get<std::string>());
    }
  }
  // An empty tensor comes before one with the same begin.
  std::ranges::stable_sort(header.tensors, [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  check_cover(header, file_size);
  return header;
}

Bytes encode_safetensors_header(std::vector<SafetensorsEntry>& tensors, const SafetensorsMetadata& metadata) {
  std::string text = "{";
  for (const auto& [key, value] : metadata)
    text += fmt::format("{}{}:{}", text.size() == 1 ? R"("__metadata__":{)" : ",", canonical(key), canonical(value));
  if (!metadata.empty()) text += '}';
  std::uint64_t at = 0;
  for (SafetensorsEntry& entry : tensors) {
    CHECK(std::ranges::all_of(entry.shape, [](std::int64_t dim) { return dim >= 0; }));
    entry.begin = at;
    at += tensor_bytes(entry.name, entry.dtype, entry.shape);
    entry.end = at;
    if (text.size() > 1) text += ',';
    text += fmt::format(R"({}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", canonical(entry.name), entry.dtype,
                        canonical(entry.shape), entry.begin, entry.end);
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  for (SafetensorsEntry& entry : tensors) {
    entry.begin += kLengthField + text.size();
    entry.end += kLengthField + text.size();
  }
  ByteWriter out;
  out.u64(text.size());
  out.raw(as_bytes(text));
  return out.take();
}

}  // namespace mlx::formats
