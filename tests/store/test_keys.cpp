// The key file: members are added and removed, strangers' changes are noticed, hostile bytes are refused.
#include <algorithm>

#include "fixture.h"
#include "store/crypto/key_join.h"

using namespace mlx;
using namespace mlx::store;

namespace {

constexpr ScryptCost kCheap{10, 8, 1};

// Unlocked by their passphrase's owner, who signs what is changed.
UnlockedKeys new_keys(std::string_view passphrase = "first") {
  UnlockedKeys keys = make_keys(passphrase_member(as_bytes(passphrase), "p", kCheap, 1), 1);
  keys.access = *unwrap_root(keys.file, *passphrase_identity(keys.file, as_bytes(passphrase)));
  return keys;
}

Member recipient(const KeyPair& pair, const std::string& name, std::int64_t now) {
  return recipient_member(public_identity(pair), name, now);
}

KeyFile reread(const KeyFile& file) {
  return decode_key_file(encode_key_file(file), "keys");
}

bool opens(const KeyFile& file, std::string_view passphrase) {
  const auto identity = passphrase_identity(file, as_bytes(passphrase));
  return identity && unwrap_root(file, *identity);
}

std::optional<UnlockedKeys> unlock_with(const KeyFile& file, const KeyPair& identity) {
  const auto access = unwrap_root(file, identity);
  if (!access) return {};
  return unlock(file, *access, "keys");
}

bool holds(const KeyRing& ring, const DomainKey& key) {
  const DomainKey* found = ring.find(key.id);
  return found && found->content == key.content && found->ids == key.ids && found->domain == key.domain;
}

}  // namespace

TEST_CASE("a passphrase opens its keys, another does not") {
  const UnlockedKeys keys = new_keys();
  const KeyFile file = reread(keys.file);
  CHECK_FALSE(opens(file, "second"));
  CHECK_FALSE(opens(file, ""));
  const auto identity = passphrase_identity(file, as_bytes("first"));
  REQUIRE(identity);
  const auto keys_again = unlock_with(file, *identity);
  REQUIRE(keys_again);
  const KeyRing ring = ring_of(*keys_again);
  CHECK(ring.keys().size() == 2);
  CHECK(ring.current(kMainDomain).id != ring.current(kHistoryDomain).id);
  CHECK(storage_id(ring.current(kMainDomain), Digest{}) != storage_id(ring.current(kHistoryDomain), Digest{}));
  CHECK(error_of([&] { (void)ring.current("other"); }) == ErrorKind::kRefused);
}

TEST_CASE("recipients come and go, and who is gone cannot open what comes after") {
  UnlockedKeys keys = new_keys();
  const KeyPair ada = x25519_generate(), ben = x25519_generate();
  const KeyRing first = ring_of(keys);
  add_member(keys, recipient(ada, "ada", 2));
  add_member(keys, recipient(ben, "ben", 3));
  CHECK(error_of([&] { add_member(keys, recipient(ben, "twice", 3)); }) == ErrorKind::kConflict);
  const KeyFile before = reread(keys.file);
  auto through_ada = unlock_with(before, ada);
  REQUIRE(through_ada);
  for (const DomainKey& key : first.keys()) CHECK(holds(ring_of(*through_ada), key));

  remove_member(*through_ada, ben.public_key, 4);
  const KeyFile after = reread(through_ada->file);
  CHECK_FALSE(unwrap_root(after, ben));
  auto still = unlock_with(after, ada);
  REQUIRE(still);
  const KeyRing ring = ring_of(*still);
  for (const DomainKey& key : first.keys()) {
    CHECK(holds(ring, key));                       // nothing is written again
    CHECK(ring.current(key.domain).id != key.id);  // but what comes is under a new key
  }
  // Ben's copy of the old file opens nothing in the new one.
  auto bens = unlock_with(before, ben);
  REQUIRE(bens);
  CHECK(error_of([&] { unlock(after, bens->access, "keys"); }) == ErrorKind::kCorrupt);
  CHECK(opens(after, "first"));  // the passphrase still does: wrapped anew without knowing it
  CHECK(error_of([&] { remove_member(*still, ben.public_key, 5); }) == ErrorKind::kNotFound);
  remove_member(*still, ada.public_key, 5);
  CHECK(error_of([&] { remove_member(*still, still->file.members[0].public_key, 6); }) == ErrorKind::kRefused);
}

