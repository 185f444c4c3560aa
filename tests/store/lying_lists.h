// Chunk lists under wrong ids, for tests that they are never accepted.
#pragma once

#include <map>

#include "fixture.h"
#include "store/format/chunk_list.h"
#include "store/format/codec.h"
#include "store/pack/pack_writer.h"
#include "store/remote/remote.h"

namespace mlx::store {

inline StoredObject as_chunk(ByteView bytes) {
  const Digest id = Digest::of(bytes);
  return Codec().encode({id, ObjectKind::kChunk}, id, bytes);
}

inline StoredObject as_list(const ChunkList& list, const Digest& file) {
  return Codec().encode({file, ObjectKind::kChunkList}, file, encode_chunk_list(list));
}

// A file of several chunks, its chunk list, and a list of other chunks of the same sizes that claims to be the same
// file.
struct Lie {
  std::vector<StoredObject> honest, forged;  // chunks
  StoredObject list, lie;
  Digest file;
  Bytes content;

  explicit Lie(std::uint64_t seed, std::size_t chunks = 4) {
    ChunkList right, wrong;
    for (std::size_t i = 0; i < chunks; ++i) {
      const Bytes part = random_bytes(20'000, seed + i), other = random_bytes(20'000, seed + 1000 + i);
      content.insert(content.end(), part.begin(), part.end());
      honest.push_back(as_chunk(part));
      forged.push_back(as_chunk(other));
      right.items.push_back({honest.back().key.id, part.size()});
      wrong.items.push_back({forged.back().key.id, other.size()});
      right.size = wrong.size += part.size();
    }
    file = Digest::of(content);
    list = as_list(right, file);
    lie = as_list(wrong, file);
  }
  std::vector<StoredObject> lying() const {
    std::vector<StoredObject> all = forged;
    all.push_back(lie);
    return all;
  }
  std::vector<StoredObject> telling() const {
    std::vector<StoredObject> all = honest;
    all.push_back(list);
    return all;
  }
};

inline void send(Remote& remote, const std::vector<StoredObject>& objects) {
  std::vector<ObjectKey> keys;
  std::map<ObjectKey, StoredObject> by_key;
  for (const StoredObject& object : objects) {
    keys.push_back(object.key);
    by_key.emplace(object.key, object);
  }
  NoProgress quiet;
  remote.send(
      keys, [&](const ObjectKey& key) { return by_key.at(key); }, quiet);
}

// Writes a pack to the disk directly, as an attacker would.
inline void plant(const std::string& folder, Disk& disk, const std::vector<StoredObject>& objects) {
  const std::string packs = folder + "/packs", temporary = packs + "/planted";
  PackWriter writer(temporary, disk);
  for (const StoredObject& object : objects) writer.append(object);
  disk.rename(temporary, packs + "/" + writer.seal().hex() + ".pack");
}

}  // namespace mlx::store
