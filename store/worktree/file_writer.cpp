// The reader verifies the file as a whole: either the file on disk is the one in the manifest, or this throws.
#include "store/worktree/file_writer.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"

namespace mlx::store {

namespace {

constexpr std::size_t kCopySize = std::size_t{1} << 20;
constexpr std::size_t kLongestLink = 4096;

[[noreturn]] void damaged(const Entry& entry, std::string_view why) {
  fail(ErrorKind::kCorrupt, "{}: content {} in the store is damaged: {}", entry.path, entry.content.brief(), why);
}

void write_link(const Store& store, const Entry& entry, const Beneath& folder, const std::string& path) {
  if (entry.size == 0 || entry.size > kLongestLink) damaged(entry, "not the target of a link");
  const std::string link(as_text(store.read_blob(entry.content)));
  if (link.find('\0') != std::string::npos) damaged(entry, "not the target of a link");
  folder.symlink(link, path);
}

}  // namespace

void write_entry(const Store& store, Disk& disk, const Entry& entry, const Beneath& folder, const std::string& path,
                 Progress& progress) {
  const BlobReader reader = store.open_blob(entry.content);
  if (reader.size() != entry.size) damaged(entry, "its size differs from the manifest");
  if (entry.mode == kModeLink) {
    write_link(store, entry, folder, path);
    return;
  }
  disk.step(folder.full(path));
  const Fd fd = folder.open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND);
  Bytes buffer(static_cast<std::size_t>(std::min<std::uint64_t>(kCopySize, reader.size())));
  for (std::uint64_t offset = 0; offset < reader.size();) {
    progress.check_interrupted();
    const std::size_t count = reader.read_at(offset, buffer.data(), buffer.size());
    const ByteView part = ByteView(buffer).first(count);
    disk.write(fd, part, folder.full(path));
    offset += count;
    progress.advance(count);
  }
  if (entry.mode == kModeExecutable && ::fchmod(fd.get(), 0755) != 0)
    fail_errno(errno, folder.full(path), "make executable");
}

}  // namespace mlx::store
