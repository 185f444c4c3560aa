// All keys are random, except those derived from a passphrase. Every seal is AES-256-GCM with a random nonce.
#include "store/crypto/key_seals.h"

#include <algorithm>

#include "base/error.h"

namespace mlx::store {

namespace {

constexpr std::string_view kMemberInfo = "mlx member 1", kMacInfo = "mlx keys mac 1";
constexpr std::string_view kCheckInfo = "mlx check 1";

Bytes additional_data(const KeyFile& file, ByteView prefix) {
  Bytes bytes(file.ring.begin(), file.ring.end());
  bytes.insert(bytes.end(), prefix.begin(), prefix.end());
  return bytes;
}

Secret wrapping_key(const Secret& shared, const Member& member) {
  Bytes salt(member.ephemeral.bytes.begin(), member.ephemeral.bytes.end());
  salt.insert(salt.end(), member.public_key.bytes.begin(), member.public_key.bytes.end());
  return hkdf_sha256(shared, salt, kMemberInfo, 32);
}

Digest check_of(ByteView data_key) {
  return Digest::from(hkdf_sha256(data_key, {}, kCheckInfo, 32));
}

}  // namespace

Bytes seal_randomly(ByteView key, ByteView additional, ByteView plain) {
  std::array<std::uint8_t, kNonceSize> nonce;
  random_bytes(nonce);
  return aes_gcm_seal(key, nonce, additional, plain);
}

void wrap_root(const KeyFile& file, const Secret& root, Member& member) {
  const KeyPair ephemeral = x25519_generate();
  const std::optional<Secret> shared = x25519_agree(ephemeral.private_key, member.public_key);
  if (!shared) fail(ErrorKind::kUsage, "'{}' has a public key that nothing can be encrypted for", member.name);
  member.ephemeral = ephemeral.public_key;
  member.root = seal_randomly(wrapping_key(*shared, member), additional_data(file, member_binding(member)), root);
}

std::optional<Access> open_root(const KeyFile& file, const Member& member, const KeyPair& identity) {
  const std::optional<Secret> shared = x25519_agree(identity.private_key, member.ephemeral);
  Bytes root;
  if (!shared ||
      !aes_gcm_open(wrapping_key(*shared, member), additional_data(file, member_binding(member)), member.root, root)) {
    return {};
  }
  Access access{Secret(ByteView(root)), signing_key_of(identity)};
  wipe(root);
  return access;
}

void seal_key(const UnlockedKeys& keys, DataKey& key, ByteView data_key) {
  key.sealed = seal_randomly(keys.access.root, additional_data(keys.file, key_prefix(key)), data_key);
}

Secret open_key(const UnlockedKeys& keys, const DataKey& key) {
  Bytes plain;
  const Bytes additional = additional_data(keys.file, key_prefix(key));
  if (!aes_gcm_open(keys.access.root, additional, key.sealed, plain) || plain.size() != 32 ||
      check_of(plain) != key.check) {
    wipe(plain);
    throw Error(ErrorKind::kCorrupt, fmt::format("key {:08x} of the domain '{}' is damaged", key.id, key.domain),
                "`mlx fsck --repair` takes it from an encrypted remote that has it");
  }
  Secret secret{ByteView(plain)};
  wipe(plain);
  return secret;
}

Digest mac_of(const KeyFile& file, const Secret& root) {
  return hmac_sha256(hkdf_sha256(root, {}, kMacInfo, 32), encode_for_mac(file));
}

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
  key.check = check_of(data_key);
  seal_key(keys, key, data_key);
  keys.file.keys.push_back(std::move(key));
}

// The seal authenticates an entry's flags, so the key is sealed again.
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

void change_root(UnlockedKeys& keys) {
  UnlockedKeys fresh{keys.file, {Secret(32), keys.access.signer}};
  random_bytes({fresh.access.root.data(), fresh.access.root.size()});
  for (DataKey& key : fresh.file.keys) {
    if (!key.erased()) seal_key(fresh, key, open_key(keys, key));
  }
  for (Member& member : fresh.file.members) wrap_root(fresh.file, fresh.access.root, member);
  keys = std::move(fresh);
}

void change_all(UnlockedKeys& keys, std::int64_t now) {
  change_root(keys);
  for (const std::string& domain : domains(keys.file)) {
    retire(keys, domain);
    add_key(keys, domain, now);
  }
}

void finish_revision(UnlockedKeys& keys, std::vector<Digest> after) {
  KeyFile& file = keys.file;
  const bool first = file.chain.empty();
  if (!first && after.empty()) after = {file.chain.back().id};
  const Membership before = first ? Membership() : members_after(file.chain, *find_link(file.chain, after[0]));
  Membership now;
  for (const Member& member : file.members) now.emplace(member.public_key, member.signing_key);
  Link link;
  link.parents = std::move(after);
  link.state = state_of(file);
  for (const auto& [public_key, signing_key] : before) {
    if (!now.contains(public_key)) link.changes.push_back({false, public_key, signing_key});
  }
  for (const auto& [public_key, signing_key] : now) {
    if (!before.contains(public_key)) link.changes.push_back({true, public_key, signing_key});
  }
  if (!first && !signs(before, keys.access.signer.public_key)) {
    throw Error(ErrorKind::kRefused, "only a member can change the keys, and who unlocked them is none",
                "`mlx key list` lists the members");
  }
  append_link(file.chain, file.ring, std::move(link), first ? nullptr : &keys.access.signer);
  file.mac = mac_of(file, keys.access.root);
}

}  // namespace mlx::store
