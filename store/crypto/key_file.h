// The file that holds an encrypted repository's or remote's keys, locked for its members (mlx-format-keys(5)): parsing,
// unlocking, and every change to it. Pure functions of bytes and secrets; who reads and writes files is the registry.
//
// Parsing is strict and bounded (kCorrupt). Whatever changes the members or the keys makes a new revision, which a
// member signs (key_chain.h), and needs the root key; only erasing does not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/crypto/key_chain.h"
#include "store/crypto/keys.h"

namespace mlx::store {

struct Member {
  enum class Kind : std::uint8_t { kPassphrase = 1, kRecipient = 2 };
  Kind kind = Kind::kRecipient;
  ScryptCost cost{0, 0, 0};  // of a passphrase; else 0
  Digest salt;               // of a passphrase; else 0
  Digest public_key, signing_key;
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
  Digest check;  // made of the data key: what is under the seal is this key and no other, also once it was erased
  Bytes sealed;
  bool erased() const;
};

struct KeyFile {
  RingId ring{};
  std::vector<Member> members;
  std::vector<DataKey> keys;
  Chain chain;  // its last link is this revision
  Digest mac;
  std::uint64_t revision() const { return chain.back().revision; }
};

Bytes encode_key_file(const KeyFile& file);
KeyFile decode_key_file(ByteView bytes, const std::string& what);
// Takes the keys with these ids out for good; false where none of them was there. Needs no key, and makes no revision.
bool erase_keys(KeyFile& file, const std::vector<std::uint32_t>& ids);

// The problem with a name of a member or a domain, or "".
std::string key_name_problem(std::string_view name);

// What others need of somebody to let them in: what is locked for them, and whose signature is theirs. Both private
// keys are made of the one secret of an identity.
struct PublicIdentity {
  Digest locks, signs;
  bool operator==(const PublicIdentity&) const = default;
};
SigningKey signing_key_of(const KeyPair& identity);
PublicIdentity public_identity(const KeyPair& identity);

// What a member gets out of the lock.
struct Access {
  Secret root;
  SigningKey signer;
};
// A file with its root key, and who signs what is changed.
struct UnlockedKeys {
  KeyFile file;
  Access access;
};

// The key pair that a passphrase stands for in this file; nullopt where it is no member's. Costs scrypt once a member
// with a passphrase.
std::optional<KeyPair> passphrase_identity(const KeyFile& file, ByteView passphrase);
// nullopt where the identity is no member, or its entry does not open.
std::optional<Access> unwrap_root(const KeyFile& file, const KeyPair& identity);
// kCorrupt where the MAC does not hold.
UnlockedKeys unlock(KeyFile file, Access access, const std::string& what);
KeyRing ring_of(const UnlockedKeys& keys);  // erased keys left out; kCorrupt where one cannot be opened

Member passphrase_member(ByteView passphrase, const std::string& name, const ScryptCost& cost, std::int64_t now);
Member recipient_member(const PublicIdentity& who, const std::string& name, std::int64_t now);

// A new ring with keys for kMainDomain and kHistoryDomain. Nobody can change it before a member has unlocked it.
UnlockedKeys make_keys(const Member& member, std::int64_t now);
// Each of these is one revision, signed by who unlocked the keys.
// kConflict where one with this public key is there.
void add_member(UnlockedKeys& keys, const Member& member);
// Makes the root key anew, and a new key for every domain. kRefused for the last one.
void remove_member(UnlockedKeys& keys, const Digest& public_key, std::int64_t now);
// One in place of another: who knew what opened the keys for the first opens nothing of what comes.
void replace_member(UnlockedKeys& keys, const Digest& public_key, const Member& member, std::int64_t now);
// A new key that is written with from now on; of a new domain where there is none of this name.
void rotate_domain(UnlockedKeys& keys, const std::string& domain, std::int64_t now);
std::vector<std::string> domains(const KeyFile& file);  // those with a current key that was not erased, sorted

// Diverged files (key_chain.h): the keys of both, for the members that join_members() gives; who left on either side is
// given no key that comes. kRefused where who unlocked them is not a member on both sides.
UnlockedKeys join(const UnlockedKeys& ours, const UnlockedKeys& theirs, std::int64_t now);
// Whether keys are erased in the first file, and not in the second nor named by `gone`.
bool lacks_keys_of(const KeyFile& file, const KeyFile& other, const std::vector<std::uint32_t>& gone);
// Puts the keys back that are erased in `keys` and not in `from`, but for those that `gone` names; true where there
// were some.
bool put_back(UnlockedKeys& keys, const UnlockedKeys& from, const std::vector<std::uint32_t>& gone);

// The file as a remote keeps it: the members without their names, the chain, and all else sealed under the root key, so
// that no name of a person or a domain stands there, and whoever has no key can tell which of two is newer.
struct SealedKeys {
  KeyFile lock;  // ring, members and chain; nothing else
  Bytes outside, sealed;
};
Bytes seal_keys(const UnlockedKeys& keys);
SealedKeys decode_sealed_keys(ByteView bytes, const std::string& what);
// With what unwrap_root gives for `lock`. kCorrupt where it is not as the one who signed its revision left it; that he
// was a member says verify_chain().
UnlockedKeys open_sealed_keys(const SealedKeys& sealed, Access access, const std::string& what);

// Identities as text (mlx-format-keys(5), IDENTITY). Parsing: kUsage.
std::string identity_text(const KeyPair& pair);
KeyPair parse_identity(std::string_view text, const std::string& what);
std::string public_key_text(const PublicIdentity& who);
PublicIdentity parse_public_key(std::string_view text);

}  // namespace mlx::store
