// Encoding and strict decoding of key files.
#include "store/crypto/key_file.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace mlx::store {

namespace {

constexpr std::string_view kKeysMagic = "MLXKEYS\n", kSealedMagic = "MLXRKEYS";
constexpr std::uint32_t kKeysVersion = 2;
constexpr std::size_t kMacSize = 32, kNameSize = 64;
constexpr std::size_t kSealedKey = 32 + kSealedExtra;
constexpr std::uint32_t kMaxMembers = 1024, kMaxKeys = 65536;
constexpr int kMinLog2N = 10, kMaxLog2N = 20, kMaxR = 16, kMaxP = 16;
// Bytes that scrypt processes for one passphrase, and for all of a file. Whoever controls a remote sets the cost that
// its clones pay: this limits it to 1.6 seconds and 256 MiB.
constexpr std::uint64_t kMaxScrypt = std::uint64_t{256} << 20, kMaxScryptOfAll = std::uint64_t{1} << 30;

std::uint64_t bytes_of(const ScryptCost& cost) {
  return (std::uint64_t{128} << cost.log2_n) * static_cast<std::uint64_t>(cost.r) * static_cast<std::uint64_t>(cost.p);
}

void put_zeros(ByteWriter& out, std::size_t count) {
  out.raw(Bytes(count));
}

void put_name(ByteWriter& out, const std::string& name) {
  out.raw(as_bytes(name));
  put_zeros(out, kNameSize - name.size());
}

void expect_zeros(ByteReader& in, std::size_t count) {
  for (const std::uint8_t byte : in.take(count)) {
    if (byte != 0) in.corrupt("reserved bytes are not 0");
  }
}

std::string get_name(ByteReader& in, bool named) {
  const std::string_view field = as_text(in.take(kNameSize));
  const std::string_view name = field.substr(0, field.find('\0'));
  if (field.find_first_not_of('\0', name.size()) != std::string_view::npos) in.corrupt("bytes behind a name");
  if (named ? !key_name_problem(name).empty() : !name.empty()) in.corrupt("an invalid name");
  return std::string(name);
}

Member get_member(ByteReader& in, bool named) {
  Member member;
  const std::uint8_t kind = in.u8();
  member.cost = {in.u8(), 0, 0};
  member.cost.r = in.u16();
  member.cost.p = in.u16();
  expect_zeros(in, 2);
  member.salt = Digest::from(in.take(32));
  if (kind == static_cast<std::uint8_t>(Member::Kind::kPassphrase)) {
    member.kind = Member::Kind::kPassphrase;
    const ScryptCost& cost = member.cost;
    if (cost.log2_n < kMinLog2N || cost.log2_n > kMaxLog2N || cost.r < 1 || cost.r > kMaxR || cost.p < 1 ||
        cost.p > kMaxP || bytes_of(cost) > kMaxScrypt) {
      in.corrupt("scrypt parameters out of bounds");
    }
  } else if (kind != static_cast<std::uint8_t>(Member::Kind::kRecipient)) {
    in.corrupt("unknown kind of member");
  } else if (member.cost.log2_n != 0 || member.cost.r != 0 || member.cost.p != 0 || !member.salt.is_zero()) {
    in.corrupt("a recipient with scrypt parameters");
  }
  member.public_key = Digest::from(in.take(32));
  member.signing_key = Digest::from(in.take(32));
  member.added = static_cast<std::int64_t>(in.u64());
  member.name = get_name(in, named);
  member.ephemeral = Digest::from(in.take(32));
  const ByteView sealed = in.take(kSealedKey);
  member.root.assign(sealed.begin(), sealed.end());
  expect_zeros(in, 20);
  return member;
}

DataKey get_key(ByteReader& in) {
  DataKey key;
  key.id = in.u32();
  const std::uint8_t current = in.u8();
  if (key.id == 0) in.corrupt("a key with the id 0");
  if (current > 1) in.corrupt("unknown state of a key");
  key.current = current == 1;
  expect_zeros(in, 3);
  key.made = static_cast<std::int64_t>(in.u64());
  key.domain = get_name(in, true);
  key.check = Digest::from(in.take(32));
  expect_zeros(in, 16);
  const ByteView sealed = in.take(kSealedKey);
  key.sealed.assign(sealed.begin(), sealed.end());
  expect_zeros(in, 4);
  return key;
}

void check_keys_version(std::uint32_t version, const std::string& what) {
  if (version == kKeysVersion) return;
  throw Error(
      ErrorKind::kCorrupt, fmt::format("{}: keys of format version {}, this mlx knows {}", what, version, kKeysVersion),
      version == 1 ? "clone without --encrypt with the mlx that wrote them, and push to an empty remote with this one"
                   : "if a newer mlx wrote it, upgrade this one");
}

// The members must be those at the end of the chain.
void check_members(const KeyFile& file, const ByteReader& in) {
  Membership members;
  for (const Member& member : file.members) members.emplace(member.public_key, member.signing_key);
  if (members.size() != file.members.size()) in.corrupt("a member occurs twice");
  if (!can_be_opened(file)) in.corrupt("passphrases that cost too much to try");
  if (members != members_after(file.chain, file.chain.back())) in.corrupt("its members are not those of its history");
}

void check_keys(const KeyFile& file, const ByteReader& in) {
  std::set<std::uint32_t> ids;
  std::set<std::string> current;
  for (const DataKey& key : file.keys) {
    if (!ids.insert(key.id).second) in.corrupt("a key id occurs twice");
    if (key.current && !current.insert(key.domain).second) in.corrupt("a domain with two current keys");
  }
}

}  // namespace

