// Plain and gzip streams. Several gzip members in succession are one stream, as in RFC 1952.

#include "data/readers/byte_stream.h"

#include <zlib.h>

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
  GzipStream(ReadAt read_at, std::string file)
      : read_at_(std::move(read_at)), file_(std::move(file)), window_(kWindow) {
    compressed_ = true;
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(&inflate_, kGzipOnly) != Z_OK) throw std::bad_alloc();
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
      if (result == Z_STREAM_END) {
        next_member();
      } else if (result == Z_BUF_ERROR || result == Z_OK) {
        if (inflate_.avail_in == 0 && inflate_.avail_out > 0 && at_end_) corrupt("cut off: the gzip stream has no end");
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
  Bytes window_;
  z_stream inflate_{};
  std::uint64_t offset_ = 0;  // in the stored file, after the window
  bool at_end_ = false;       // the stored file has nothing after the window
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> open_stream(ReadAt read_at, const std::string& file) {
  std::uint8_t magic[2] = {};
  const bool gzip = read_at(0, magic, 2) == 2 && magic[0] == 0x1F && magic[1] == 0x8B;
  if (gzip) return std::make_unique<GzipStream>(std::move(read_at), file);
  return std::make_unique<PlainStream>(std::move(read_at));
}

std::unique_ptr<ByteStream> open_stream(const store::BlobReader& blob, const std::string& file) {
  return open_stream(
      [&blob](std::uint64_t offset, void* data, std::size_t count) { return blob.read_at(offset, data, count); }, file);
}

}  // namespace mlx::data
