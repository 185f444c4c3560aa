// Loading an Index and looking objects up in it.
#include "store/pack/index.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/path.h"
#include "store/format/codec.h"
#include "store/temporary.h"

namespace mlx::store {

namespace {

// Merging rewrites all records: worth it for 8 packs at least, and for a quarter of what is merged already.
constexpr std::size_t kMergeAtLeast = 8;
constexpr std::string_view kPackSuffix = ".pack";
constexpr int kLoadAttempts = 20;
constexpr std::size_t kOpenFiles = 64;  // packs kept open for reading
// A pack's index of up to this size is copied. Mapping it would also map the pages around it, and with thousands of
// small packs those would be most of the memory.
constexpr std::uint64_t kTail = std::uint64_t{16} << 10;

std::optional<Digest> pack_of_name(const std::string& name) {
  if (name.size() != 64 + kPackSuffix.size() || !name.ends_with(kPackSuffix)) return {};
  try {
    return Digest::parse(name.substr(0, 64));
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

PackIndex::PackIndex(const std::string& path, const Digest& id) {
  const Fd file = open_regular_file(path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_errno(errno, path, "stat");
  file_size_ = static_cast<std::uint64_t>(status.st_size);
  if (file_size_ < kPackHeaderSize + kFanoutSize + kFooterSize) {
    fail(ErrorKind::kCorrupt, "{}: cut short: a pack has at least {} bytes", path,
         kPackHeaderSize + kFanoutSize + kFooterSize);
  }
  const auto read = [&](std::uint64_t offset, std::uint64_t count) {
    Bytes bytes(count);
    bytes.resize(read_at(file.get(), bytes.data(), count, offset, path));
    if (bytes.size() != count) fail(ErrorKind::kCorrupt, "{}: was cut short while it was read", path);
    return bytes;
  };
  check_pack_header(read(0, kPackHeaderSize), path);
  const std::uint64_t tail = std::min(file_size_, kTail);
  copied_ = read(file_size_ - tail, tail);
  footer_ = decode_footer(ByteView(copied_).last(kFooterSize), file_size_, path);
  if (footer_.index_digest != id) fail(ErrorKind::kCorrupt, "{}: its footer names another pack", path);
  const std::uint64_t size = file_size_ - kFooterSize - footer_.index_offset;
  if (size + kFooterSize <= tail) {
    copied_.erase(copied_.begin(), copied_.begin() + static_cast<std::ptrdiff_t>(tail - kFooterSize - size));
    copied_.resize(size);
    copied_.shrink_to_fit();
    index_ = copied_;
  } else {
    copied_ = {};
    mapped_ = MappedFile(path);
    if (mapped_.bytes().size() != file_size_) fail(ErrorKind::kCorrupt, "{}: changed while it was read", path);
    index_ = mapped_.bytes().subspan(footer_.index_offset, size);
  }
  table_ = RecordTable(index_, footer_.records, path);
}

void PackIndex::verify(const std::string& path) const {
  if (Digest::of(index_) != footer_.index_digest) {
    fail(ErrorKind::kCorrupt, "{}: offset {}: its index is damaged (digest differs)", path, footer_.index_offset);
  }
}

std::shared_ptr<const Index> Index::load(const std::string& folder, const Index* previous, const PackSet& without) {
  for (int attempt = 1;; ++attempt) {
    try {
      return load_once(folder, previous, without);
    } catch (const Error& error) {
      // A pack was removed between being listed and being opened.
      if (error.kind != ErrorKind::kNotFound || attempt == kLoadAttempts) throw;
    }
  }
}

std::shared_ptr<const Index> Index::load_once(const std::string& folder, const Index* previous,
                                              const PackSet& without) {
  auto index = std::make_shared<Index>();
  index->folder_ = folder;
  const std::vector<std::string> names = list_folder(folder);
  PackSet gone;
  if (std::ranges::binary_search(names, "condemned")) gone = condemned_packs(folder);
  for (const std::string& name : names) {
    if (auto id = pack_of_name(name)) {
      if (!gone.contains(*id) && !without.contains(*id)) index->packs_.push_back(*id);
    } else if (is_temporary(name))
      index->temporaries_.push_back(name);
  }
  std::sort(index->packs_.begin(), index->packs_.end());
  auto number_of = [&](const Digest& id) -> std::optional<std::uint32_t> {
    auto at = std::lower_bound(index->packs_.begin(), index->packs_.end(), id);
    if (at == index->packs_.end() || *at != id) return {};
    return static_cast<std::uint32_t>(at - index->packs_.begin());
  };

  std::vector<bool> covered(index->packs_.size());
  if (auto multi = open_multi_index(join_path(folder, "multi.idx"))) {
    bool usable = true;
    for (const Digest& id : multi->ids) {
      auto number = number_of(id);
      usable = usable && number;
      if (usable) index->multi_to_pack_.push_back(*number);
    }
    if (usable) {
      for (std::uint32_t number : index->multi_to_pack_) covered[number] = true;
      index->multi_ = std::move(multi);
    } else {
      index->multi_to_pack_.clear();
    }
  }

  std::unordered_map<Digest, std::shared_ptr<const PackIndex>, DigestHash> mapped;
  if (previous) {
    for (const Single& single : previous->singles_) mapped[previous->packs_[single.pack]] = single.index;
  }
  for (std::uint32_t pack = 0; pack < index->packs_.size(); ++pack) {
    if (covered[pack]) continue;
    const Digest& id = index->packs_[pack];
    auto& entry = mapped[id];
    try {
      if (!entry) entry = std::make_shared<const PackIndex>(index->pack_path(pack), id);
      index->singles_.push_back({entry, pack});
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kCorrupt) throw;
      index->broken_.push_back(error.message);
    }
  }
  return index;
}

std::uint32_t Index::multi_pack(std::uint64_t record) const {
  const std::uint32_t number = multi_->pack_number(record);
  if (number >= multi_to_pack_.size()) {
    throw Error(
        ErrorKind::kCorrupt,
        fmt::format("{}: record {} names a pack that is not in its table", join_path(folder_, "multi.idx"), record),
        "delete this file: it is made anew");
  }
  return multi_to_pack_[number];
}

bool Index::wants_merge() const {
  return broken_.empty() && singles_.size() >= std::max(kMergeAtLeast, multi_to_pack_.size() / 4);
}

void Index::write_multi(const std::string& temporary, Disk& disk) const {
  std::vector<Location> all;
  all.reserve(records());
  visit([&](const Location& location) { all.push_back(location); });
  const Bytes bytes = encode_multi_index(packs_, std::move(all));
  Fd fd = disk.create(temporary);
  disk.write(fd, bytes, temporary);
  disk.sync(fd, temporary);
  disk.rename(temporary, join_path(folder_, "multi.idx"));
}

std::string Index::pack_path(std::size_t pack) const {
  return join_path(folder_, packs_[pack].hex() + std::string(kPackSuffix));
}

std::optional<Location> Index::find(const ObjectKey& key) const {
  if (multi_) {
    std::uint64_t at = multi_->table.find(key);
    if (at < multi_->table.size()) return Location{multi_->table.at(at), multi_pack(at)};
  }
  for (const Single& single : singles_) {
    const RecordTable& table = single.index->table();
    std::uint64_t at = table.find(key);
    if (at < table.size()) return Location{table.at(at), single.pack};
  }
  return {};
}

void Index::visit(const std::function<void(const Location&)>& visit) const {
  if (multi_) {
    for (std::uint64_t i = 0; i < multi_->table.size(); ++i) visit({multi_->table.at(i), multi_pack(i)});
  }
  for (const Single& single : singles_) {
    const RecordTable& table = single.index->table();
    for (std::uint64_t i = 0; i < table.size(); ++i) visit({table.at(i), single.pack});
  }
}

std::uint64_t Index::records() const {
  std::uint64_t count = multi_ ? multi_->table.size() : 0;
  for (const Single& single : singles_) count += single.index->table().size();
  return count;
}

std::shared_ptr<const Fd> Index::pack_fd(std::uint32_t pack) const {
  std::lock_guard lock(fds_mutex_);
  auto& fd = fds_[pack];
  if (!fd) {
    auto opened = std::make_shared<const Fd>(open_regular_file(pack_path(pack)));
    if (fds_.size() > kOpenFiles) {
      fds_.clear();
      fds_[pack] = opened;
      return opened;
    }
    fd = opened;
  }
  return fd;
}

void Index::read_part(const Location& location, std::uint64_t offset, Bytes& part) const {
  std::string path = pack_path(location.pack);
  std::shared_ptr<const Fd> fd = pack_fd(location.pack);
  if (offset > std::uint64_t{1} << 62 || read_at(fd->get(), part.data(), part.size(), offset, path) != part.size()) {
    fail(ErrorKind::kCorrupt, "{}: offset {}: object {} reaches beyond the end of its pack", path, offset,
         location.record.key.id.brief());
  }
}

void Index::read_stored(const Location& location, Bytes& stored) const {
  stored.resize(location.record.stored_size);
  read_part(location, location.record.offset, stored);
}

void Index::read_extra(const Location& location, Bytes& extra) const {
  extra.resize(location.record.extra_size);
  if (!extra.empty()) read_part(location, location.record.offset - extra.size(), extra);
}

StoredObject Index::read_object(const Location& location) const {
  const PackRecord& record = location.record;
  StoredObject object{record.key, record.encoding, record.key_id, record.plain_size, record.checksum, {}, {}};
  read_stored(location, object.stored);
  read_extra(location, object.extra);
  check_stored(record, object.stored, pack_path(location.pack));
  return object;
}

}  // namespace mlx::store
