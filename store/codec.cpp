// zstd level 1: at 64 KiB chunks higher levels save a few percent and cost a multiple of the time (DESIGN 5).
#include "store/codec.h"

#include <zstd.h>

#include <new>

#include "base/error.h"

namespace mlx::store {

namespace {
constexpr int kLevel = 1;
constexpr std::size_t kTooSmallToCompress = 32;
}  // namespace

struct Codec::State {
  ZSTD_CCtx* compress = nullptr;
  ZSTD_DCtx* decompress = nullptr;
  ~State() {
    ZSTD_freeCCtx(compress);
    ZSTD_freeDCtx(decompress);
  }
};

Codec::Codec() : state_(std::make_unique<State>()) {}
Codec::~Codec() = default;

StoredObject Codec::encode(ObjectKind kind, const Digest& id, ByteView plain) {
  if (plain.size() > kMaxPlainSize) {
    fail(ErrorKind::kUsage, "object of {} is larger than the {} that one object may have", format_bytes(plain.size()),
         format_bytes(kMaxPlainSize));
  }
  StoredObject object;
  object.key = {storage_id(id), kind};
  object.plain_size = static_cast<std::uint32_t>(plain.size());
  if (plain.size() > kTooSmallToCompress) {
    if (!state_->compress && !(state_->compress = ZSTD_createCCtx())) throw std::bad_alloc();
    object.stored.resize(ZSTD_compressBound(plain.size()));
    std::size_t size = ZSTD_compressCCtx(state_->compress, object.stored.data(), object.stored.size(), plain.data(),
                                         plain.size(), kLevel);
    if (!ZSTD_isError(size) && size <= plain.size() - plain.size() / 16) {
      object.encoding = Encoding::kZstd;
      object.stored.resize(size);
      object.checksum = stored_checksum(object.stored);
      return object;
    }
  }
  object.stored.assign(plain.begin(), plain.end());
  // A raw chunk's stored bytes are what its id is the hash of.
  object.checksum = kind == ObjectKind::kChunkList ? stored_checksum(plain) : checksum_of_digest(id);
  return object;
}

void check_stored(const PackRecord& record, ByteView stored, const std::string& where) {
  if (stored_checksum(stored) == record.checksum) return;
  fail(ErrorKind::kCorrupt, "{}: offset {}: stored bytes of object {} are damaged (checksum differs)", where,
       record.offset, record.key.id.brief());
}

void Codec::decode(const PackRecord& record, ByteView stored, Bytes& plain, const std::string& where) {
  if (record.key_id != 0) {
    throw Error(ErrorKind::kMissing,
                fmt::format("{}: object {} is encrypted with key {}", where, record.key.id.brief(), record.key_id),
                "this version of mlx cannot read encrypted objects");
  }
  if (record.extra_size != 0) {
    fail(ErrorKind::kCorrupt, "{}: offset {}: extra bytes that its encoding does not have", where, record.offset);
  }
  bool identified = record.key.kind != ObjectKind::kChunkList;  // the id is the plain bytes' hash
  if (!identified) check_stored(record, stored, where);
  auto damaged = [&](std::string_view why) {
    fail(ErrorKind::kCorrupt, "{}: offset {}: object {} is damaged ({})", where, record.offset, record.key.id.brief(),
         why);
  };
  if (record.encoding == Encoding::kRaw) {
    if (stored.size() != record.plain_size) damaged("sizes differ");
    plain.assign(stored.begin(), stored.end());
  } else {
    if (!state_->decompress && !(state_->decompress = ZSTD_createDCtx())) throw std::bad_alloc();
    plain.resize(record.plain_size);
    std::size_t size =
        ZSTD_decompressDCtx(state_->decompress, plain.data(), plain.size(), stored.data(), stored.size());
    if (ZSTD_isError(size)) damaged(ZSTD_getErrorName(size));
    if (size != record.plain_size) damaged("sizes differ");
  }
  if (identified && storage_id(Digest::of(plain)) != record.key.id) damaged("content differs from its id");
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

}  // namespace mlx::store
