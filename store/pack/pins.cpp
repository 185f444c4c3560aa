// Pins are lines in the lock file of a writer, whose lock the kernel releases when the process ends, however it ends. A
// removal is announced in packs/condemned before the first pack is removed, so that it happens as a whole or not at
// all.
#include "store/pack/pins.h"

#include <sys/file.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/log.h"
#include "base/path.h"
#include "base/progress.h"

namespace mlx::store {

namespace {

constexpr std::string_view kPinsMagic = "mlx condemned 1\n";
constexpr std::size_t kHexLine = 65;  // 64 digits and a line feed

std::string pack_path(const std::string& folder, const Digest& pack) {
  return join_path(folder, pack.hex() + ".pack");
}
std::string condemned_path(const std::string& folder) {
  return join_path(folder, "condemned");
}

void lock(const Fd& fd, int how, const std::string& path) {
  while (::flock(fd.get(), how) != 0) {
    if (errno != EINTR) fail_errno(errno, path, "lock");
  }
}

// The packs of lines of 64 hex digits; kCorrupt for anything else.
PackSet parse_lines(std::string_view text, const std::string& path) {
  PackSet packs;
  if (text.size() % kHexLine != 0) fail(ErrorKind::kCorrupt, "{}: a line is cut short", path);
  for (; !text.empty(); text.remove_prefix(kHexLine)) {
    if (text[kHexLine - 1] != '\n') fail(ErrorKind::kCorrupt, "{}: a line is no pack", path);
    packs.insert(Digest::parse(text.substr(0, kHexLine - 1)));
  }
  return packs;
}

std::string lines_of(const std::vector<Digest>& packs) {
  std::string text;
  for (const Digest& pack : packs) text += pack.hex() + "\n";
  return text;
}

// "mlx condemned 1", the packs, and the digest of all that as the last line.
std::string encode_condemned(const std::vector<Digest>& packs) {
  std::string text = std::string(kPinsMagic) + lines_of(packs);
  return text + Digest::of(text).hex() + "\n";
}

PackSet decode_condemned(std::string_view text, const std::string& path) {
  if (!text.starts_with(kPinsMagic) || text.size() < kPinsMagic.size() + kHexLine) {
    fail(ErrorKind::kCorrupt, "{}: not a list of packs", path);
  }
  std::string_view covered = text.substr(0, text.size() - kHexLine);
  if (text.substr(covered.size()) != Digest::of(covered).hex() + "\n") fail(ErrorKind::kCorrupt, "{}: damaged", path);
  return parse_lines(covered.substr(kPinsMagic.size()), path);
}

void announce(const std::string& folder, const std::vector<Digest>& packs, Disk& disk) {
  TemporaryFiles temporaries(folder, disk);
  const std::string temporary = temporaries.next();
  const Fd fd = disk.create(temporary);
  disk.write(fd, as_bytes(encode_condemned(packs)), temporary);
  disk.sync(fd, temporary);
  disk.rename(temporary, condemned_path(folder));
  temporaries.published(temporary);
  disk.sync_folder(folder);
  temporaries.release();
}

// The announcement goes last.
void remove_announced(const std::string& folder, const PackSet& packs, Disk& disk) {
  for (const Digest& pack : packs) disk.remove(pack_path(folder, pack));
  disk.sync_folder(folder);
  disk.remove(condemned_path(folder));
  disk.sync_folder(folder);
}

}  // namespace

RemovalLock::RemovalLock(const std::string& folder, Disk& disk, How how) {
  std::string path = join_path(folder, "gc.lock");
  fd_ = disk.open_append(path);
  lock(fd_, how == How::kShared ? LOCK_SH : LOCK_EX, path);
  if (!path_exists(condemned_path(folder))) return;
  // Nobody is removing packs now, so the process that wrote it has died.
  lock(fd_, LOCK_EX, path);
  if (path_exists(condemned_path(folder))) remove_announced(folder, condemned_packs(folder), disk);
  if (how == How::kShared) lock(fd_, LOCK_SH, path);
}

Fd lock_removals(const std::string& folder, Disk& disk) {
  std::string path = join_path(folder, "gc.running");
  Fd fd = disk.open_append(path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno != EWOULDBLOCK) fail_errno(errno, path, "lock");
  throw Error(ErrorKind::kConflict, fmt::format("{}: another gc or repair is at work there", folder),
              "wait until it is done");
}

bool Pins::holds(const Digest& pack) const {
  std::shared_lock guard(mutex_);
  return held_.contains(pack);
}

void Pins::write(const std::vector<Digest>& packs) {
  file_.note(lines_of(packs));
  std::unique_lock guard(mutex_);
  held_.insert(packs.begin(), packs.end());
}

bool Pins::pin(const Digest& pack) {
  if (holds(pack)) return true;
  std::lock_guard guard(writing_);
  if (holds(pack)) return true;
  RemovalLock shared(folder_, disk_, RemovalLock::How::kShared);
  if (!path_exists(pack_path(folder_, pack))) return false;
  write({pack});
  return true;
}

void Pins::pin_new(const std::vector<Digest>& packs) {
  std::lock_guard guard(writing_);
  RemovalLock shared(folder_, disk_, RemovalLock::How::kShared);
  write(packs);
}

PinnedPacks read_pins(const std::string& folder) {
  PinnedPacks pinned;
  for (const std::string& note : notes_of_living_writers(folder)) {
    try {
      pinned.packs.merge(parse_lines(note, folder));
    } catch (const Error& error) {
      log("a pin cannot be read, nothing is removed: {}", error.message);
      pinned.everything = true;
    }
  }
  return pinned;
}

PackSet condemned_packs(const std::string& folder) {
  std::string path = condemned_path(folder);
  if (!path_exists(path)) return {};
  try {
    return decode_condemned(read_text(path), path);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound) log("list of packs to be removed is ignored: {}", error.message);
    return {};
  }
}

void remove_packs(const std::string& folder, const std::vector<Digest>& packs, Disk& disk) {
  if (packs.empty()) return;
  if (packs.size() == 1) {
    disk.remove(pack_path(folder, packs.front()));
    disk.sync_folder(folder);
    return;
  }
  announce(folder, packs, disk);
  remove_announced(folder, PackSet(packs.begin(), packs.end()), disk);
}

}  // namespace mlx::store
