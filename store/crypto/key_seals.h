// What a key file locks and seals: the root key for each member, each data key under the root key. Used by
// key_changes.cpp and key_join.cpp, which make revisions of it; nothing here does.
#pragma once

#include "store/crypto/key_file.h"

namespace mlx::store {

Bytes seal_randomly(ByteView key, ByteView additional, ByteView plain);

// kUsage where the member's public key is none.
void wrap_root(const KeyFile& file, const Secret& root, Member& member);
std::optional<Access> open_root(const KeyFile& file, const Member& member, const KeyPair& identity);

void seal_key(const UnlockedKeys& keys, DataKey& key, ByteView data_key);
Secret open_key(const UnlockedKeys& keys, const DataKey& key);  // kCorrupt where it is not the key of its check
// A key that the domain is written with from now on, where retire() has taken that from the one before.
void add_key(UnlockedKeys& keys, const std::string& domain, std::int64_t now);
void retire(UnlockedKeys& keys, const std::string& domain);
// Seals everything under another root key, and locks that for all members.
void change_root(UnlockedKeys& keys);
// change_root(), and a new key for every domain: who could open the file before opens nothing of what comes.
void change_all(UnlockedKeys& keys, std::int64_t now);

Digest mac_of(const KeyFile& file, const Secret& root);
// Makes a revision of what stands in the file, after the last one, or after two that were joined: its changes of
// members are told from the first.
void finish_revision(UnlockedKeys& keys, std::vector<Digest> after = {});

}  // namespace mlx::store
