#include "convert/gguf_header.h"

#include <bit>

namespace mlx::convert {
namespace {

using formats::GgufKind;

void put_text(ByteWriter& out, std::string_view text) {
  out.u64(text.size());
  out.raw(as_bytes(text));
}

}  // namespace

void GgufHeader::begin(std::string_view key, GgufKind kind) {
  put_text(metadata_, key);
  metadata_.u32(static_cast<std::uint32_t>(kind));
  ++keys_;
}

void GgufHeader::begin_array(std::string_view key, GgufKind kind, std::size_t count) {
  begin(key, GgufKind::kArray);
  metadata_.u32(static_cast<std::uint32_t>(kind));
  metadata_.u64(count);
}

void GgufHeader::add(std::string_view key, std::string_view value) {
  begin(key, GgufKind::kString);
  put_text(metadata_, value);
}

void GgufHeader::add(std::string_view key, std::uint32_t value) {
  begin(key, GgufKind::kU32);
  metadata_.u32(value);
}

void GgufHeader::add(std::string_view key, float value) {
  begin(key, GgufKind::kF32);
  metadata_.u32(std::bit_cast<std::uint32_t>(value));
}

void GgufHeader::add(std::string_view key, bool value) {
  begin(key, GgufKind::kBool);
  metadata_.u8(value ? 1 : 0);
}

void GgufHeader::add(std::string_view key, const std::vector<std::string>& values) {
  begin_array(key, GgufKind::kString, values.size());
  for (const std::string& value : values) put_text(metadata_, value);
}

void GgufHeader::add(std::string_view key, const std::vector<std::int32_t>& values) {
  begin_array(key, GgufKind::kI32, values.size());
  for (const std::int32_t value : values) metadata_.u32(static_cast<std::uint32_t>(value));
}

void GgufHeader::add(std::string_view key, const std::vector<float>& values) {
  begin_array(key, GgufKind::kF32, values.size());
  for (const float value : values) metadata_.u32(std::bit_cast<std::uint32_t>(value));
}

void GgufHeader::add_tensor(std::string_view name, const std::vector<std::int64_t>& shape, std::uint32_t type,
                            std::uint64_t bytes) {
  put_text(tensors_, name);
  tensors_.u32(static_cast<std::uint32_t>(shape.size()));
  for (auto size = shape.rbegin(); size != shape.rend(); ++size) tensors_.u64(static_cast<std::uint64_t>(*size));
  tensors_.u32(type);
  tensors_.u64(data_);
  data_ += padded(bytes);
  ++count_;
}

Bytes GgufHeader::finish() const {
  constexpr std::uint32_t kVersion = 3;
  ByteWriter out;
  out.raw(as_bytes("GGUF"));
  out.u32(kVersion);
  out.u64(count_);
  out.u64(keys_);
  out.raw(metadata_.bytes());
  out.raw(tensors_.bytes());
  Bytes bytes = out.take();
  bytes.resize(padded(bytes.size()));
  return bytes;
}

}  // namespace mlx::convert
