// Sources over the store's readers, file descriptors and strings.
#include "data/readers/source.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/fd.h"
#include "data/readers/byte_stream.h"
#include "data/readers/utf16.h"
#include "store/pack/blob_chunks.h"

namespace mlx::data {
namespace {

class StoredSource final : public Source {
 public:
  StoredSource(const store::Store& store, const Digest& content)
      : store_(store), content_(content), reader_(store.open_blob(content)) {}
  std::size_t read_at(std::uint64_t offset, void* data, std::size_t count) const override {
    store_.interruption().check();
    return undamaged([&] { return reader_.read_at(offset, data, count); });
  }
  std::uint64_t size() const override { return reader_.size(); }
  std::optional<std::uint64_t> known_size() const override { return reader_.size(); }
  std::vector<Digest> chunks(std::uint64_t begin, std::uint64_t end) const override {
    return undamaged([&] {
      if (!chunks_) chunks_.emplace(store_, content_);
      return chunks_->covering(begin, end);
    });
  }

 private:
  template <typename Work>
  static auto undamaged(Work work) -> decltype(work()) {
    try {
      return work();
    } catch (const Error& error) {
      if (error.kind == ErrorKind::kCorrupt) throw SourceDamaged{error};
      throw;
    }
  }

  const store::Store& store_;
  Digest content_;
  store::BlobReader reader_;
  mutable std::optional<store::BlobChunks> chunks_;
};

class DiskSource final : public Source {
 public:
  DiskSource(std::string path, const Interruption& interruption)
      : path_(std::move(path)), fd_(open_file(path_, O_RDONLY)), interruption_(interruption) {}
  std::size_t read_at(std::uint64_t offset, void* data, std::size_t count) const override {
    interruption_.check();
    return mlx::read_at(fd_.get(), data, count, offset, path_);
  }
  std::optional<std::uint64_t> known_size() const override {
    struct stat status {};
    if (fstat(fd_.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
    return static_cast<std::uint64_t>(status.st_size);
  }
  bool reads_anywhere() const override { return true; }

 private:
  std::string path_;
  Fd fd_;
  const Interruption& interruption_;
};

class MemorySource final : public Source {
 public:
  explicit MemorySource(std::shared_ptr<const std::string> bytes) : bytes_(std::move(bytes)) {}
  std::size_t read_at(std::uint64_t offset, void* data, std::size_t count) const override {
    if (offset >= bytes_->size()) return 0;
    return bytes_->copy(static_cast<char*>(data), count, static_cast<std::size_t>(offset));
  }
  std::uint64_t size() const override { return bytes_->size(); }
  std::optional<std::uint64_t> known_size() const override { return bytes_->size(); }
  bool reads_anywhere() const override { return true; }

 private:
  std::shared_ptr<const std::string> bytes_;
};

// A stream as a source.
class StreamedSource final : public Source {
 public:
  using Open = std::function<std::unique_ptr<ByteStream>(const Source& source)>;
  StreamedSource(std::unique_ptr<Source> source, Open open) : source_(std::move(source)), open_(std::move(open)) {}

  std::size_t read_at(std::uint64_t offset, void* data, std::size_t count) const override {
    if (!stream_ || offset < at_) {
      stream_ = open_(*source_);
      at_ = 0;
    }
    char skipped[16384];
    while (at_ < offset) {
      const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(sizeof skipped, offset - at_));
      const std::size_t got = stream_->read(skipped, wanted);
      at_ += got;
      if (got < wanted) return 0;
    }
    const std::size_t got = stream_->read(data, count);
    at_ += got;
    return got;
  }

 private:
  std::unique_ptr<Source> source_;
  Open open_;
  mutable std::unique_ptr<ByteStream> stream_;
  mutable std::uint64_t at_ = 0;
};

}  // namespace

OpenSource stored_source(const store::Store& store, const Digest& content) {
  return [&store, content] { return std::make_unique<StoredSource>(store, content); };
}

OpenSource disk_source(const std::string& path, const Interruption& interruption) {
  return [path, &interruption] { return std::make_unique<DiskSource>(path, interruption); };
}

OpenSource memory_source(std::string bytes) {
  auto shared = std::make_shared<const std::string>(std::move(bytes));
  return [shared] { return std::make_unique<MemorySource>(shared); };
}

std::uint64_t Source::size() const {
  std::uint64_t low = 0, high = 1;  // bytes before `low` exist
  char byte = 0;
  while (read_at(high - 1, &byte, 1) == 1) low = high, high *= 2;
  while (low + 1 < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    (read_at(middle - 1, &byte, 1) == 1 ? low : high) = middle;
  }
  return low;
}

OpenSource inflated(OpenSource open, const std::string& name) {
  return [open = std::move(open), name]() -> std::unique_ptr<Source> {
    std::unique_ptr<Source> source = open();
    if (!is_compressed(read_head(*source, 4))) return source;
    return std::make_unique<StreamedSource>(std::move(source), [name](const Source& from) {
      return open_stream(
          [&from](std::uint64_t offset, void* data, std::size_t count) { return from.read_at(offset, data, count); },
          name);
    });
  };
}

std::unique_ptr<Source> deflated_source(std::unique_ptr<Source> source, const std::string& name) {
  return std::make_unique<StreamedSource>(std::move(source), [name](const Source& from) {
    return open_deflated(
        [&from](std::uint64_t offset, void* data, std::size_t count) { return from.read_at(offset, data, count); },
        name);
  });
}

OpenSource plain_text(OpenSource open, const std::string& name) {
  return [open = inflated(std::move(open), name), name]() -> std::unique_ptr<Source> {
    std::unique_ptr<Source> source = open();
    if (!is_utf16(read_head(*source, 2))) return source;
    return std::make_unique<StreamedSource>(std::move(source),
                                            [name](const Source& from) { return read_utf16(from, name); });
  };
}

Bytes read_head(const Source& source, std::size_t most) {
  Bytes head(std::min<std::size_t>(most, 4096));
  for (std::size_t done = 0;;) {
    const std::size_t got = source.read_at(done, head.data() + done, head.size() - done);
    done += got;
    if (done < head.size() || done == most) {
      head.resize(done);
      return head;
    }
    head.resize(std::min(most, 2 * done));
  }
}

}  // namespace mlx::data
