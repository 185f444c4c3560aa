// zstd level 1: at 64 KiB chunks higher levels save a few percent and cost a multiple of the time (DESIGN 5).
#include "store/format/codec.h"

#include <zstd.h>
#include <zstd_errors.h>

#include <new>
#include <span>

#include "base/error.h"
#include "store/format/byte_planes.h"
#include "store/format/manifest.h"

namespace mlx::store {

namespace {
constexpr int kLevel = 1;
constexpr std::size_t kTooSmallToCompress = 32;
}  // namespace

struct Codec::State {
  ZSTD_CCtx* compress = nullptr;
  ZSTD_DCtx* decompress = nullptr;
  Bytes planes, difference;
  ~State() {
    ZSTD_freeCCtx(compress);
    ZSTD_freeDCtx(decompress);
  }

  // Appends a zstd frame to `out`. False if that makes it longer than `limit`; then its content is undefined.
  bool encode_frame(ByteView plain, std::size_t limit, Bytes& out) {
    if (!compress && !(compress = ZSTD_createCCtx())) throw std::bad_alloc();
    std::size_t before = out.size();
    out.resize(before + ZSTD_compressBound(plain.size()));
    std::size_t size =
        ZSTD_compressCCtx(compress, out.data() + before, out.size() - before, plain.data(), plain.size(), kLevel);
    if (ZSTD_isError(size) || before + size > limit) return false;
    out.resize(before + size);
    return true;
  }

  bool encode_planes(ByteView plain, int width, std::size_t limit, Bytes& out) {
    split_planes(plain, width, planes);
    out.push_back(static_cast<std::uint8_t>(width));
    std::size_t length = plain.size() / static_cast<std::size_t>(width);
    for (std::size_t at = 0; at < plain.size(); at += length) {
      if (!encode_frame(ByteView(planes).subspan(at, length), limit, out)) return false;
    }
    return true;
  }

  // zstd's text for a damaged frame. A lack of memory is thrown: it is not damage.
  static const char* problem_of(std::size_t code) {
    if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation) throw std::bad_alloc();
    return ZSTD_getErrorName(code);
  }

  // Decodes one frame that must fill `plain` exactly; what is wrong with it, or nullptr.
  const char* decode_frame(ByteView frame, std::span<std::uint8_t> plain) {
    if (!decompress && !(decompress = ZSTD_createDCtx())) throw std::bad_alloc();
    std::size_t size = ZSTD_decompressDCtx(decompress, plain.data(), plain.size(), frame.data(), frame.size());
    if (ZSTD_isError(size)) return problem_of(size);
    return size == plain.size() ? nullptr : "sizes differ";
  }

  const char* decode_planes(ByteView stored, Bytes& plain) {
    int width = stored.empty() ? 0 : stored[0];
    if (!is_width(width) || plain.size() % static_cast<std::size_t>(width) != 0) return "unknown width of elements";
    stored = stored.subspan(1);
    planes.resize(plain.size());
    std::size_t length = plain.size() / static_cast<std::size_t>(width);
    for (std::size_t at = 0; at < plain.size(); at += length) {
      std::size_t size = ZSTD_findFrameCompressedSize(stored.data(), stored.size());
      if (ZSTD_isError(size)) return problem_of(size);
      if (const char* why = decode_frame(stored.first(size), std::span(planes).subspan(at, length))) return why;
      stored = stored.subspan(size);
    }
    if (!stored.empty()) return "bytes behind its last plane";
    join_planes(planes, width, plain);
    return nullptr;
  }
};

Codec::Codec() : state_(std::make_unique<State>()) {}
Codec::~Codec() = default;

StoredObject Codec::encode(const ObjectKey& key, const Digest& id, ByteView plain, int width) {
  if (plain.size() > kMaxPlainSize) {
    fail(ErrorKind::kUsage, "object of {} is larger than the {} that one object may have", format_bytes(plain.size()),
         format_bytes(kMaxPlainSize));
  }
  StoredObject object;
  object.key = key;
  object.plain_size = static_cast<std::uint32_t>(plain.size());
  if (plain.size() > kTooSmallToCompress) {
    bool tensor = width > 1 && plain.size() % static_cast<std::size_t>(width) == 0;
    std::size_t limit = plain.size() - plain.size() / 16;
    if (tensor ? state_->encode_planes(plain, width, limit, object.stored)
               : state_->encode_frame(plain, limit, object.stored)) {
      object.encoding = tensor ? Encoding::kPlanes : Encoding::kZstd;
      object.checksum = stored_checksum(object.stored);
      return object;
    }
  }
  object.stored.assign(plain.begin(), plain.end());
  // The id of a raw chunk is the digest of its stored bytes.
  object.checksum = key.kind == ObjectKind::kChunkList ? stored_checksum(plain) : checksum_of_digest(id);
  return object;
}

