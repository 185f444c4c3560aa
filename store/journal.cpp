// The journal's format and its two uses: append under an exclusive lock, and read in order. The bytes are described in
// mlx-format-journal(5).
//
// Invariant: a batch is synced before another is written, so whatever a crash leaves incomplete is the last batch.
#include "store/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/error.h"
#include "base/path.h"

namespace mlx::store {

namespace {

constexpr std::string_view kJournalMagic = "MLXJOURN";
constexpr std::string_view kBatchMagic = "MLXB";
constexpr std::uint32_t kJournalVersion = 1;
constexpr std::size_t kFileHeader = 16;
constexpr std::size_t kBatchHeader = 56;
constexpr std::size_t kBatchTrailer = 8;
constexpr std::uint64_t kMaxPayload = std::uint64_t{1} << 30;

Bytes file_header() {
  ByteWriter out;
  out.raw(as_bytes(kJournalMagic));
  out.u32(kJournalVersion);
  out.u32(0);
  return out.take();
}

// The first eight bytes of SHA-256(header without its check || offset).
Bytes header_check(ByteView header, std::uint64_t offset) {
  ByteWriter covered;
  covered.raw(header.first(kBatchHeader - 8));
  covered.u64(offset);
  Digest digest = Digest::of(covered.bytes());
  return Bytes(digest.bytes.begin(), digest.bytes.begin() + 8);
}

Bytes encode_batch(const std::vector<ByteView>& operations, std::uint64_t offset, const std::string& path) {
  ByteWriter payload;
  for (ByteView operation : operations) {
    if (operation.size() > kMaxPayload - 4 || payload.size() > kMaxPayload - 4 - operation.size()) {
      fail(ErrorKind::kUsage, "{}: operations of more than {} in one append", path, format_bytes(kMaxPayload));
    }
    payload.u32(static_cast<std::uint32_t>(operation.size()));
    payload.raw(operation);
  }
  ByteWriter out;
  out.raw(as_bytes(kBatchMagic));
  out.u32(static_cast<std::uint32_t>(operations.size()));
  out.u64(payload.size());
  out.raw(Digest::of(payload.bytes()).bytes);
  Bytes check = header_check(out.bytes(), offset);
  out.raw(check);
  out.raw(payload.bytes());
  out.u64(out.size() + kBatchTrailer);
  return out.take();
}

std::uint64_t file_size(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) fail_errno(errno, path, "stat");
  return static_cast<std::uint64_t>(status.st_size);
}

Bytes read_range(int fd, std::uint64_t offset, std::uint64_t count, const std::string& path) {
  Bytes bytes(count);
  bytes.resize(read_at(fd, bytes.data(), count, offset, path));
  return bytes;
}

// A journal's file at its size when it was opened; read in pieces, since it grows with the history.
struct JournalFile {
  int fd;
  std::uint64_t size;
  const std::string& path;
  // Short at the end.
  Bytes read(std::uint64_t offset, std::uint64_t count) const {
    return offset >= size ? Bytes() : read_range(fd, offset, std::min(count, size - offset), path);
  }
};

constexpr std::uint64_t kPiece = 1 << 20;

// The payload's length if the bytes begin with a batch header whose check matches; `offset` is its place in the file.
std::optional<std::uint64_t> valid_header(ByteView rest, std::uint64_t offset) {
  if (rest.size() < kBatchHeader || as_text(rest.first(4)) != kBatchMagic) return {};
  Bytes check = header_check(rest, offset);
  if (std::memcmp(check.data(), rest.data() + kBatchHeader - 8, 8) != 0) return {};
  ByteReader in(rest.subspan(8));
  std::uint64_t length = in.u64();
  if (length > kMaxPayload) return {};
  return length;
}

// The size of the valid batch at `offset`, or nullopt if there is none (torn or damaged).
std::optional<std::uint64_t> valid_batch(const JournalFile& file, std::uint64_t offset) {
  const Bytes header = file.read(offset, kBatchHeader);
  const auto length = valid_header(header, offset);
  if (!length || file.size - offset < kBatchHeader + *length + kBatchTrailer) return {};
  Sha256 hash;
  for (std::uint64_t done = 0; done < *length; done += kPiece)
    hash.update(file.read(offset + kBatchHeader + done, std::min(kPiece, *length - done)));
  if (hash.finish() != Digest::from(ByteView(header).subspan(16, 32))) return {};
  const std::uint64_t size = kBatchHeader + *length + kBatchTrailer;
  const Bytes trailer = file.read(offset + kBatchHeader + *length, kBatchTrailer);
  if (trailer.size() != kBatchTrailer || ByteReader(trailer).u64() != size) return {};
  return size;
}

// True for a whole file header; false for the torn beginning of one (then the file holds nothing).
bool check_file_header(ByteView file, const std::string& path) {
  Bytes expected = file_header();
  auto zero = [](ByteView bytes) {
    for (std::uint8_t b : bytes) {
      if (b != 0) return false;
    }
    return true;
  };
  if (file.size() < kFileHeader) {
    if (std::memcmp(file.data(), expected.data(), file.size()) == 0 || zero(file)) return false;
    fail(ErrorKind::kCorrupt, "{}: not a journal: its first bytes are wrong", path);
  }
  if (zero(file)) return false;
  if (as_text(file.first(8)) != kJournalMagic)
    fail(ErrorKind::kCorrupt, "{}: not a journal: its first bytes are wrong", path);
  ByteReader in(file.subspan(8, 8), "journal " + path);
  std::uint32_t version = in.u32();
  if (version != kJournalVersion) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}: journal of format version {}, this mlx knows {}", path, version, kJournalVersion),
                "if a newer mlx wrote it, upgrade this one");
  }
  if (in.u32() != 0) fail(ErrorKind::kCorrupt, "{}: offset 12: reserved bytes are not 0", path);
  return true;
}

