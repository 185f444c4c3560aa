// Unlocking a key file, and every change that needs its root key. Pure functions of bytes and secrets. Each change of
// members or keys is one new revision, which a member signs (key_chain.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/crypto/identity.h"
#include "store/crypto/key_file.h"
#include "store/crypto/keys.h"

namespace mlx::store {

// The key pair of the member with this passphrase; nullopt if there is none. Runs scrypt once for each member with a
// passphrase.
std::optional<KeyPair> passphrase_identity(const KeyFile& file, ByteView passphrase);
// nullopt if the identity is not a member, or its entry cannot be opened.
std::optional<Access> unwrap_root(const KeyFile& file, const KeyPair& identity);
// kCorrupt if the MAC does not match.
UnlockedKeys unlock(KeyFile file, Access access, const std::string& what);
KeyRing ring_of(const UnlockedKeys& keys);  // without erased keys; kCorrupt if one cannot be opened

Member passphrase_member(ByteView passphrase, const std::string& name, const ScryptCost& cost, std::int64_t now);
Member recipient_member(const PublicIdentity& who, const std::string& name, std::int64_t now);

// A new ring with keys for kMainDomain and kHistoryDomain. Nobody can change it before a member has unlocked it.
UnlockedKeys make_keys(const Member& member, std::int64_t now);
// Each of these is one revision, signed by the member who unlocked the keys.
// kConflict if there is a member with this public key.
void add_member(UnlockedKeys& keys, const Member& member);
// Makes a new root key, and a new key for every domain. kRefused for the last member.
void remove_member(UnlockedKeys& keys, const Digest& public_key, std::int64_t now);
// Replaces a member, and the keys: the old member's secret opens nothing that is encrypted from now on.
void replace_member(UnlockedKeys& keys, const Digest& public_key, const Member& member, std::int64_t now);
// Makes a new current key for the domain; makes the domain if it is new.
void rotate_domain(UnlockedKeys& keys, const std::string& domain, std::int64_t now);

Bytes seal_keys(const UnlockedKeys& keys);
// `access` is unwrap_root's result for `lock`. kCorrupt if the file is not as the signer of its revision left it; only
// verify_chain() shows that the signer was a member.
UnlockedKeys open_sealed_keys(const SealedKeys& sealed, Access access, const std::string& what);

}  // namespace mlx::store
