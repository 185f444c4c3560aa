// No chunk list is trusted: a list has its file's id, so every receiver verifies the file.
#include <algorithm>

#include "lying_lists.h"
#include "store/limits.h"
#include "store/maintenance/repair.h"
#include "store/remote/transfer.h"

using namespace mlx;
using namespace mlx::store;

namespace {

struct ListsRemote {
  TempFolder temp;
  std::unique_ptr<Disk> disk = unsynced_disk();
  Pool pool{2};
  std::string path = temp.path() + "/remote";

  std::unique_ptr<Remote> open() {
    RemoteOptions options;
    options.create = true;
    return open_remote(path, options, *disk, pool);
  }
};

std::vector<FileRef> files(const Digest& id, std::optional<std::uint64_t> size = {}) {
  return {{id, size}};
}

}  // namespace

TEST_CASE("bug: a fetch stores no chunk list that makes another file") {
  ListsRemote remote;
  const Lie file(1);
  (void)remote.open();
  plant(remote.path, *remote.disk, file.lying());
  TestStore t;
  const auto there = remote.open();
  CHECK(error_of([&] { receive_files(*there, *t.store, files(file.file), t.progress); }) == ErrorKind::kCorrupt);
  t.store->reload();
  CHECK_FALSE(t.store->has_blob(file.file));
  // Nor does fetching single objects.
  std::vector<ObjectRef> all;
  for (const StoredObject& object : file.lying()) all.emplace_back(object.key.kind, object.key.id);
  CHECK(error_of([&] { receive_objects(*there, *t.store, all, t.progress); }) == ErrorKind::kCorrupt);
  CHECK(error_of([&] {
          receive_objects(*there, *t.store, {{ObjectKind::kChunkList, file.file}}, t.progress);
        }) == ErrorKind::kCorrupt);
  CHECK_FALSE(t.store->has_blob(file.file));
}

TEST_CASE("a fetch brings files with their lists, long ones too, and the lists last") {
  ListsRemote remote;
  std::vector<Lie> honest;
  std::vector<FileRef> wanted;
  for (std::uint64_t i = 0; i < 5; ++i) {
    honest.emplace_back(i * 100, i + 2);
    send(*remote.open(), honest.back().telling());
    wanted.push_back({honest.back().file, honest.back().content.size()});
  }
  // A list of two levels, as of a file of many chunks.
  const ChunkList page = decode_chunk_list(honest[4].list.stored, "page");
  const StoredObject page_chunk = as_chunk(encode_chunk_list(page));
  Bytes twice = honest[4].content;
  twice.insert(twice.end(), honest[4].content.begin(), honest[4].content.end());
  const Digest large = Digest::of(twice);
  send(*remote.open(),
       {page_chunk,
        as_list({1, twice.size(), {{page_chunk.key.id, page.size}, {page_chunk.key.id, page.size}}}, large)});
  wanted.push_back({large, twice.size()});
  TestStore t;
  const auto there = remote.open();
  receive_files(*there, *t.store, wanted, t.progress);
  for (const Lie& file : honest) CHECK(t.store->read_blob(file.file) == file.content);
  CHECK(t.store->read_blob(large) == twice);
  CHECK(t.store->fsck(t.progress).problems.empty());
}

TEST_CASE("bug: a list that claims more than the version says is refused before its chunks are asked for") {
  ListsRemote remote;
  (void)remote.open();
  const StoredObject part = as_chunk(random_bytes(1000, 1));
  ChunkList page;
  for (int i = 0; i < 1000; ++i) page.items.push_back({part.key.id, std::uint64_t{1} << 40});
  page.size = std::uint64_t{1000} << 40;
  const StoredObject page_chunk = as_chunk(encode_chunk_list(page));
  ChunkList endless{1, 0, {}};
  for (int i = 0; i < 1000; ++i) endless.items.push_back({page_chunk.key.id, page.size}), endless.size += page.size;
  const Digest file = Digest::of("anything");
  plant(remote.path, *remote.disk, {part, page_chunk, as_list(endless, file)});
  TestStore t;
  const auto there = remote.open();
  CHECK(error_of([&] { receive_files(*there, *t.store, files(file, 5000), t.progress); }) == ErrorKind::kCorrupt);
  // Without an announced size, the first chunk shows that the claim is false.
  CHECK(error_of([&] { receive_files(*there, *t.store, files(file), t.progress); }) == ErrorKind::kCorrupt);
  CHECK_FALSE(t.store->has_blob(file));
}

