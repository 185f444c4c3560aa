// Decodes block by block. Units of a block that belong to a pair whose other half is not read yet wait for it.
#include "data/readers/utf16.h"

#include <algorithm>

#include "base/error.h"

namespace mlx::data {
namespace {

class Utf16Stream final : public ByteStream {
 public:
  Utf16Stream(const Source& source, std::string file) : source_(source), file_(std::move(file)) {
    std::uint8_t mark[2] = {};
    offset_ = source.read_at(0, mark, 2);
    big_endian_ = mark[0] == 0xFE;
  }

  std::size_t read(void* data, std::size_t count) override {
    std::size_t done = 0;
    while (done < count) {
      if (at_ == text_.size() && !decode_block()) break;
      const std::size_t taken = text_.copy(static_cast<char*>(data) + done, count - done, at_);
      at_ += taken, done += taken;
    }
    return done;
  }

 private:
  static constexpr std::size_t kBlock = 64 * 1024;

  bool decode_block() {
    text_.clear();
    at_ = 0;
    Bytes block(kBlock);
    block.resize(source_.read_at(offset_, block.data(), block.size()));
    const bool last = block.size() < kBlock;
    std::size_t used = 0;
    while (block.size() - used >= 2) {
      std::uint32_t point = unit(block, used);
      std::size_t size = 2;
      if (point >= 0xDC00 && point < 0xE000) corrupt(used, "half a surrogate pair");
      if (point >= 0xD800 && point < 0xDC00) {
        if (block.size() - used < 4) break;
        const std::uint32_t low = unit(block, used + 2);
        if (low < 0xDC00 || low >= 0xE000) corrupt(used, "half a surrogate pair");
        point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
        size = 4;
      }
      append_utf8(text_, point);
      used += size;
    }
    if (last && used < block.size()) corrupt(used, "the text is cut off inside a character");
    offset_ += used;
    return !text_.empty();
  }

  std::uint32_t unit(const Bytes& block, std::size_t at) const {
    const unsigned first = block[at], second = block[at + 1];
    return big_endian_ ? first << 8 | second : second << 8 | first;
  }

  [[noreturn]] void corrupt(std::size_t inside, const char* why) const {
    fail(ErrorKind::kCorrupt, "{}: offset {}: UTF-16: {}", file_, offset_ + inside, why);
  }

  const Source& source_;
  std::string file_;
  bool big_endian_ = false;
  std::uint64_t offset_ = 0;  // of the next block
  std::string text_;
  std::size_t at_ = 0;  // what was read of text_
};

}  // namespace

void append_utf8(std::string& out, std::uint32_t point) {
  const auto tail = [&](unsigned shift) { out += static_cast<char>(0x80 | ((point >> shift) & 0x3F)); };
  if (point < 0x80) {
    out += static_cast<char>(point);
  } else if (point < 0x800) {
    out += static_cast<char>(0xC0 | (point >> 6));
    tail(0);
  } else if (point < 0x10000) {
    out += static_cast<char>(0xE0 | (point >> 12));
    tail(6), tail(0);
  } else {
    out += static_cast<char>(0xF0 | (point >> 18));
    tail(12), tail(6), tail(0);
  }
}

bool is_utf16(ByteView head) {
  return as_text(head).starts_with("\xFF\xFE") || as_text(head).starts_with("\xFE\xFF");
}

std::unique_ptr<ByteStream> read_utf16(const Source& source, const std::string& file) {
  return std::make_unique<Utf16Stream>(source, file);
}

}  // namespace mlx::data