// Throws kCorrupt if a valid batch header stands behind the invalid bytes at `offset`.
void require_torn_tail(const JournalFile& file, std::uint64_t offset) {
  for (std::uint64_t from = offset + 1; from < file.size; from += kPiece) {
    const Bytes piece =
        file.read(from, kPiece + kBatchHeader - 1);  // a header may begin in one piece and end in the next
    const std::string_view text = as_text(piece);
    for (std::size_t at = text.find(kBatchMagic); at != std::string_view::npos && at < kPiece;
         at = text.find(kBatchMagic, at + 1)) {
      if (!valid_header(ByteView(piece).subspan(at), from + at)) continue;
      throw Error(ErrorKind::kCorrupt,
                  fmt::format("{}: offset {}: damaged operations with whole ones behind them", file.path, offset),
                  "pull the operations from a remote, or restore the file from a backup");
    }
  }
}

// The length of the valid part: the end of the last valid batch; 0 without a file header.
std::uint64_t valid_length(const JournalFile& file) {
  if (file.size == 0) return 0;
  if (!check_file_header(file.read(0, kFileHeader), file.path)) {
    require_torn_tail(file, 0);
    return 0;
  }
  std::uint64_t offset = kFileHeader;
  while (offset < file.size) {
    const auto size = valid_batch(file, offset);
    if (!size) {
      require_torn_tail(file, offset);
      break;
    }
    offset += *size;
  }
  return offset;
}

// True if the file ends in a whole batch; reads only the end of the file.
bool ends_whole(const JournalFile& file) {
  if (file.size < kFileHeader + kBatchHeader + kBatchTrailer) return false;
  if (file.read(0, kFileHeader) != file_header()) return false;
  const Bytes trailer = file.read(file.size - kBatchTrailer, kBatchTrailer);
  if (trailer.size() != kBatchTrailer) return false;
  const std::uint64_t length = ByteReader(trailer).u64();
  if (length < kBatchHeader + kBatchTrailer || length > kMaxPayload + kBatchHeader + kBatchTrailer) return false;
  if (length > file.size - kFileHeader) return false;
  return valid_batch(file, file.size - length) == length;
}

