// A whole remote in a folder: heads and packs as the input says, from which a fresh store takes all that it can get.
// Whatever the bytes, what it has taken in then is whole. Checksums are put right, so that what they cover is reached.
//
// Input: a byte of choices (bit 0: checksums stay as they are), the heads (2 bytes of length), then packs (2 bytes
// each).
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/fd.h"
#include "base/path.h"
#include "fuzz.h"
#include "registry/operations/operation.h"
#include "store/pack/store.h"
#include "store/remote/transfer.h"
#include "store/small_file.h"

using namespace mlx;
using namespace mlx::store;

namespace {

std::uint64_t number_at(const Bytes& bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = size; i-- > 0;) value = value << 8 | bytes[at + i];
  return value;
}

void put(Bytes& bytes, std::size_t at, ByteView what) {
  std::copy(what.begin(), what.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
}

// The checksums of entries that the trailing index names, in both places, and the SHA-256 of the index.
void put_right(Bytes& pack) {
  if (pack.size() < kFanoutSize + kFooterSize) return;
  const std::size_t footer = pack.size() - kFooterSize;
  const std::uint64_t index = number_at(pack, footer, 8);
  if (index > footer) return;
  for (std::size_t at = index + kFanoutSize; at + kRecordSize <= footer; at += kRecordSize) {
    const std::uint64_t offset = number_at(pack, at + 32, 8), size = number_at(pack, at + 48, 4);
    const std::uint64_t before = kEntryHeaderSize + number_at(pack, at + 58, 2);
    if (offset < before || offset > index || size > index - offset) continue;
    ByteWriter sum;
    sum.u64(stored_checksum(ByteView(pack).subspan(offset, size)));
    put(pack, at + 40, sum.bytes());
    put(pack, offset - before + 24, sum.bytes());
  }
  put(pack, footer + 16, Digest::of(ByteView(pack).subspan(index, footer - index)).bytes);
}

void write_remote(const std::string& folder, fuzz::Input input) {
  const auto part = [&] {
    const std::size_t size = input.byte() << 8 | input.byte();
    const ByteView taken = input.take(size);
    return Bytes(taken.begin(), taken.end());
  };
  const bool as_it_is = (input.byte() & 1) != 0;
  make_folders(folder + "/packs");
  write_file_atomically(folder + "/packs/FORMAT", with_check(as_bytes("mlx store 1\n")));
  write_file_atomically(folder + "/heads", with_check(part()));
  while (!input.empty()) {
    Bytes pack = part();
    if (!as_it_is) put_right(pack);
    const Digest id = pack.size() < kFooterSize
                          ? Digest::of(pack)
                          : Digest::from(ByteView(pack).subspan(pack.size() - kFooterSize + 16, 32));
    write_file_atomically(folder + "/packs/" + id.hex() + ".pack", pack);
  }
}

// What a fetch does with a version: its root behind its shards, then the files.
void take_version(Remote& remote, Store& to, const Digest& root, Progress& progress) {
  receive_behind_parts(
      remote, to, {{ObjectKind::kManifest, root}},
      [&](const std::vector<Bytes>& roots) {
        std::vector<ObjectRef> shards;
        for (const Bytes& bytes : roots) {
          for (const ShardRef& shard : decode_root(bytes)) shards.emplace_back(ObjectKind::kShard, shard.id);
        }
        receive_objects(remote, to, shards, progress);
      },
      progress);
  for (const Entry& entry : to.entries(root)) {
    fuzz::errors_are_fine([&] { receive_objects(remote, to, {{ObjectKind::kChunk, entry.content}}, progress); });
    fuzz::errors_are_fine([&] { receive_files(remote, to, {{entry.content, entry.size}}, progress); });
    fuzz::errors_are_fine([&] {
      fuzz::require(Digest::of(to.read_blob(entry.content)) == entry.content, "what is read is what was named");
    });
  }
}

void take_all(const std::string& from, const std::string& into) {
  static const std::unique_ptr<Disk> disk = real_disk();
  static Pool pool(1);
  NoProgress progress;
  Store::create(into, *disk);
  Store to(into, *disk, pool);
  std::vector<Digest> operations;
  std::unique_ptr<Remote> remote;
  fuzz::errors_are_fine([&] {
    remote = open_remote(from, {}, *disk, pool);
    fuzz::errors_are_fine([&] { (void)remote->heads(); });
    operations = remote->operations();
  });
  for (const Digest& id : operations) {
    fuzz::errors_are_fine([&] {
      receive_objects(*remote, to, {{ObjectKind::kOperation, id}}, progress);
      const registry::Operation operation = registry::decode(to.read(ObjectKind::kOperation, id));
      const std::size_t at = operation.body.find("sha256:");
      if (at != std::string::npos) take_version(*remote, to, Digest::parse(operation.body.substr(at, 71)), progress);
    });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string base =
      join_path(path_exists("/dev/shm") ? "/dev/shm" : "/tmp", "mlx-fuzz-remote-" + std::to_string(::getpid()));
  std::filesystem::remove_all(base);
  write_remote(base + "/remote", fuzz::Input(data, size));
  take_all(base + "/remote", base + "/here");
  std::filesystem::remove_all(base);
  return 0;
}