TEST_CASE("a changed passphrase replaces the one before") {
  UnlockedKeys keys = new_keys();
  replace_member(keys, keys.file.members[0].public_key, passphrase_member(as_bytes("next"), "p", kCheap, 2), 2);
  CHECK_FALSE(opens(keys.file, "first"));
  CHECK(opens(keys.file, "next"));
  CHECK(ring_of(keys).keys().size() == 4);  // two for reading, two for writing
}

TEST_CASE("what a stranger adds or changes is noticed") {
  UnlockedKeys keys = new_keys();
  UnlockedKeys strangers = new_keys("stranger");
  KeyFile added = keys.file;
  added.members.push_back(strangers.file.members[0]);
  CHECK(error_of([&] { unlock(added, keys.access, "keys"); }) == ErrorKind::kCorrupt);
  KeyFile moved = keys.file;
  std::swap(moved.keys[0], moved.keys[1]);
  CHECK(error_of([&] { unlock(moved, keys.access, "keys"); }) == ErrorKind::kCorrupt);
  KeyFile swapped = keys.file;  // sealed keys are not under the MAC, but each is bound to its entry
  std::swap(swapped.keys[0].sealed, swapped.keys[1].sealed);
  CHECK(error_of([&] { ring_of(unlock(swapped, keys.access, "keys")); }) == ErrorKind::kCorrupt);
}

TEST_CASE("every flipped byte of a key file is noticed") {
  UnlockedKeys keys = new_keys();
  add_member(keys, recipient(x25519_generate(), "ada", 2));
  const Bytes good = encode_key_file(keys.file);
  for (std::size_t i = 0; i < good.size(); ++i) {
    Bytes bad = good;
    bad[i] ^= 0x20;
    const bool noticed =
        error_of([&] { ring_of(unlock(decode_key_file(bad, "keys"), keys.access, "keys")); }) == ErrorKind::kCorrupt;
    CAPTURE(i);
    CHECK(noticed);
  }
  for (std::size_t size = 0; size < good.size(); ++size) {
    CHECK(error_of([&] { decode_key_file(ByteView(good).first(size), "keys"); }) == ErrorKind::kCorrupt);
  }
  Bytes longer = good;
  longer.push_back(0);
  CHECK(error_of([&] { decode_key_file(longer, "keys"); }) == ErrorKind::kCorrupt);
}

TEST_CASE("lying counts and scrypt costs in a key file are refused before they cost anything") {
  Bytes bytes = encode_key_file(new_keys().file);
  for (const std::size_t count : {12u, 16u, 20u}) {
    Bytes bad = bytes;
    std::fill_n(bad.begin() + static_cast<std::ptrdiff_t>(count), 4, std::uint8_t{0xff});
    CHECK(error_of([&] { decode_key_file(bad, "keys"); }) == ErrorKind::kCorrupt);
  }
  for (const auto& [offset, value] :
       {std::pair<std::size_t, std::uint8_t>{65, 9}, {65, 21}, {65, 255}, {66, 0}, {67, 1}}) {
    Bytes bad = bytes;
    bad[offset] = value;
    CHECK(error_of([&] { decode_key_file(bad, "keys"); }) == ErrorKind::kCorrupt);
  }
}

TEST_CASE("an erased key is gone without the root key, and the file still holds") {
  UnlockedKeys keys = new_keys();
  rotate_domain(keys, "people", 2);
  rotate_domain(keys, "people", 3);
  const Digest digest = keys.file.chain.back().id;
  std::vector<std::uint32_t> ids;
  for (const DataKey& key : keys.file.keys) {
    if (key.domain == "people") ids.push_back(key.id);
  }
  CHECK(ids.size() == 2);
  KeyFile file = keys.file;
  CHECK(erase_keys(file, ids));
  CHECK_FALSE(erase_keys(file, ids));
  CHECK(file.chain.back().id == digest);
  const UnlockedKeys left = unlock(reread(file), keys.access, "keys");
  CHECK(ring_of(left).keys().size() == 2);
  CHECK(domains(left.file) == std::vector<std::string>{"history", "main"});
  UnlockedKeys again = left;
  rotate_domain(again, "people", 4);  // a name may be used again, under another key
  CHECK(ring_of(again).keys().size() == 3);
}

