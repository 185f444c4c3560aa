// Every change is one new revision: a link is signed and appended to the chain, and the MAC is computed again.
#include "store/crypto/key_changes.h"

#include <algorithm>

#include "base/error.h"
#include "store/crypto/key_seals.h"

namespace mlx::store {

namespace {

constexpr std::string_view kSealInfo = "mlx keys 1";

Secret passphrase_private_key(const Member& member, ByteView passphrase) {
  return scrypt(passphrase, member.salt.bytes, member.cost, 32);
}

std::vector<Member>::iterator find_member(KeyFile& file, const Digest& public_key) {
  const auto at = std::ranges::find(file.members, public_key, &Member::public_key);
  if (at == file.members.end()) {
    throw Error(ErrorKind::kNotFound, "the keys have no such member", "`mlx key list` lists them");
  }
  return at;
}

}  // namespace

std::optional<KeyPair> passphrase_identity(const KeyFile& file, ByteView passphrase) {
  for (const Member& member : file.members) {
    if (member.kind != Member::Kind::kPassphrase) continue;
    KeyPair pair = x25519_pair(passphrase_private_key(member, passphrase));
    if (pair.public_key == member.public_key) return pair;
  }
  return {};
}

std::optional<Access> unwrap_root(const KeyFile& file, const KeyPair& identity) {
  for (const Member& member : file.members) {
    if (member.public_key == identity.public_key) return open_root(file, member, identity);
  }
  return {};
}

UnlockedKeys unlock(KeyFile file, Access access, const std::string& what) {
  if (!equal_in_constant_time(mac_of(file, access.root).bytes, file.mac.bytes) ||
      file.chain.back().state != state_of(file)) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}: its MAC does not hold: it is damaged, or somebody without the keys changed it", what),
                "`mlx fsck --repair` takes the keys from an encrypted remote, or restore the file from a backup");
  }
  return {std::move(file), std::move(access)};
}

KeyRing ring_of(const UnlockedKeys& keys) {
  KeyRing ring;
  for (const DataKey& key : keys.file.keys) {
    if (!key.erased()) ring.add(derive_domain_key(key.id, key.domain, key.current, open_key(keys, key)));
  }
  return ring;
}

Member passphrase_member(ByteView passphrase, const std::string& name, const ScryptCost& cost, std::int64_t now) {
  Member member;
  member.kind = Member::Kind::kPassphrase;
  member.cost = cost;
  random_bytes(member.salt.bytes);
  member.name = name;
  member.added = now;
  const PublicIdentity who = public_identity(x25519_pair(passphrase_private_key(member, passphrase)));
  member.public_key = who.locks;
  member.signing_key = who.signs;
  return member;
}

Member recipient_member(const PublicIdentity& who, const std::string& name, std::int64_t now) {
  Member member;
  member.public_key = who.locks;
  member.signing_key = who.signs;
  member.name = name;
  member.added = now;
  return member;
}

UnlockedKeys make_keys(const Member& member, std::int64_t now) {
  UnlockedKeys keys{{}, {Secret(32), {}}};
  random_bytes(keys.file.ring);
  random_bytes({keys.access.root.data(), keys.access.root.size()});
  keys.file.members = {member};
  wrap_root(keys.file, keys.access.root, keys.file.members[0]);
  add_key(keys, kHistoryDomain, now);
  add_key(keys, kMainDomain, now);
  finish_revision(keys);
  return keys;
}

void add_member(UnlockedKeys& keys, const Member& member) {
  for (const Member& known : keys.file.members) {
    if (known.public_key != member.public_key) continue;
    fail(ErrorKind::kConflict, "this key is a member already, as '{}'", known.name);
  }
  Member added = member;
  wrap_root(keys.file, keys.access.root, added);
  keys.file.members.push_back(std::move(added));
  if (!can_be_opened(keys.file)) {
    keys.file.members.pop_back();
    throw Error(ErrorKind::kRefused, "these keys have as many passphrases as may be tried: 16",
                "remove one, or add a recipient: `mlx key new-identity` makes one");
  }
  finish_revision(keys);
}

void remove_member(UnlockedKeys& keys, const Digest& public_key, std::int64_t now) {
  const auto at = find_member(keys.file, public_key);
  if (keys.file.members.size() == 1) {
    throw Error(ErrorKind::kRefused, "the last member cannot go: nobody could read anything any more",
                "add another one first; `mlx erase` makes a domain unreadable for good");
  }
  keys.file.members.erase(at);
  change_all(keys, now);
  finish_revision(keys);
}

void replace_member(UnlockedKeys& keys, const Digest& public_key, const Member& member, std::int64_t now) {
  *find_member(keys.file, public_key) = member;
  change_all(keys, now);
  finish_revision(keys);
}

void rotate_domain(UnlockedKeys& keys, const std::string& domain, std::int64_t now) {
  if (const std::string problem = key_name_problem(domain); !problem.empty())
    fail(ErrorKind::kUsage, "'{}' cannot name a domain: {}", domain, problem);
  retire(keys, domain);
  add_key(keys, domain, now);
  finish_revision(keys);
}

Bytes seal_keys(const UnlockedKeys& keys) {
  Bytes bytes = encode_lock(keys.file);
  const Bytes sealed =
      seal_randomly(hkdf_sha256(keys.access.root, {}, kSealInfo, 32), bytes, encode_key_file(keys.file));
  bytes.insert(bytes.end(), sealed.begin(), sealed.end());
  return bytes;
}

UnlockedKeys open_sealed_keys(const SealedKeys& sealed, Access access, const std::string& what) {
  Bytes plain;
  if (!aes_gcm_open(hkdf_sha256(access.root, {}, kSealInfo, 32), sealed.outside, sealed.sealed, plain))
    fail(ErrorKind::kCorrupt, "{}: damaged, or changed by somebody without the keys", what);
  UnlockedKeys keys = unlock(decode_key_file(plain, what), std::move(access), what);
  if (encode_lock(keys.file) != sealed.outside) fail(ErrorKind::kCorrupt, "{}: two rings in one file", what);
  return keys;
}

}  // namespace mlx::store
