// Plain, gzip and zstd streams. Several gzip members or zstd frames in succession are one stream.

#include "data/readers/byte_stream.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace mlx::data {
namespace {

constexpr std::size_t kWindow = 256 * 1024;

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(ReadAt read_at) : read_at_(std::move(read_at)) {}
  std::size_t read(void* data, std::size_t count) override {
    const std::size_t got = read_at_(offset_, data, count);
    offset_ += got;
    return got;
  }

 private:
  ReadAt read_at_;
  std::uint64_t offset_ = 0;
};

class GzipStream final : public ByteStream {
 public:
  // `raw`: deflate data without gzip's header and checksum.
  GzipStream(ReadAt read_at, std::string file, bool raw)
      : read_at_(std::move(read_at)), file_(std::move(file)), raw_(raw), window_(kWindow) {
    compressed_ = true;
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(&inflate_, raw ? -MAX_WBITS : kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~GzipStream() override { inflateEnd(&inflate_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  std::size_t read(void* data, std::size_t count) override {
    std::size_t done = 0;
    while (done < count && !ended_) {
      if (inflate_.avail_in == 0) refill();
      const std::size_t wanted = std::min<std::size_t>(count - done, std::numeric_limits<uInt>::max());
      inflate_.next_out = static_cast<Bytef*>(data) + done;
      inflate_.avail_out = static_cast<uInt>(wanted);
      const int result = ::inflate(&inflate_, Z_NO_FLUSH);
      done += wanted - inflate_.avail_out;
      if (result == Z_STREAM_END && raw_) {
        ended_ = true;
      } else if (result == Z_STREAM_END) {
        next_member();
      } else if (result == Z_BUF_ERROR || result == Z_OK) {
        if (inflate_.avail_in == 0 && inflate_.avail_out > 0 && at_end_)
          corrupt("cut off: the compressed stream has no end");
      } else {
        corrupt(inflate_.msg ? inflate_.msg : "damaged gzip data");
      }
    }
    return done;
  }

 private:
  void refill() {
    inflate_.next_in = window_.data();
    inflate_.avail_in = static_cast<uInt>(read_at_(offset_, window_.data(), window_.size()));
    offset_ += inflate_.avail_in;
    at_end_ = inflate_.avail_in < window_.size();
  }
  // A member is followed by another one or by the end of the file.
  void next_member() {
    if (inflate_.avail_in == 0) refill();
    if (inflate_.avail_in == 0) {
      ended_ = true;
    } else if (*inflate_.next_in == 0x1F) {
      inflateReset(&inflate_);
    } else {
      corrupt("expected the end of the file or another gzip member, found something else");
    }
  }
  [[noreturn]] void corrupt(const char* why) const {
    fail(ErrorKind::kCorrupt, "{}: offset {} of the compressed file: {}", file_, offset_ - inflate_.avail_in, why);
  }

  ReadAt read_at_;
  std::string file_;
  bool raw_;
  Bytes window_;
  z_stream inflate_{};
  std::uint64_t offset_ = 0;  // in the stored file, after the window
  bool at_end_ = false;       // the stored file has nothing after the window
  bool ended_ = false;
};

class ZstdStream final : public ByteStream {
 public:
  ZstdStream(ReadAt read_at, std::string file)
      : read_at_(std::move(read_at)), file_(std::move(file)), window_(kWindow), zstd_(ZSTD_createDStream()) {
    compressed_ = true;
    if (!zstd_) throw std::bad_alloc();
    ZSTD_DCtx_setParameter(zstd_.get(), ZSTD_d_windowLogMax, kLargestWindow);
  }

  std::size_t read(void* data, std::size_t count) override {
    ZSTD_outBuffer out{data, count, 0};
    while (out.pos < count) {
      if (in_.pos == in_.size && !refill() && frame_ended_) break;
      const std::size_t at = out.pos;
      const bool fed = in_.pos < in_.size;
      const std::size_t result = ZSTD_decompressStream(zstd_.get(), &out, &in_);
      if (ZSTD_isError(result)) corrupt(ZSTD_getErrorName(result));
      frame_ended_ = result == 0;
      if (!fed && out.pos == at && !frame_ended_) corrupt("cut off: the zstd frame has no end");
    }
    return out.pos;
  }

 private:
  static constexpr int kLargestWindow = 27;  // 128 MiB, what the zstd program allows

  bool refill() {
    in_ = {window_.data(), read_at_(offset_, window_.data(), window_.size()), 0};
    offset_ += in_.size;
    return in_.size > 0;
  }
  [[noreturn]] void corrupt(const char* why) const {
    fail(ErrorKind::kCorrupt, "{}: offset {} of the compressed file: {}", file_, offset_ - (in_.size - in_.pos), why);
  }

  struct Free {
    void operator()(ZSTD_DStream* zstd) const { ZSTD_freeDStream(zstd); }
  };
  ReadAt read_at_;
  std::string file_;
  Bytes window_;
  std::unique_ptr<ZSTD_DStream, Free> zstd_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  std::uint64_t offset_ = 0;  // in the stored file, after the window
  bool frame_ended_ = true;
};

bool is_gzip(ByteView head) {
  return as_text(head).starts_with("\x1F\x8B");
}
bool is_zstd(ByteView head) {
  return as_text(head).starts_with("\x28\xB5\x2F\xFD");
}

}  // namespace

bool is_compressed(ByteView head) {
  return is_gzip(head) || is_zstd(head);
}

std::string_view without_compression(std::string_view path) {
  for (const std::string_view ending : {".gz", ".zst"})
    if (path.ends_with(ending)) return path.substr(0, path.size() - ending.size());
  return path;
}

std::unique_ptr<ByteStream> open_stream(ReadAt read_at, const std::string& file) {
  std::uint8_t bytes[4] = {};
  const ByteView head(bytes, read_at(0, bytes, sizeof bytes));
  if (is_gzip(head)) return std::make_unique<GzipStream>(std::move(read_at), file, false);
  if (is_zstd(head)) return std::make_unique<ZstdStream>(std::move(read_at), file);
  return std::make_unique<PlainStream>(std::move(read_at));
}

std::unique_ptr<ByteStream> open_deflated(ReadAt read_at, const std::string& file) {
  return std::make_unique<GzipStream>(std::move(read_at), file, true);
}

bool ZstdUnpacker::unpack(ByteView packed, std::span<std::uint8_t> plain) {
  if (!zstd_) zstd_.reset(ZSTD_createDCtx());
  if (!zstd_) throw std::bad_alloc();
  return ZSTD_decompressDCtx(zstd_.get(), plain.data(), plain.size(), packed.data(), packed.size()) == plain.size();
}

void ZstdUnpacker::Free::operator()(ZSTD_DCtx_s* zstd) const {
  ZSTD_freeDCtx(zstd);
}

std::unique_ptr<ByteStream> open_stream(const store::BlobReader& blob, const std::string& file) {
  return open_stream(
      [&blob](std::uint64_t offset, void* data, std::size_t count) { return blob.read_at(offset, data, count); }, file);
}

}  // namespace mlx::data
