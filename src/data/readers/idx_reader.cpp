// Reads one IDX file at a time: the header, then exactly the elements that it promises, then the end.

#include "data/readers/idx_reader.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/readers/byte_stream.h"
#include "formats/idx.h"

namespace mlx::data {
namespace {

using formats::IdxHeader;
using formats::IdxType;

constexpr std::size_t kProgressPiece = 4 << 20;  // between two reports of progress
constexpr std::uint64_t kImagesPiece = 1 << 20;  // bytes of images that are taken at once, unless one is larger

struct IdxContent {
  IdxHeader header;
  Bytes elements;
};

IdxHeader read_header(ByteStream& stream, const std::string& file) {
  Bytes head(formats::kIdxMagicSize);
  head.resize(stream.read(head.data(), head.size()));
  if (head.empty()) fail(ErrorKind::kCorrupt, "{}: the file is empty, expected an IDX header", file);
  const std::size_t size = formats::idx_header_size(head, file);
  const std::size_t had = head.size();
  head.resize(size);
  head.resize(had + stream.read(head.data() + had, size - had));
  return formats::parse_idx_header(head, file);
}

// Reads until the promised size or the end of the stream. The buffer is at most four times the file's stored size, and
// beyond that at most twice what has been read.
Bytes read_elements(ByteStream& stream, std::uint64_t expected, std::uint64_t stored, Progress& progress) {
  Bytes out(static_cast<std::size_t>(std::min(expected, 4 * stored + kProgressPiece)));
  std::size_t done = 0;
  for (;;) {
    progress.check_interrupted();
    const std::size_t wanted = std::min(out.size() - done, kProgressPiece);
    const std::size_t got = stream.read(out.data() + done, wanted);
    done += got;
    progress.advance(got);
    if (got < wanted || done == expected) break;
    if (done == out.size())
      out.resize(static_cast<std::size_t>(std::min<std::uint64_t>(expected, 2 * std::uint64_t{done})));
  }
  out.resize(done);
  return out;
}

const char* inside(const ByteStream& stream) {
  return stream.compressed() ? " of the uncompressed data" : "";
}

[[noreturn]] void fail_cut_off(const ByteStream& stream, const IdxHeader& header, const std::string& file,
                               std::uint64_t found) {
  fail(ErrorKind::kCorrupt, "{}: cut off: the header promises {} bytes after offset {}{}, found {}", file,
       header.data_bytes, header.header_bytes, inside(stream), found);
}

void expect_end(ByteStream& stream, const IdxHeader& header, const std::string& file) {
  std::uint8_t more = 0;
  if (stream.read(&more, 1) == 0) return;  // also makes gzip check its sum
  fail(ErrorKind::kCorrupt, "{}: offset {}{}: expected the end of the file, found more data", file,
       header.header_bytes + header.data_bytes, inside(stream));
}

IdxContent read_content(const store::Store& store, const store::Entry& entry, Progress& progress) {
  const store::BlobReader blob = store.open_blob(entry.content);
  const std::unique_ptr<ByteStream> stream = open_stream(blob, entry.path);
  IdxContent content{read_header(*stream, entry.path), {}};
  content.elements = read_elements(*stream, content.header.data_bytes, blob.size(), progress);
  if (content.elements.size() < content.header.data_bytes)
    fail_cut_off(*stream, content.header, entry.path, content.elements.size());
  expect_end(*stream, content.header, entry.path);
  return content;
}

std::string dims_text(const std::vector<std::uint64_t>& dims) {
  std::string out;
  for (const std::uint64_t dim : dims) out += fmt::format("{}{}", out.empty() ? "" : "x", dim);
  return out;
}

IdxImages image_sizes(const IdxHeader& header, const std::string& file) {
  const std::size_t rank = header.dims.size();
  if (header.type != IdxType::kU8 || rank < 3 || rank > 4) {
    fail(ErrorKind::kCorrupt, "{}: offset 0: expected images (magic 00 00 08 03 or 00 00 08 04), found {} of {}", file,
         name_of(header.type), dims_text(header.dims));
  }
  if (header.data_bytes == 0) fail(ErrorKind::kCorrupt, "{}: it holds no images ({})", file, dims_text(header.dims));
  IdxImages images;
  images.count = static_cast<std::int64_t>(header.dims[0]);
  images.height = static_cast<std::int64_t>(header.dims[1]);
  images.width = static_cast<std::int64_t>(header.dims[2]);
  if (rank == 4) images.channels = static_cast<std::int64_t>(header.dims[3]);
  return images;
}

// `stored` bytes are known to exist. Nothing has the size of an image before one was read.
IdxImages scan_images(ByteStream& stream, const std::string& file, std::uint64_t stored, const TakeIdxImages& take,
                      Progress& progress) {
  const IdxHeader header = read_header(stream, file);
  const IdxImages sizes = image_sizes(header, file);
  const auto count = static_cast<std::uint64_t>(sizes.count), image = header.data_bytes / count;
  Bytes piece = read_elements(stream, image, stored, progress);
  if (piece.size() < image) fail_cut_off(stream, header, file, piece.size());
  take(sizes, piece.data(), 1);
  const std::uint64_t each = std::min(std::max<std::uint64_t>(1, kImagesPiece / image), count - 1);
  piece.resize(static_cast<std::size_t>(std::max<std::uint64_t>(1, each) * image));
  for (std::uint64_t done = 1; done < count;) {
    progress.check_interrupted();
    const std::uint64_t here = std::min(each, count - done);
    const std::size_t got = stream.read(piece.data(), static_cast<std::size_t>(here * image));
    if (got < here * image) fail_cut_off(stream, header, file, done * image + got);
    progress.advance(got);
    take(sizes, piece.data(), static_cast<std::int64_t>(here));
    done += here;
  }
  expect_end(stream, header, file);
  return sizes;
}

}  // namespace

IdxImages scan_idx_images(const store::Store& store, const store::Entry& file, const TakeIdxImages& take,
                          Progress& progress) {
  const store::BlobReader blob = store.open_blob(file.content);
  return scan_images(*open_stream(blob, file.path), file.path, blob.size(), take, progress);
}

IdxImages read_idx_images(ReadAt read_at, const std::string& file, Progress& progress) {
  Bytes pixels;
  const auto take = [&](const IdxImages& sizes, const std::uint8_t* images, std::int64_t count) {
    pixels.insert(pixels.end(), images, images + count * sizes.height * sizes.width * sizes.channels);
  };
  IdxImages images = scan_images(*open_stream(std::move(read_at), file), file, 0, take, progress);
  images.pixels = std::move(pixels);
  return images;
}

IdxImages read_idx_image_sizes(const store::Store& store, const store::Entry& file) {
  const store::BlobReader blob = store.open_blob(file.content);
  const std::unique_ptr<ByteStream> stream = open_stream(blob, file.path);
  return image_sizes(read_header(*stream, file.path), file.path);
}

std::vector<std::int32_t> read_idx_labels(const store::Store& store, const store::Entry& file) {
  NoProgress silent(store.interruption());
  const IdxContent content = read_content(store, file, silent);
  const IdxHeader& header = content.header;
  if (header.dims.size() != 1 || (header.type != IdxType::kU8 && header.type != IdxType::kS32)) {
    fail(ErrorKind::kCorrupt, "{}: offset 0: expected labels (magic 00 00 08 01 or 00 00 0c 01), found {} of {}",
         file.path, name_of(header.type), dims_text(header.dims));
  }
  if (header.data_bytes == 0) fail(ErrorKind::kCorrupt, "{}: it holds no labels", file.path);
  if (header.type == IdxType::kU8) return {content.elements.begin(), content.elements.end()};
  std::vector<std::int32_t> labels;
  labels.reserve(content.elements.size() / 4);
  for (std::size_t at = 0; at < content.elements.size(); at += 4) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 4; ++i) bits = bits << 8 | content.elements[at + i];
    const auto label = static_cast<std::int32_t>(bits);
    if (label < 0)
      fail(ErrorKind::kCorrupt, "{}: offset {}: expected a label of at least 0, found {}", file.path,
           header.header_bytes + at, label);
    labels.push_back(label);
  }
  return labels;
}

}  // namespace mlx::data
