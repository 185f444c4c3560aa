// A remote in a folder (mlx-format-remote(5)): a store of its own, and the heads file with compare-and-set under a
// lock.
#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "store/remote.h"
#include "store/transfer.h"

namespace mlx::store {

namespace {

constexpr std::string_view kHeadsMagic = "mlx heads 1";

std::string encode_heads(std::vector<Digest> heads) {
  std::sort(heads.begin(), heads.end());
  heads.erase(std::unique(heads.begin(), heads.end()), heads.end());
  std::string text = std::string(kHeadsMagic) + "\n";
  for (const Digest& head : heads) text += head.text() + "\n";
  return text;
}

std::vector<Digest> decode_heads(std::string_view text, const std::string& path) {
  std::vector<Digest> heads;
  int number = 0;
  while (!text.empty()) {
    ++number;
    std::size_t end = text.find('\n');
    if (end == std::string_view::npos) fail(ErrorKind::kCorrupt, "{}:{}: line is cut short", path, number);
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (number == 1) {
      if (line != kHeadsMagic) fail(ErrorKind::kCorrupt, "{}:1: not a file of heads that this mlx knows", path);
      continue;
    }
    if (!line.starts_with("sha256:")) fail(ErrorKind::kCorrupt, "{}:{}: not the id of an operation", path, number);
    Digest head = Digest::parse(line);
    if (!heads.empty() && !(heads.back() < head))
      fail(ErrorKind::kCorrupt, "{}:{}: heads are not sorted", path, number);
    heads.push_back(head);
  }
  if (number == 0) fail(ErrorKind::kCorrupt, "{}: empty", path);
  return heads;
}

class FolderRemote final : public Remote {
 public:
  FolderRemote(std::string folder, Disk& disk, Pool& pool)
      : folder_(std::move(folder)), disk_(disk), store_(folder_, disk, pool) {}

  std::vector<Digest> heads() override {
    std::string path = heads_path();
    if (!path_exists(path)) return {};
    return decode_heads(read_text(path), path);
  }

  std::vector<Digest> operations() override {
    store_.reload();
    return store_.operations();
  }

  std::vector<ObjectRef> missing(const std::vector<ObjectRef>& objects) override {
    store_.reload();
    return lacking(store_, objects);
  }

  void send(const Store& from, const std::vector<ObjectRef>& objects, Progress& progress) override {
    store_.reload();
    transfer(from, store_, objects, progress);
  }

  void receive(Store& to, const std::vector<ObjectRef>& objects, Progress& progress) override {
    store_.reload();
    transfer(store_, to, objects, progress);
  }

  bool publish_heads(const std::vector<Digest>& expected, const std::vector<Digest>& heads) override {
    std::string lock_path = heads_path() + ".lock";
    Fd lock = disk_.open_append(lock_path);
    while (::flock(lock.get(), LOCK_EX) != 0) {
      if (errno != EINTR) fail_errno(errno, lock_path, "lock");
    }
    if (encode_heads(this->heads()) != encode_heads(expected)) return false;
    std::string temporary = heads_path() + ".tmp";
    disk_.remove(temporary);  // left by a process that died while it held the lock
    try {
      Fd fd = disk_.create(temporary);
      disk_.write(fd, as_bytes(encode_heads(heads)), temporary);
      disk_.sync(fd, temporary);
      disk_.rename(temporary, heads_path());
      disk_.sync_folder(folder_);
    } catch (const Error&) {
      try {
        disk_.remove(temporary);
      } catch (const Error&) {
      }
      throw;
    }
    return true;
  }

 private:
  std::string heads_path() const { return join_path(folder_, "heads"); }
  std::string folder_;
  Disk& disk_;
  Store store_;
};

// The folder that a URL names; kUsage for other schemes.
std::string folder_of(const std::string& url) {
  if (url.starts_with("file://")) {
    std::string path = url.substr(7);
    if (path.starts_with("localhost/")) path = path.substr(9);
    if (path.starts_with("/")) return path;
    throw Error(ErrorKind::kUsage, fmt::format("{}: a file URL needs an absolute path", url), "write file:///PATH");
  }
  std::size_t scheme = url.find("://");
  if (scheme != std::string::npos) {
    throw Error(ErrorKind::kUsage, fmt::format("{}: unknown kind of remote '{}'", url, url.substr(0, scheme)),
                "a remote is a folder's path or file:///PATH");
  }
  if (url.empty()) fail(ErrorKind::kUsage, "a remote needs a path or a URL");
  return url;
}

}  // namespace

std::unique_ptr<Remote> open_remote(const std::string& url, bool create, Disk& disk, Pool& pool) {
  std::string folder = folder_of(url);
  if (create) Store::create(folder, disk);
  if (!path_exists(folder)) {
    throw Error(ErrorKind::kNotFound, fmt::format("{}: there is no such remote folder", folder),
                "'mlx push' makes it; is its disk mounted?");
  }
  try {
    return std::make_unique<FolderRemote>(folder, disk, pool);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound) throw;
    throw Error(ErrorKind::kNotFound, fmt::format("{}: the folder holds no mlx remote", folder),
                "'mlx push' makes one");
  }
}

}  // namespace mlx::store