std::optional<StoredObject> Codec::encode_delta(const ObjectKey& key, ByteView plain, int width, const DeltaBase& base,
                                                std::size_t limit) {
  CHECK(base.plain.size() == plain.size() && is_width(width) && plain.size() % static_cast<std::size_t>(width) == 0);
  state_->difference.assign(plain.begin(), plain.end());
  subtract(state_->difference, base.plain, width);
  StoredObject object;
  object.key = key;
  object.plain_size = static_cast<std::uint32_t>(plain.size());
  object.encoding = Encoding::kDelta;
  object.stored.assign(base.id.bytes.begin(), base.id.bytes.end());
  if (!state_->encode_planes(state_->difference, width, limit, object.stored)) return {};
  object.extra.assign(base.key.id.bytes.begin(), base.key.id.bytes.end());
  object.checksum = stored_checksum(object.stored);
  return object;
}

void check_stored(const PackRecord& record, ByteView stored, const std::string& where) {
  if (stored_checksum(stored) == record.checksum) return;
  fail(ErrorKind::kCorrupt, "{}: offset {}: stored bytes of object {} are damaged (checksum differs)", where,
       record.offset, record.key.id.brief());
}

void Codec::decode(const PackRecord& record, ByteView stored, Bytes& plain, const std::string& where,
                   const ReadBase& read_base) {
  if (record.key_id != 0) {
    throw Error(ErrorKind::kMissing,
                fmt::format("{}: object {} is encrypted with key {}", where, record.key.id.brief(), record.key_id),
                "this version of mlx cannot read encrypted objects");
  }
  bool identified = record.key.kind != ObjectKind::kChunkList;  // the id is the plain bytes' hash
  if (!identified) check_stored(record, stored, where);
  decode_unidentified(record, stored, plain, where, read_base);
  if (!identified || Digest::of(plain) == record.key.id) return;
  fail(ErrorKind::kCorrupt, "{}: offset {}: object {} is damaged (content differs from its id)", where, record.offset,
       record.key.id.brief());
}

void Codec::decode_unidentified(const PackRecord& record, ByteView stored, Bytes& plain, const std::string& where,
                                const ReadBase& read_base) {
  auto damaged = [&](std::string_view why) {
    fail(ErrorKind::kCorrupt, "{}: offset {}: object {} is damaged ({})", where, record.offset, record.key.id.brief(),
         why);
  };
  plain.resize(record.plain_size);
  switch (record.encoding) {
    case Encoding::kRaw:
      if (stored.size() != record.plain_size) damaged("sizes differ");
      plain.assign(stored.begin(), stored.end());
      break;
    case Encoding::kZstd:
      if (const char* why = state_->decode_frame(stored, plain)) damaged(why);
      break;
    case Encoding::kPlanes:
      if (const char* why = state_->decode_planes(stored, plain)) damaged(why);
      break;
    case Encoding::kDelta: {
      if (!read_base) damaged("a delta on a delta");
      if (record.key.kind != ObjectKind::kChunk) damaged("a delta that is no chunk");
      Digest base = delta_base(stored, where);
      if (const char* why = state_->decode_planes(stored.subspan(base.bytes.size()), plain)) damaged(why);
      Bytes base_plain = read_base(base);
      if (base_plain.size() != plain.size()) damaged("its base has another size");
      add(plain, base_plain, stored[base.bytes.size()]);
      break;
    }
  }
}

Digest delta_base(ByteView stored, const std::string& where) {
  Digest base;
  if (stored.size() < base.bytes.size()) fail(ErrorKind::kCorrupt, "{}: a delta that is cut short", where);
  return Digest::from(stored.first(base.bytes.size()));
}

CodecPool::Lease CodecPool::lend() {
  std::lock_guard lock(mutex_);
  if (idle_.empty()) return {*this, std::make_unique<Codec>()};
  std::unique_ptr<Codec> codec = std::move(idle_.back());
  idle_.pop_back();
  return {*this, std::move(codec)};
}

void CodecPool::put(std::unique_ptr<Codec> codec) {
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(codec));
}

void check_received(const StoredObject& object, CodecPool& codecs) {
  PackRecord record;
  record.key = object.key;
  record.checksum = object.checksum;
  record.stored_size = static_cast<std::uint32_t>(object.stored.size());
  record.plain_size = object.plain_size;
  record.encoding = object.encoding;
  record.key_id = object.key_id;
  record.extra_size = static_cast<std::uint16_t>(object.extra.size());
  check_stored(record, object.stored, "received object");
  if (object.key_id != 0 || base_of(object)) return;
  Bytes plain;
  codecs.lend()->decode(record, object.stored, plain, "received object");
  // Everybody reads these parts of a tree from now on.
  if (object.key.kind == ObjectKind::kManifest) (void)decode_root(plain);
  if (object.key.kind == ObjectKind::kShard) (void)decode_shard(plain);
}

}  // namespace mlx::store
