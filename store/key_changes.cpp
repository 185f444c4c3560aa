// Unlocking a key file, and the changes that need its root key. Every change is one new revision: the digest of the one
// before is noted, the MAC is made anew.
#include <algorithm>

#include "base/error.h"
#include "store/key_file.h"
#include "store/key_file_bytes.h"

namespace mlx::store {

namespace {

constexpr std::string_view kMemberInfo = "mlx member 1", kMacInfo = "mlx keys mac 1", kSealInfo = "mlx keys 1";

Bytes additional_data(const KeyFile& file, ByteView prefix) {
  Bytes bytes(file.ring.begin(), file.ring.end());
  bytes.insert(bytes.end(), prefix.begin(), prefix.end());
  return bytes;
}

Bytes seal_randomly(ByteView key, ByteView additional, ByteView plain) {
  std::array<std::uint8_t, kNonceSize> nonce;
  random_bytes(nonce);
  return aes_gcm_seal(key, nonce, additional, plain);
}

Secret wrapping_key(const Secret& shared, const Member& member) {
  Bytes salt(member.ephemeral.bytes.begin(), member.ephemeral.bytes.end());
  salt.insert(salt.end(), member.public_key.bytes.begin(), member.public_key.bytes.end());
  return hkdf_sha256(shared, salt, kMemberInfo, 32);
}

void wrap_root(const KeyFile& file, const Secret& root, Member& member) {
  const KeyPair ephemeral = x25519_generate();
  const std::optional<Secret> shared = x25519_agree(ephemeral.private_key, member.public_key);
  if (!shared) fail(ErrorKind::kUsage, "'{}' is no public key that anything can be encrypted for", member.name);
  member.ephemeral = ephemeral.public_key;
  member.root = seal_randomly(wrapping_key(*shared, member), additional_data(file, member_binding(member)), root);
}

std::optional<Secret> open_root(const KeyFile& file, const Member& member, const Secret& private_key) {
  const std::optional<Secret> shared = x25519_agree(private_key, member.ephemeral);
  Bytes root;
  if (!shared ||
      !aes_gcm_open(wrapping_key(*shared, member), additional_data(file, member_binding(member)), member.root, root)) {
    return {};
  }
  Secret secret{ByteView(root)};
  wipe(root);
  return secret;
}

Secret passphrase_private_key(const Member& member, ByteView passphrase) {
  return scrypt(passphrase, member.salt.bytes, member.cost, 32);
}

void seal_key(const UnlockedKeys& keys, DataKey& key, ByteView data_key) {
  key.sealed = seal_randomly(keys.root, additional_data(keys.file, key_prefix(key)), data_key);
}

Secret open_key(const UnlockedKeys& keys, const DataKey& key) {
  Bytes plain;
  if (!aes_gcm_open(keys.root, additional_data(keys.file, key_prefix(key)), key.sealed, plain) || plain.size() != 32) {
    throw Error(ErrorKind::kCorrupt, fmt::format("key {:08x} of the domain '{}' is damaged", key.id, key.domain),
                "fetch from a remote that has it, or restore .mlx/keys from a backup");
  }
  Secret secret{ByteView(plain)};
  wipe(plain);
  return secret;
}

Digest mac_of(const KeyFile& file, const Secret& root) {
  return hmac_sha256(hkdf_sha256(root, {}, kMacInfo, 32), encode_without_mac(file, false));
}

// Notes the revision that a change begins from; finish() makes the new one.
class Revision {
 public:
  explicit Revision(UnlockedKeys& keys) : keys_(keys), before_(revision_digest(keys.file)) {}
  void finish() {
    keys_.file.before.push_back(before_);
    ++keys_.file.revision;
    keys_.file.mac = mac_of(keys_.file, keys_.root);
  }

