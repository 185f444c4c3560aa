// The file that holds an encrypted repository's or remote's keys, locked for its members (mlx-format-keys(5)): parsing,
// unlocking, and every change to it. Pure functions of bytes and secrets; who reads and writes files is the registry.
//
// Parsing is strict and bounded (kCorrupt). Whatever changes the members or the keys makes a new revision with a new
// MAC and needs the root key; only erasing does not.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "store/keys.h"

namespace mlx::store {

struct Member {
  enum class Kind : std::uint8_t { kPassphrase = 1, kRecipient = 2 };
  Kind kind = Kind::kRecipient;
  ScryptCost cost{0, 0, 0};  // of a passphrase; else 0
  Digest salt;               // of a passphrase; else 0
  Digest public_key;
  std::int64_t added = 0;  // unix microseconds
  std::string name;
  Digest ephemeral;
  Bytes root;  // sealed
};

struct DataKey {
  std::uint32_t id = 0;
  bool current = false;
  std::int64_t made = 0;  // unix microseconds
  std::string domain;
  Bytes sealed;
  bool erased() const;
};

struct KeyFile {
  std::uint64_t revision = 1;
  std::array<std::uint8_t, 16> ring{};
  std::vector<Member> members;
  std::vector<DataKey> keys;
  std::vector<Digest> before;  // digests of the revisions before, oldest first
  Digest mac;
};

Bytes encode_key_file(const KeyFile& file);
KeyFile decode_key_file(ByteView bytes, const std::string& what);
Digest revision_digest(const KeyFile& file);  // erasing does not change it
// Takes the keys with these ids out for good; false where none of them was there. Needs no key.
bool erase_keys(KeyFile& file, const std::vector<std::uint32_t>& ids);

// The problem with a name of a member or a domain, or "".
std::string key_name_problem(std::string_view name);

// A file with its root key.
struct UnlockedKeys {
  KeyFile file;
  Secret root;
};

// The key pair that a passphrase stands for in this file; nullopt where it is no member's. Costs scrypt once a member
// with a passphrase.
std::optional<KeyPair> passphrase_identity(const KeyFile& file, ByteView passphrase);
// nullopt where the identity is no member, or its entry does not open.
std::optional<Secret> unwrap_root(const KeyFile& file, const KeyPair& identity);
// kCorrupt where the MAC does not hold.
UnlockedKeys unlock(KeyFile file, Secret root, const std::string& what);
KeyRing ring_of(const UnlockedKeys& keys);  // erased keys left out; kCorrupt where one cannot be opened

Member passphrase_member(ByteView passphrase, const std::string& name, const ScryptCost& cost, std::int64_t now);
Member recipient_member(const Digest& public_key, const std::string& name, std::int64_t now);

// A new ring with keys for kMainDomain and kHistoryDomain.
UnlockedKeys make_keys(const Member& member, std::int64_t now);
// kConflict where one with this public key is there.
void add_member(UnlockedKeys& keys, const Member& member);
// Makes the root key anew, and a new key for every domain. kRefused for the last one.
void remove_member(UnlockedKeys& keys, const Digest& public_key, std::int64_t now);
// One in place of another, both in one revision; the keys stay as they are.
void replace_member(UnlockedKeys& keys, const Digest& public_key, const Member& member);
// A new key that is written with from now on; of a new domain where there is none of this name.
void rotate_domain(UnlockedKeys& keys, const std::string& domain, std::int64_t now);
std::vector<std::string> domains(const KeyFile& file);  // those with a current key that was not erased, sorted

// How two files of one ring stand to each other.
enum class Standing { kSame, kOlder, kNewer, kDiverged };  // of the first to the second
Standing standing(const KeyFile& ours, const KeyFile& theirs);
// Whether whoever wrote `theirs` had a key of our history, whose keys are never erased: a stranger can make a file that
// looks newer and wrap a root key of his own for all members, but not with keys in it that he does not know.
bool vouches(const UnlockedKeys& ours, const UnlockedKeys& theirs);
// Diverged files: the members of `theirs`, the keys of both.
UnlockedKeys join(const UnlockedKeys& ours, const UnlockedKeys& theirs);

// The file as a remote keeps it: the members without their names, and all else sealed under the root key, so that no
// name of a person or a domain stands there.
struct SealedKeys {
  KeyFile lock;  // ring and members; nothing else
  Bytes outside, sealed;
};
Bytes seal_keys(const UnlockedKeys& keys);
SealedKeys decode_sealed_keys(ByteView bytes, const std::string& what);
// With the root key that unwrap_root gives for `lock`. kCorrupt where somebody without it changed anything.
UnlockedKeys open_sealed_keys(const SealedKeys& sealed, Secret root, const std::string& what);

// Identities as text (mlx-format-keys(5), IDENTITY). Parsing: kUsage.
std::string identity_text(const KeyPair& pair);
KeyPair parse_identity(std::string_view text, const std::string& what);
std::string public_key_text(const Digest& key);
Digest parse_public_key(std::string_view text);

}  // namespace mlx::store
