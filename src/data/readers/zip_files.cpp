// Slices of a zip file.
#include "data/readers/zip_files.h"

#include <algorithm>

#include "base/error.h"
#include "formats/zip.h"

namespace mlx::data {
namespace {

constexpr std::uint64_t kLargestDirectory = 16 << 20;

class SliceSource final : public Source {
 public:
  SliceSource(std::shared_ptr<const Source> whole, std::uint64_t begin, std::uint64_t size)
      : whole_(std::move(whole)), begin_(begin), size_(size) {}
  std::size_t read_at(std::uint64_t offset, void* data, std::size_t count) const override {
    if (offset >= size_) return 0;
    return whole_->read_at(begin_ + offset, data,
                           static_cast<std::size_t>(std::min<std::uint64_t>(count, size_ - offset)));
  }
  std::uint64_t size() const override { return size_; }

 private:
  std::shared_ptr<const Source> whole_;
  std::uint64_t begin_, size_;
};

Bytes read_part(const Source& source, std::uint64_t begin, std::uint64_t size) {
  Bytes bytes(static_cast<std::size_t>(size));
  bytes.resize(source.read_at(begin, bytes.data(), bytes.size()));
  return bytes;
}

std::unique_ptr<Source> open_entry(const std::shared_ptr<const Source>& zip, const formats::ZipEntry& entry) {
  const Bytes header = read_part(*zip, entry.header, formats::kZipLocalHeader);
  const std::uint64_t begin = entry.header + formats::kZipLocalHeader + formats::zip_header_rest(header);
  auto slice = std::make_unique<SliceSource>(zip, begin, entry.stored_size);
  if (entry.method == formats::ZipMethod::kStored) return slice;
  return deflated_source(std::move(slice), entry.name);
}

}  // namespace

std::vector<ZipFile> zip_files(std::unique_ptr<Source> source) {
  const std::shared_ptr<const Source> zip = std::move(source);
  const std::uint64_t size = zip->size(), tail = std::min<std::uint64_t>(size, formats::kZipTail);
  const formats::ZipDirectory directory = formats::find_zip_directory(read_part(*zip, size - tail, tail), size);
  if (directory.size > kLargestDirectory) fail(ErrorKind::kCorrupt, "zip: a directory of more than 16 MiB");
  std::vector<ZipFile> files;
  for (formats::ZipEntry& entry :
       formats::parse_zip_directory(read_part(*zip, directory.begin, directory.size), size)) {
    if (entry.encrypted ||
        (entry.method != formats::ZipMethod::kStored && entry.method != formats::ZipMethod::kDeflated))
      throw Error(ErrorKind::kUsage,
                  fmt::format("zip: '{}' is {}", entry.name,
                              entry.encrypted ? "encrypted" : "compressed by another method than deflate"),
                  "numpy.savez() and numpy.savez_compressed() write files that are read");
    const std::string name = entry.name;
    files.push_back({name, [zip, entry = std::move(entry)] { return open_entry(zip, entry); }});
  }
  return files;
}

}  // namespace mlx::data