 private:
  UnlockedKeys& keys_;
  Digest before_;
};

void add_key(UnlockedKeys& keys, const std::string& domain, std::int64_t now) {
  DataKey key;
  const auto taken = [&](std::uint32_t id) {
    return id == 0 || std::ranges::any_of(keys.file.keys, [&](const DataKey& other) { return other.id == id; });
  };
  while (taken(key.id)) random_bytes({reinterpret_cast<std::uint8_t*>(&key.id), sizeof key.id});
  key.current = true;
  key.made = now;
  key.domain = domain;
  Secret data_key(32);
  random_bytes({data_key.data(), data_key.size()});
  seal_key(keys, key, data_key);
  keys.file.keys.push_back(std::move(key));
}

// A flag of an entry is part of what its seal vouches for, so the key is sealed again.
void retire(UnlockedKeys& keys, const std::string& domain) {
  for (DataKey& key : keys.file.keys) {
    if (!key.current || key.domain != domain) continue;
    if (key.erased()) {
      key.current = false;
      continue;
    }
    const Secret data_key = open_key(keys, key);
    key.current = false;
    seal_key(keys, key, data_key);
  }
}

// Seals everything under another root key.
void change_root(UnlockedKeys& keys) {
  UnlockedKeys fresh{keys.file, Secret(32)};
  random_bytes({fresh.root.data(), fresh.root.size()});
  for (DataKey& key : fresh.file.keys) {
    if (!key.erased()) seal_key(fresh, key, open_key(keys, key));
  }
  for (Member& member : fresh.file.members) wrap_root(fresh.file, fresh.root, member);
  keys = std::move(fresh);
}

std::vector<Member>::iterator find_member(KeyFile& file, const Digest& public_key) {
  const auto at = std::ranges::find(file.members, public_key, &Member::public_key);
  if (at == file.members.end()) {
    throw Error(ErrorKind::kNotFound, "no member of the keys is that", "`mlx key list` lists them");
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

std::optional<Secret> unwrap_root(const KeyFile& file, const KeyPair& identity) {
  for (const Member& member : file.members) {
    if (member.public_key == identity.public_key) return open_root(file, member, identity.private_key);
  }
  return {};
}

UnlockedKeys unlock(KeyFile file, Secret root, const std::string& what) {
  if (!equal_in_constant_time(mac_of(file, root).bytes, file.mac.bytes)) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}: its MAC does not hold: somebody without the keys changed it", what),
                "fetch the keys from a remote that you trust, or restore the file from a backup");
  }
  return {std::move(file), std::move(root)};
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
  member.public_key = x25519_pair(passphrase_private_key(member, passphrase)).public_key;
  return member;
}

Member recipient_member(const Digest& public_key, const std::string& name, std::int64_t now) {
  Member member;
  member.public_key = public_key;
  member.name = name;
  member.added = now;
  return member;
}

UnlockedKeys make_keys(const Member& member, std::int64_t now) {
  UnlockedKeys keys{{}, Secret(32)};
  random_bytes(keys.file.ring);
  random_bytes({keys.root.data(), keys.root.size()});
  keys.file.members = {member};
  wrap_root(keys.file, keys.root, keys.file.members[0]);
  add_key(keys, kHistoryDomain, now);
  add_key(keys, kMainDomain, now);
  keys.file.mac = mac_of(keys.file, keys.root);
  return keys;
}

void add_member(UnlockedKeys& keys, const Member& member) {
  for (const Member& known : keys.file.members) {
    if (known.public_key != member.public_key) continue;
    fail(ErrorKind::kConflict, "this key is a member already, as '{}'", known.name);
  }
  Member added = member;
  wrap_root(keys.file, keys.root, added);
  Revision revision(keys);
  keys.file.members.push_back(std::move(added));
  revision.finish();
}

void remove_member(UnlockedKeys& keys, const Digest& public_key, std::int64_t now) {
  const auto at = find_member(keys.file, public_key);
  if (keys.file.members.size() == 1) {
    throw Error(ErrorKind::kRefused, "the last member cannot go: nobody could read anything any more",
                "add another one first; `mlx erase` makes a domain unreadable for good");
  }
  Revision revision(keys);
  keys.file.members.erase(at);
  change_root(keys);
  for (const std::string& domain : domains(keys.file)) {
    retire(keys, domain);
    add_key(keys, domain, now);
  }
  revision.finish();
}

void replace_member(UnlockedKeys& keys, const Digest& public_key, const Member& member) {
  Member fresh = member;
  wrap_root(keys.file, keys.root, fresh);
  Revision revision(keys);
  *find_member(keys.file, public_key) = std::move(fresh);
  revision.finish();
}

void rotate_domain(UnlockedKeys& keys, const std::string& domain, std::int64_t now) {
  if (const std::string problem = key_name_problem(domain); !problem.empty())
    fail(ErrorKind::kUsage, "'{}' can not name a domain: {}", domain, problem);
  Revision revision(keys);
  retire(keys, domain);
  add_key(keys, domain, now);
  revision.finish();
}

Bytes seal_keys(const UnlockedKeys& keys) {
  Bytes bytes = encode_lock(keys.file);
  const Bytes sealed = seal_randomly(hkdf_sha256(keys.root, {}, kSealInfo, 32), bytes, encode_key_file(keys.file));
  bytes.insert(bytes.end(), sealed.begin(), sealed.end());
  return bytes;
}

UnlockedKeys open_sealed_keys(const SealedKeys& sealed, Secret root, const std::string& what) {
  Bytes plain;
  if (!aes_gcm_open(hkdf_sha256(root, {}, kSealInfo, 32), sealed.outside, sealed.sealed, plain))
    fail(ErrorKind::kCorrupt, "{}: damaged, or changed by somebody without the keys", what);
  UnlockedKeys keys = unlock(decode_key_file(plain, what), std::move(root), what);
  if (keys.file.ring != sealed.lock.ring) fail(ErrorKind::kCorrupt, "{}: two rings in one file", what);
  return keys;
}

bool vouches(const UnlockedKeys& ours, const UnlockedKeys& theirs) {
  bool any = false;
  for (const DataKey& key : ours.file.keys) {
    if (key.domain != kHistoryDomain || key.erased()) continue;
    const auto same = std::ranges::find(theirs.file.keys, key.id, &DataKey::id);
    if (same == theirs.file.keys.end() || same->erased()) continue;  // made since, on one side
    if (!(open_key(ours, key) == open_key(theirs, *same))) return false;
    any = true;
  }
  return any;
}

UnlockedKeys join(const UnlockedKeys& ours, const UnlockedKeys& theirs) {
  UnlockedKeys joined = theirs;
  Revision revision(joined);
  for (const DataKey& key : ours.file.keys) {
    const auto same = std::ranges::find(joined.file.keys, key.id, &DataKey::id);
    if (same != joined.file.keys.end()) continue;
    DataKey copy = key;
    const auto holds_domain = [&](const DataKey& other) { return other.current && other.domain == key.domain; };
    copy.current = key.current && std::ranges::none_of(joined.file.keys, holds_domain);
    if (!key.erased()) seal_key(joined, copy, open_key(ours, key));
    joined.file.keys.push_back(std::move(copy));
  }
  for (const Digest& digest : ours.file.before) {
    if (std::ranges::find(joined.file.before, digest) == joined.file.before.end()) joined.file.before.push_back(digest);
  }
  joined.file.before.push_back(revision_digest(ours.file));
  joined.file.revision = std::max(ours.file.revision, theirs.file.revision);
  revision.finish();
  return joined;
}

}  // namespace mlx::store
