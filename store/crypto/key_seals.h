// Sealing the keys of a key file: the root key for each member, each data key under the root key. Used by
// key_changes.cpp and key_join.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/crypto/identity.h"
#include "store/crypto/key_file.h"

namespace mlx::store {

Bytes seal_randomly(ByteView key, ByteView additional, ByteView plain);

// kUsage if the member's public key is invalid.
void wrap_root(const KeyFile& file, const Secret& root, Member& member);
std::optional<Access> open_root(const KeyFile& file, const Member& member, const KeyPair& identity);

void seal_key(const UnlockedKeys& keys, DataKey& key, ByteView data_key);
Secret open_key(const UnlockedKeys& keys, const DataKey& key);  // kCorrupt if it does not match its check
// Adds a new current key for the domain, whose old one retire() has retired.
void add_key(UnlockedKeys& keys, const std::string& domain, std::int64_t now);
void retire(UnlockedKeys& keys, const std::string& domain);
// Makes a new root key, seals everything under it, and locks it for all members.
void change_root(UnlockedKeys& keys);
// change_root(), and a new key for every domain: former members can open nothing that is encrypted from now on.
void change_all(UnlockedKeys& keys, std::int64_t now);

Digest mac_of(const KeyFile& file, const Secret& root);
// Makes a revision of the file, after the last one or after the joined ones in `after`. Its changes of members are
// relative to the first of them.
void finish_revision(UnlockedKeys& keys, std::vector<Digest> after = {});

}  // namespace mlx::store