// Released when the descriptor is closed.
void lock(int fd, int how, const std::string& path) {
  while (::flock(fd, how) != 0) {
    if (errno != EINTR) fail_errno(errno, path, "lock");
  }
}

}  // namespace

Digest Journal::append(ByteView operation) {
  append_all({Bytes(operation.begin(), operation.end())});
  return Digest::of(operation);
}

void Journal::append_all(const std::vector<Bytes>& operations) {
  append(operations.empty(), [&](const Append& append) { append(operations); });
}

void Journal::append_each(const std::function<void(const Take&)>& produce) {
  append(false, [&](const Append& append) {
    constexpr std::size_t kBatch = 1 << 20;
    std::vector<Bytes> batch;
    std::size_t size = 0;
    const auto flush = [&] {
      append(batch);
      batch.clear();
      size = 0;
    };
    produce([&](Bytes&& operation) {
      size += operation.size();
      batch.push_back(std::move(operation));
      if (size >= kBatch) flush();
    });
    flush();
  });
}

// A full disk must not leave half a batch. If cutting it off fails, the next writer does that.
void Journal::append(bool only_mend, const std::function<void(const Append&)>& produce) {
  if (only_mend && !path_exists(path_)) return;
  Fd fd = disk_.open_append(path_);
  lock(fd.get(), LOCK_EX, path_);
  const JournalFile found{fd.get(), file_size(fd.get(), path_), path_};
  std::uint64_t begin = found.size;
  if (!ends_whole(found)) {
    begin = valid_length(found);
    if (begin < found.size) disk_.truncate(path_, begin);
  }
  std::uint64_t end = begin;
  try {
    produce([&](const std::vector<Bytes>& operations) {
      if (operations.empty()) return;
      ByteWriter out;
      if (end == 0) out.raw(file_header());
      const std::vector<ByteView> views(operations.begin(), operations.end());
      out.raw(encode_batch(views, end + out.size(), path_));
      disk_.write(fd, out.bytes(), path_);
      disk_.sync(fd, path_);
      if (end == 0) disk_.sync_folder(parent_path(path_));
      end += out.size();
    });
  } catch (const Error&) {
    try {
      disk_.truncate(path_, begin);
    } catch (const Error&) {
    }
    throw;
  }
}

// What was valid under the lock never changes, so it is read without the lock.
std::uint64_t Journal::visit(const std::function<void(const Digest&, ByteView)>& visit) const {
  if (!path_exists(path_)) return 0;
  const Fd fd = open_file(path_, O_RDONLY);
  lock(fd.get(), LOCK_SH, path_);
  const JournalFile file{fd.get(), file_size(fd.get(), path_), path_};
  const std::uint64_t end = valid_length(file);
  lock(fd.get(), LOCK_UN, path_);
  for (std::uint64_t offset = kFileHeader; offset < end;) {
    const std::string what = fmt::format("journal {} at offset {}", path_, offset);
    const Bytes bytes = file.read(offset, kBatchHeader);
    ByteReader header(bytes, what);
    header.take(4);
    const std::uint32_t count = header.u32();
    const std::uint64_t payload_end = offset + kBatchHeader + header.u64();
    std::uint64_t at = offset + kBatchHeader;
    const auto take = [&](std::uint64_t size) {
      if (size > payload_end - at) fail(ErrorKind::kCorrupt, "{}: an operation is longer than its batch", what);
      Bytes taken = file.read(at, size);
      at += size;
      return taken;
    };
    for (std::uint32_t i = 0; i < count; ++i) {
      const Bytes operation = take(ByteReader(take(4), what).u32());
      visit(Digest::of(operation), operation);
    }
    if (at != payload_end) fail(ErrorKind::kCorrupt, "{}: {} bytes are left over", what, payload_end - at);
    offset = payload_end + kBatchTrailer;
  }
  return end;
}

}  // namespace mlx::store
