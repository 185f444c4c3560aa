// Entries are gathered into writes of a megabyte; records wait in memory (64 bytes an object) until the pack is sealed.
#include "store/pack/pack_writer.h"

#include <fcntl.h>

#include <utility>

#include "base/error.h"
#include "store/format/codec.h"
#include "store/pack/index.h"

namespace mlx::store {

namespace {
constexpr std::size_t kBufferSize = std::size_t{1} << 20;
constexpr std::size_t kMostWaiting = 8;  // buffers, for a writer behind
}  // namespace

PackWriter::PackWriter(std::string path, Disk& disk, Background* behind)
    : path_(std::move(path)), disk_(disk), behind_(behind), fd_(disk.create(path_)) {
  buffer_ = pack_header();
  size_ = buffer_.size();
}

void PackWriter::append(const StoredObject& object) {
  Bytes header = entry_header(object);
  buffer_.insert(buffer_.end(), header.begin(), header.end());
  buffer_.insert(buffer_.end(), object.extra.begin(), object.extra.end());
  buffer_.insert(buffer_.end(), object.stored.begin(), object.stored.end());
  PackRecord record;
  record.key = object.key;
  record.offset = size_ + header.size() + object.extra.size();
  record.checksum = object.checksum;
  record.stored_size = static_cast<std::uint32_t>(object.stored.size());
  record.plain_size = object.plain_size;
  record.encoding = object.encoding;
  record.extra_size = static_cast<std::uint16_t>(object.extra.size());
  record.key_id = object.key_id;
  records_.push_back(record);
  size_ = record.offset + record.stored_size;
  if (buffer_.size() >= kBufferSize) flush();
}

void PackWriter::flush() {
  if (!behind_) {
    disk_.write(fd_, buffer_, path_);
    buffer_.clear();
    return;
  }
  behind_->check();  // stops at the first error, such as a full disk
  auto bytes = std::make_shared<const Bytes>(std::move(buffer_));
  behind_->post([this, bytes] { disk_.write(fd_, *bytes, path_); }, kMostWaiting);
  buffer_ = Bytes();
  buffer_.reserve(kBufferSize + kBufferSize / 8);
}

Digest PackWriter::seal() {
  behind_ = nullptr;
  Digest id;
  Bytes index = encode_pack_index(records_, size_, &id);
  buffer_.insert(buffer_.end(), index.begin(), index.end());
  flush();
  disk_.sync(fd_, path_);
  fd_ = Fd();
  buffer_ = Bytes();
  records_ = {};
  return id;
}

void verify_pack(const std::string& path, const Digest& id) {
  PackIndex index(path, id);
  index.verify(path);
  Fd fd = open_file(path, O_RDONLY);
  Bytes stored;
  for (std::uint64_t i = 0; i < index.table().size(); ++i) {
    PackRecord record = index.table().at(i);
    stored.resize(record.stored_size);
    if (read_at(fd.get(), stored.data(), stored.size(), record.offset, path) != stored.size()) {
      fail(ErrorKind::kIo, "{}: offset {}: cannot read back what was written", path, record.offset);
    }
    check_stored(record, stored, path);
  }
}

}  // namespace mlx::store