bool can_be_opened(const KeyFile& file) {
  std::uint64_t bytes = 0;
  for (const Member& member : file.members) {
    if (member.kind == Member::Kind::kPassphrase) bytes += bytes_of(member.cost);
  }
  return bytes <= kMaxScryptOfAll;
}

bool DataKey::erased() const {
  return std::ranges::all_of(sealed, [](std::uint8_t byte) { return byte == 0; });
}

std::string key_name_problem(std::string_view name) {
  if (name.empty()) return "a name is needed";
  if (name.size() > kNameSize) return "it is longer than 64 bytes";
  if (!is_utf8(name)) return "it is not valid UTF-8";
  if (std::ranges::any_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }))
    return "it holds a control character";
  return {};
}

namespace {

void put_member_head(ByteWriter& out, const Member& member) {
  out.u8(static_cast<std::uint8_t>(member.kind));
  out.u8(static_cast<std::uint8_t>(member.cost.log2_n));
  out.u16(static_cast<std::uint16_t>(member.cost.r));
  out.u16(static_cast<std::uint16_t>(member.cost.p));
  out.u16(0);
  out.raw(member.salt.bytes);
  out.raw(member.public_key.bytes);
  out.raw(member.signing_key.bytes);
  out.u64(static_cast<std::uint64_t>(member.added));
}

}  // namespace

Bytes member_binding(const Member& member) {
  ByteWriter out;
  put_member_head(out, member);
  out.raw(member.ephemeral.bytes);
  return out.take();
}

Bytes member_entry(const Member& member) {
  ByteWriter out;
  put_member_head(out, member);
  put_name(out, member.name);
  out.raw(member.ephemeral.bytes);
  out.raw(member.root);
  put_zeros(out, 20);
  return out.take();
}

Bytes key_prefix(const DataKey& key) {
  ByteWriter out;
  out.u32(key.id);
  out.u8(key.current ? 1 : 0);
  put_zeros(out, 3);
  out.u64(static_cast<std::uint64_t>(key.made));
  put_name(out, key.domain);
  out.raw(key.check.bytes);
  put_zeros(out, 16);
  return out.take();
}

namespace {

Bytes encode_parts(const KeyFile& file, bool with_keys, const Chain& chain) {
  ByteWriter out;
  out.raw(as_bytes(kKeysMagic));
  out.u32(kKeysVersion);
  out.u32(static_cast<std::uint32_t>(file.members.size()));
  out.u32(static_cast<std::uint32_t>(file.keys.size()));
  out.u32(static_cast<std::uint32_t>(chain.size()));
  out.raw(file.ring);
  put_zeros(out, 24);
  for (const Member& member : file.members) out.raw(member_entry(member));
  for (const DataKey& key : file.keys) {
    out.raw(key_prefix(key));
    if (with_keys)
      out.raw(key.sealed);
    else
      put_zeros(out, kSealedKey);
    put_zeros(out, 4);
  }
  put_chain(out, chain);
  return out.take();
}

RingId get_ring(ByteReader& in) {
  RingId ring{};
  std::ranges::copy(in.take(ring.size()), ring.begin());
  return ring;
}

}  // namespace

