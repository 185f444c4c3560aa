// A remote in a folder (mlx-format-remote(5)): a store of its own, and the heads file with compare-and-set under a
// lock.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <unordered_set>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "store/limits.h"
#include "store/maintenance/repair.h"
#include "store/pack/layout.h"
#include "store/pack/store_state.h"
#include "store/remote/folder_remote.h"
#include "store/remote/transfer.h"
#include "store/small_file.h"

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
    if (heads.size() == kMaxHeads) fail(ErrorKind::kCorrupt, "{}:{}: more than {} heads", path, number, kMaxHeads);
    heads.push_back(head);
  }
  if (number == 0) fail(ErrorKind::kCorrupt, "{}: empty", path);
  return heads;
}

// Others who can write to the remote may put a link where a push will write.
void require_no_links(const std::string& folder) {
  for (const FolderEntry& entry : list_entries(folder)) {
    const std::string path = join_path(folder, entry.name);
    struct stat found {};
    if (entry.is_real_folder || ::lstat(path.c_str(), &found) != 0 || !S_ISLNK(found.st_mode)) continue;
    throw Error(ErrorKind::kConflict, fmt::format("{} is a symbolic link, and a remote must not contain any", path),
                "see who put it there; a folder may be mounted in its place");
  }
}

class FolderRemote final : public Remote {
 public:
  FolderRemote(std::string folder, const RemoteOptions& options, std::vector<std::string> mended, Disk& disk,
               Pool& pool)
      : folder_(std::move(folder)),
        disk_(disk),
        store_(folder_, disk, pool, {.interruption = options.interruption}),
        check_heads_(options.check_heads),
        mended_(std::move(mended)) {
    if (!options.create) return;
    store_.keep_found();  // objects that missing() does not list stay until the heads are published
    begin_heads();
  }

  // The first push writes the heads: a remote with operations and no heads has lost them.
  std::vector<Digest> heads() override {
    const SmallFile file = read_small_file(heads_path());
    if (file.readable()) return decode_heads(as_text(file.content), heads_path());
    if (file.state == SmallFile::State::kAbsent && operations().empty()) return {};
    throw lost(heads_path(), file);
  }

  std::vector<Digest> operations() override {
    store_.reload();
    return store_.operations();
  }

  std::vector<ObjectKey> missing(const std::vector<ObjectKey>& keys) override {
    store_.reload();
    return lacking(store_, keys);
  }

  void send(const std::vector<ObjectKey>& keys, const ReadStored& read, Progress& progress) override {
    store_.reload();
    add_stored_objects(store_, lacking(store_, keys), read, progress);
  }

  void receive(const std::vector<ObjectKey>& keys, const TakeStored& take, Progress& progress) override {
    store_.reload();
    const StoreState& store = StoreAccess::state(store_);
    store.pool.run(static_cast<std::int64_t>(keys.size()), [&](std::int64_t i) {
      progress.check_interrupted();
      StoredObject object = store.read_stored(keys[static_cast<std::size_t>(i)]);
      std::size_t size = object.stored.size();
      take(std::move(object));
      progress.advance(size);
    });
  }

  bool publish_heads(const std::vector<Digest>& expected, const std::vector<Digest>& heads) override {
    if (encode_heads(heads_or_none()) != encode_heads(expected)) return false;
    if (check_heads_) {
      store_.reload();
      check_heads_(store_, expected, heads);
    }
    Fd lock = take_lock();
    if (encode_heads(heads_or_none()) != encode_heads(expected)) return false;
    write(heads_path(), as_bytes(encode_heads(heads)));
    return true;
  }

  std::optional<Bytes> read_file(const std::string& name) override {
    SmallFile file = read_small_file(file_path(name));
    if (file.readable()) return std::move(file.content);
    if (file.state == SmallFile::State::kAbsent) return {};
    throw lost(file_path(name), file);
  }

  bool write_file(const std::string& name, const std::optional<Bytes>& expected, ByteView bytes) override {
    Fd lock = take_lock();
    const SmallFile file = read_small_file(file_path(name));
    if (file.readable() != expected.has_value() || (expected && file.content != *expected)) return false;
    write(file_path(name), bytes);
    return true;
  }

  Store& store() { return store_; }

  std::vector<std::string> damage() override { return StoreAccess::state(store_).index()->broken(); }

  bool repair(RepairReport& report, Progress& progress) override {
    report = set_damage_aside(store_, store_.fsck(progress), progress);
    mend_copies();
    return true;
  }