TEST_CASE("bug: a remote on a disk stores no chunk list that makes another file") {
  ListsRemote remote;
  const Lie file(1), other(500);
  const auto there = remote.open();
  CHECK(error_of([&] { send(*there, file.lying()); }) == ErrorKind::kCorrupt);
  CHECK(there->missing({file.lie.key}).size() == 1);
  CHECK(error_of([&] { send(*there, {other.list}); }) == ErrorKind::kCorrupt);  // without its chunks
  send(*there, file.telling());
  send(*there, other.honest);
  send(*there, {other.list});
  CHECK(there->missing({file.list.key, other.list.key}).empty());
}

TEST_CASE("bug: who reads a file in order is not given the last bytes of another one") {
  TestStore t;
  const Lie file(1, 10);
  plant(t.folder, *t.disk, file.lying());
  t.store->reload();
  CHECK(error_of([&] { (void)t.store->read_blob(file.file); }) == ErrorKind::kCorrupt);
  const BlobReader reader = t.store->open_blob(file.file);
  Bytes buffer(7000);
  const auto read_all = [&] {
    for (std::uint64_t at = 0; at < reader.size();) at += reader.read_at(at, buffer.data(), buffer.size());
  };
  CHECK(error_of(read_all) == ErrorKind::kCorrupt);
  CHECK(error_of(read_all) == ErrorKind::kCorrupt);
}

TEST_CASE("bug: fsck and repair find a list that does not make its file, whichever pack it stands in") {
  TestStore t;
  const Lie file(1);
  plant(t.folder, *t.disk, file.telling());
  plant(t.folder, *t.disk, file.lying());
  t.store->reload();
  FsckReport report = t.store->fsck(t.progress);
  CHECK_EQ(report.problems.size(), 1u);
  CHECK_EQ(report.damaged_packs.size(), 1u);
  (void)set_damage_aside(*t.store, report, t.progress);
  CHECK(t.store->fsck(t.progress).problems.empty());
  CHECK(t.store->read_blob(file.file) == file.content);
  for (const StoredObject& object : file.forged) CHECK(t.store->has(ObjectKind::kChunk, object.key.id));
}

TEST_CASE("bug: operations unfold to no more than the budget and a multiple of what was sent") {
  const auto taken = [](std::uint32_t plain, std::size_t stored) {
    OperationIntake intake;
    std::uint64_t total = 0;
    (void)error_of([&] {
      for (int i = 0; i < 1000; ++i, total += plain) intake.count(plain, stored, "there");
    });
    return total;
  };
  CHECK_EQ(taken(kMaxOperationSize, 500), kOperationBudget);
  CHECK_EQ(taken(kMaxOperationSize, kMaxOperationSize / 8), std::uint64_t{1000} * kMaxOperationSize);
  CHECK_EQ(taken(kMaxOperationSize + 1, kMaxOperationSize), 0u);
}

TEST_CASE("bug: a fetch decodes no operation that is larger than one may be") {
  ListsRemote remote;
  const auto there = remote.open();
  const Bytes zeros(std::size_t{kMaxOperationSize} + 1);
  const Digest id = Digest::of(zeros);
  send(*there, {Codec().encode({id, ObjectKind::kOperation}, id, zeros)});
  TestStore t;
  CHECK(error_of([&] {
          receive_objects(*there, *t.store, {{ObjectKind::kOperation, id}}, t.progress);
        }) == ErrorKind::kCorrupt);
}

TEST_CASE("bug: an attachment whose size nobody says was a list of 64 GiB, all of it hashed") {
  ListsRemote remote;
  (void)remote.open();
  const StoredObject part = as_chunk(Bytes(1 << 20));
  ChunkList list;
  for (int i = 0; i < 1025; ++i) list.items.push_back({part.key.id, std::uint64_t{1} << 20});
  list.size = std::uint64_t{1025} << 20;
  const Digest file = Digest::of("a card");
  plant(remote.path, *remote.disk, {part, as_list(list, file)});
  TestStore t;
  const auto there = remote.open();
  std::string said;
  try {
    receive_files(*there, *t.store, files(file), t.progress);
  } catch (const Error& error) {
    said = error.message;
  }
  CHECK(said.find("no version gives that size") != std::string::npos);
  CHECK_FALSE(t.store->has_blob(file));
}