TEST_CASE("identities and public keys survive being written down, mistyped ones do not") {
  const KeyPair pair = x25519_generate();
  CHECK(parse_identity(identity_text(pair), "i").public_key == pair.public_key);
  const PublicIdentity who = public_identity(pair);
  CHECK(parse_public_key(public_key_text(who) + "\n") == who);
  std::string text = public_key_text(who);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string typo = text;
    typo[i] = typo[i] == '0' ? '1' : '0';
    CHECK(error_of([&] { parse_public_key(typo); }) == ErrorKind::kUsage);
  }
  for (const char* bad : {"", "x", "mlx-identity-1:", "mlx-identity-1:zz"}) {
    CHECK(error_of([&] { parse_identity(bad, "i"); }) == ErrorKind::kUsage);
    CHECK(error_of([&] { parse_public_key(bad); }) == ErrorKind::kUsage);
  }
}

TEST_CASE("a remote's keys hold no name, open for members alone, and no byte of them can be changed unnoticed") {
  UnlockedKeys keys = new_keys();
  const KeyPair ada = x25519_generate(), eve = x25519_generate();
  add_member(keys, recipient(ada, "ADASNAME", 2));
  rotate_domain(keys, "SECRETDOMAIN", 2);
  const Bytes good = seal_keys(keys);
  for (const char* name : {"ADASNAME", "SECRETDOMAIN", "main", "history"})
    CHECK(as_text(good).find(name) == std::string_view::npos);
  const auto open = [&](ByteView bytes, const KeyPair& identity) {
    const SealedKeys sealed = decode_sealed_keys(bytes, "keys");
    const auto access = unwrap_root(sealed.lock, identity);
    if (!access) fail(ErrorKind::kRefused, "no member");
    return open_sealed_keys(sealed, *access, "keys");
  };
  CHECK(encode_key_file(open(good, ada).file) == encode_key_file(keys.file));
  CHECK(error_of([&] { open(good, eve); }) == ErrorKind::kRefused);
  for (std::size_t i = 0; i < good.size(); ++i) {
    Bytes bad = good;
    bad[i] ^= 0x10;
    const auto kind = error_of([&] { open(bad, ada); });
    CAPTURE(i);
    CHECK((kind == ErrorKind::kCorrupt || kind == ErrorKind::kRefused));
    const ByteView cut = ByteView(good).first(i);
    CHECK(error_of([&] { open(cut, ada); }) == ErrorKind::kCorrupt);
  }
}

TEST_CASE("bug: whoever held a remote chose how long and in how much memory its clones try a passphrase") {
  const auto refused = [](const ScryptCost& cost) {
    KeyFile file = new_keys().file;
    file.members[0].cost = cost;
    return error_of([&] { decode_key_file(encode_key_file(file), "keys"); }) == ErrorKind::kCorrupt;
  };
  CHECK(refused({20, 16, 1}));  // 2 GiB
  CHECK(refused({18, 8, 16}));  // 4 GiB one after the other
  CHECK(refused({19, 8, 1}));
  // All of a file together: 1 GiB.
  KeyFile file = new_keys().file;
  CHECK(can_be_opened(file));
  file.members.resize(16, file.members[0]);
  for (Member& member : file.members) member.cost = {};
  CHECK(can_be_opened(file));
  file.members.push_back(file.members[0]);
  CHECK_FALSE(can_be_opened(file));
  CHECK(error_of([&] { decode_key_file(encode_key_file(file), "keys"); }) == ErrorKind::kCorrupt);
  // mlx makes no file that it would refuse to read.
  UnlockedKeys keys = new_keys();
  Member costly = passphrase_member(as_bytes("second"), "q", kCheap, 2);
  costly.cost = {23, 8, 1};
  CHECK(error_of([&] { add_member(keys, costly); }) == ErrorKind::kRefused);
  CHECK(keys.file.members.size() == 1);
  add_member(keys, passphrase_member(as_bytes("second"), "q", kCheap, 2));
  CHECK(opens(reread(keys.file), "second"));
}