  bool drop(const std::vector<ObjectKey>& keys, RepairReport& report, Progress& progress) override {
    const std::unordered_set<ObjectKey, ObjectKeyHash> dropped(keys.begin(), keys.end());
    FsckReport found;
    store_.reload();
    const std::shared_ptr<const Index> index = StoreAccess::state(store_).index();
    index->visit([&](const Location& location) {
      if (!dropped.contains(location.record.key)) return;
      const Digest pack = index->pack_id(location.pack);
      found.damaged_objects.push_back({pack, location.record.key.kind, location.record.key.id});
      if (std::ranges::find(found.damaged_packs, pack) == found.damaged_packs.end())
        found.damaged_packs.push_back(pack);
    });
    RepairReport done = set_damage_aside(store_, found, progress);
    report.saved_objects += done.saved_objects;
    report.set_aside.insert(report.set_aside.end(), done.set_aside.begin(), done.set_aside.end());
    return true;
  }

  std::vector<std::string> mended() override { return mended_; }

 private:
  std::string heads_path() const { return join_path(folder_, "heads"); }

  std::string file_path(const std::string& name) const {
    CHECK(!name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos);
    return join_path(folder_, "file-" + name);
  }

  // Held while the heads or a file are compared and replaced.
  Fd take_lock() {
    require_no_links(folder_);
    std::string path = heads_path() + ".lock";
    Fd lock = disk_.open_append(path);
    while (::flock(lock.get(), LOCK_EX) != 0) {
      if (errno != EINTR) fail_errno(errno, path, "lock");
    }
    return lock;
  }

  void begin_heads() {
    if (read_small_file(heads_path()).state != SmallFile::State::kAbsent) return;
    Fd lock = take_lock();
    if (read_small_file(heads_path()).state == SmallFile::State::kAbsent && operations().empty())
      write(heads_path(), as_bytes(encode_heads({})));
  }

  // With the lock held.
  void write(const std::string& path, ByteView content) {
    write_small_file(disk_, path, content, {.temporary = path + ".tmp"});
  }

  std::vector<Digest> heads_or_none() {
    try {
      return heads();
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kCorrupt) throw;
      return {};
    }
  }

  // One copy of each small file mends the other.
  void mend_copies() {
    Fd lock = take_lock();
    for (const std::string& name : list_folder(folder_)) {
      const std::string first = name.ends_with(".copy") ? name.substr(0, name.size() - 5) : name;
      if (first != "heads" && !first.starts_with("file-")) continue;
      const SmallFile file = read_small_file(join_path(folder_, first));
      if (file.state != SmallFile::State::kHalf) continue;
      write(join_path(folder_, first), file.content);
      mended_.push_back(first);
    }
  }

  static Error lost(const std::string& path, const SmallFile& file) {
    return Error(ErrorKind::kCorrupt,
                 fmt::format("{}: {}", path,
                             file.state == SmallFile::State::kAbsent ? "is gone, and so is its copy" : "is damaged"),
                 "`mlx push --repair` from a clone writes it again");
  }

  std::string folder_;
  Disk& disk_;
  Store store_;
  CheckHeads check_heads_;
  std::vector<std::string> mended_;
};

// The folder that a URL names.
std::string folder_of(const std::string& url) {
  if (!url.starts_with("file://")) return url;
  std::string path = url.substr(7);
  if (path.starts_with("localhost/")) path = path.substr(9);
  if (path.starts_with("/")) return path;
  throw Error(ErrorKind::kUsage, fmt::format("{}: a file URL needs an absolute path", url), "write file:///PATH");
}

}  // namespace

std::unique_ptr<Remote> open_folder_remote(const std::string& url, const RemoteOptions& options, Disk& disk,
                                           Pool& pool) {
  std::string folder = folder_of(url);
  if (is_folder(folder)) require_no_links(folder);
  std::vector<std::string> mended;
  if (options.create) {
    if (layout_is_damaged(folder)) mended.emplace_back("packs/FORMAT");
    Store::create(folder, disk);
  }
  if (!path_exists(folder)) {
    throw Error(ErrorKind::kNotFound, fmt::format("{}: there is no such remote folder", folder),
                "`mlx push` makes it; is its disk mounted?");
  }
  try {
    return std::make_unique<FolderRemote>(folder, options, std::move(mended), disk, pool);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound) throw;
    throw Error(ErrorKind::kNotFound, fmt::format("{}: the folder holds no mlx remote", folder),
                "`mlx push` makes one");
  }
}

Store* local_store(Remote& remote) {
  auto* const folder = dynamic_cast<FolderRemote*>(&remote);
  return folder ? &folder->store() : nullptr;
}

}  // namespace mlx::store