Bytes encode_for_mac(const KeyFile& file) {
  return encode_parts(file, false, file.chain);
}

Digest state_of(const KeyFile& file) {
  return Digest::of(encode_parts(file, false, {}));
}

Bytes encode_key_file(const KeyFile& file) {
  Bytes bytes = encode_parts(file, true, file.chain);
  bytes.insert(bytes.end(), file.mac.bytes.begin(), file.mac.bytes.end());
  return bytes;
}

KeyFile decode_key_file(ByteView bytes, const std::string& what) {
  ByteReader in(bytes, what);
  if (as_text(in.take(kKeysMagic.size())) != kKeysMagic) in.corrupt("not a file of keys");
  check_keys_version(in.u32(), what);
  const std::uint32_t members = in.u32(), keys = in.u32(), links = in.u32();
  if (members == 0 || members > kMaxMembers || keys > kMaxKeys || links == 0 || links > kMaxLinks)
    in.corrupt("counts out of bounds");
  KeyFile file;
  file.ring = get_ring(in);
  expect_zeros(in, 24);
  for (std::uint32_t i = 0; i < members; ++i) file.members.push_back(get_member(in, true));
  for (std::uint32_t i = 0; i < keys; ++i) file.keys.push_back(get_key(in));
  file.chain = get_chain(in, file.ring, links);
  file.mac = Digest::from(in.take(kMacSize));
  in.expect_end();
  check_members(file, in);
  check_keys(file, in);
  return file;
}

Bytes encode_lock(const KeyFile& file) {
  ByteWriter out;
  out.raw(as_bytes(kSealedMagic));
  out.u32(kKeysVersion);
  out.u32(static_cast<std::uint32_t>(file.members.size()));
  out.raw(file.ring);
  out.u32(static_cast<std::uint32_t>(file.chain.size()));
  put_zeros(out, 28);
  for (Member member : file.members) {
    member.name.clear();
    out.raw(member_entry(member));
  }
  put_chain(out, file.chain);
  return out.take();
}

SealedKeys decode_sealed_keys(ByteView bytes, const std::string& what) {
  ByteReader in(bytes, what);
  if (as_text(in.take(kSealedMagic.size())) != kSealedMagic) in.corrupt("not a remote's keys");
  check_keys_version(in.u32(), what);
  const std::uint32_t members = in.u32();
  SealedKeys keys;
  keys.lock.ring = get_ring(in);
  const std::uint32_t links = in.u32();
  expect_zeros(in, 28);
  if (members == 0 || members > kMaxMembers || links == 0 || links > kMaxLinks) in.corrupt("counts out of bounds");
  for (std::uint32_t i = 0; i < members; ++i) keys.lock.members.push_back(get_member(in, false));
  keys.lock.chain = get_chain(in, keys.lock.ring, links);
  check_members(keys.lock, in);
  keys.outside.assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(in.offset()));
  const ByteView sealed = in.take(in.left());
  keys.sealed.assign(sealed.begin(), sealed.end());
  return keys;
}

bool erase_keys(KeyFile& file, const std::vector<std::uint32_t>& ids) {
  bool any = false;
  for (DataKey& key : file.keys) {
    if (key.erased() || std::ranges::find(ids, key.id) == ids.end()) continue;
    std::ranges::fill(key.sealed, std::uint8_t{0});
    any = true;
  }
  return any;
}

std::vector<std::string> domains(const KeyFile& file) {
  std::set<std::string> names;
  for (const DataKey& key : file.keys) {
    if (key.current && !key.erased()) names.insert(key.domain);
  }
  return {names.begin(), names.end()};
}

}  // namespace mlx::store
