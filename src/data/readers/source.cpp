// Sources over the store's readers, file descriptors and strings.
#include "data/readers/source.h"

#include <fcntl.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/fd.h"
#include "data/readers/byte_stream.h"
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

 private:
  std::shared_ptr<const std::string> bytes_;
};

class InflatedSource final : public Source {
 public:
  InflatedSource(std::unique_ptr<Source> source, std::string name)
      : source_(std::move(source)), name_(std::move(name)) {}

  std::size_t read_at(std::uint64_t offset, void* data, std::size_t count) const override {
    if (!stream_ || offset < at_) restart();
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
  void restart() const {
    stream_ = open_stream(
        [this](std::uint64_t offset, void* data, std::size_t count) { return source_->read_at(offset, data, count); },
        name_);
    at_ = 0;
  }

  std::unique_ptr<Source> source_;
  std::string name_;
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

OpenSource inflated(OpenSource open, const std::string& name) {
  return [open = std::move(open), name]() -> std::unique_ptr<Source> {
    std::unique_ptr<Source> source = open();
    const Bytes magic = read_head(*source, 2);
    const bool gzip = magic.size() == 2 && magic[0] == 0x1F && magic[1] == 0x8B;
    if (!gzip) return source;
    return std::make_unique<InflatedSource>(std::move(source), name);
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
