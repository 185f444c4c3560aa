// The chain of a ring's revisions: who may continue it, what counts in two that diverged, and that a removed member
// gets no new key, whatever file he puts in place.
#include <algorithm>

#include "fixture.h"
#include "store/crypto/key_join.h"

using namespace mlx;
using namespace mlx::store;

namespace {

struct Person {
  KeyPair identity = x25519_generate();
  std::string name;

  Member member() const { return recipient_member(public_identity(identity), name, 1); }
  // The file as this person unlocks it; nullopt if they are not a member.
  std::optional<UnlockedKeys> open(const KeyFile& file) const {
    const auto access = unwrap_root(file, identity);
    if (!access) return {};
    return unlock(decode_key_file(encode_key_file(file), "keys"), *access, "keys");
  }
};

// A ring of ada, ben and eve, as ada has it.
struct Ring {
  Person ada{.name = "ada"}, ben{.name = "ben"}, eve{.name = "eve"};
  UnlockedKeys keys = make_keys(ada.member(), 1);

  Ring() {
    keys = *ada.open(keys.file);
    add_member(keys, ben.member());
    add_member(keys, eve.member());
  }
};

bool is_member(const KeyFile& file, const Person& person) {
  return std::ranges::any_of(file.members,
                             [&](const Member& member) { return member.public_key == person.identity.public_key; });
}

void verify_against(const KeyFile& file, const KeyFile& known) {
  verify_chain(file.chain, file.ring, known.chain, "keys");
}

bool is_accepted(const KeyFile& file, const KeyFile& known) {
  return !error_of([&] { verify_against(file, known); });
}

// Reads with `keys` what is encrypted with the current key of `domain` in `file`.
bool reads_what_comes(const UnlockedKeys& keys, const UnlockedKeys& file, const std::string& domain) {
  const KeyRing theirs = ring_of(keys);
  const KeyRing ring = ring_of(file);
  const DomainKey* known = theirs.find(ring.current(domain).id);
  return known != nullptr && known->content == ring.current(domain).content;
}

}  // namespace

TEST_CASE("whoever knows any revision, or none, verifies all that follow it") {
  Ring ring;
  const KeyFile first = ring.keys.file;
  UnlockedKeys bens = *ring.ben.open(first);
  rotate_domain(bens, kMainDomain, 2);
  add_member(bens, Person{.name = "new"}.member());
  remove_member(bens, ring.eve.identity.public_key, 3);
  CHECK(is_accepted(bens.file, first));
  CHECK(is_accepted(bens.file, {}));
  CHECK(standing(first.chain, bens.file.chain) == Standing::kOlder);
  CHECK(standing(bens.file.chain, first.chain) == Standing::kNewer);
  CHECK(bens.file.revision() == first.revision() + 3);
  CHECK(find_fingerprint(bens.file.chain, fingerprint(first.chain.front())) == &bens.file.chain.front());
  CHECK(find_fingerprint(first.chain, fingerprint(bens.file.chain.back())) == nullptr);
}

TEST_CASE("bug: a ring that a stranger forges under the same ring id and revision is refused") {
  Ring ring;
  Person stranger{.name = "stranger"};
  UnlockedKeys forged = make_keys(stranger.member(), 1);
  forged = *stranger.open(forged.file);
  forged.file.ring = ring.keys.file.ring;
  forged.file.chain.clear();
  // His own root key, locked for our members under our names, signed with keys of his.
  UnlockedKeys again = make_keys(ring.ada.member(), 1);
  again.file.ring = ring.keys.file.ring;
  CHECK(fingerprint(again.file.chain.front()) != fingerprint(ring.keys.file.chain.front()));
  CHECK_FALSE(is_accepted(again.file, ring.keys.file));
  // A revision behind ours that nobody of ours signed.
  UnlockedKeys longer = ring.keys;
  longer.file.members.push_back(stranger.member());
  Link link;
  link.parents = {longer.file.chain.back().id};
  link.changes = {{true, stranger.identity.public_key, signing_key_of(stranger.identity).public_key}};
  const SigningKey his = signing_key_of(stranger.identity);
  append_link(longer.file.chain, longer.file.ring, link, &his);
  CHECK_FALSE(is_accepted(longer.file, ring.keys.file));
  CHECK_FALSE(is_accepted(longer.file, {}));
  longer.file.chain.back().signer = signing_key_of(ring.ada.identity).public_key;
  CHECK_FALSE(is_accepted(longer.file, ring.keys.file));
}

TEST_CASE("bug: who was removed puts an old file back, and is handed no key that comes") {
  Ring ring;
  const KeyFile before = ring.keys.file;
  remove_member(ring.keys, ring.eve.identity.public_key, 2);
  // The unchanged old file is older, and is replaced.
  CHECK(standing(ring.keys.file.chain, before.chain) == Standing::kNewer);
  // Her own revisions behind it, which add a friend, do not continue ours and add nobody.
  Person friendly{.name = "friend"};
  UnlockedKeys eves = *ring.eve.open(before);
  add_member(eves, friendly.member());
  rotate_domain(eves, "of eve", 3);
  CHECK(is_accepted(eves.file, before));
  REQUIRE(standing(ring.keys.file.chain, eves.file.chain) == Standing::kDiverged);
  const UnlockedKeys joined = join(ring.keys, *ring.ada.open(eves.file), 4);
  CHECK_FALSE(is_member(joined.file, ring.eve));
  CHECK_FALSE(is_member(joined.file, friendly));
  CHECK_FALSE(ring.eve.open(joined.file));
  CHECK_FALSE(friendly.open(joined.file));
  CHECK(ring.ben.open(joined.file));
  for (const char* domain : {"main", "history", "of eve"}) CHECK_FALSE(reads_what_comes(eves, joined, domain));
  CHECK(ring_of(joined).find(ring_of(eves).current("of eve").id) != nullptr);  // what she wrote can be read
  CHECK(is_accepted(joined.file, ring.keys.file));
  // A joined revision with her signature is refused.
  UnlockedKeys forged = eves;
  for (const Link& link : ring.keys.file.chain) {
    if (!find_link(forged.file.chain, link.id)) forged.file.chain.push_back(link);
  }
  Link link;
  link.parents = {eves.file.chain.back().id, ring.keys.file.chain.back().id};
  append_link(forged.file.chain, forged.file.ring, link, &eves.access.signer);
  CHECK_FALSE(is_accepted(forged.file, ring.keys.file));
}

TEST_CASE("a ring that went two ways is joined: who came stays, who left is gone, no key is lost") {
  Ring ring;
  const KeyFile before = ring.keys.file;
  Person cay{.name = "cay"}, dan{.name = "dan"};
  UnlockedKeys bens = *ring.ben.open(before);
  add_member(bens, cay.member());
  rotate_domain(bens, "of ben", 2);
  add_member(ring.keys, dan.member());
  rotate_domain(ring.keys, "of ada", 2);
  UnlockedKeys joined = join(ring.keys, *ring.ada.open(bens.file), 3);
  for (const Person* person : {&ring.ada, &ring.ben, &ring.eve, &cay, &dan}) CHECK(person->open(joined.file));
  CHECK(domains(joined.file) == std::vector<std::string>{"history", "main", "of ada", "of ben"});
  for (const UnlockedKeys* side : {&ring.keys, &bens}) {
    const KeyRing own = ring_of(*side);
    for (const DomainKey& key : own.keys()) CHECK(ring_of(joined).find(key.id) != nullptr);
  }
  CHECK(standing(joined.file.chain, bens.file.chain) == Standing::kNewer);
  CHECK(standing(joined.file.chain, ring.keys.file.chain) == Standing::kNewer);
  CHECK(is_accepted(joined.file, bens.file));
  CHECK(is_accepted(joined.file, ring.keys.file));

  // One side removes eve: she gets nothing new, not even under keys of the side that did not know.
  UnlockedKeys removed = *ring.ben.open(joined.file);
  remove_member(removed, ring.eve.identity.public_key, 4);
  rotate_domain(joined, "of ada", 4);
  const UnlockedKeys eves = *ring.eve.open(joined.file);
  for (const auto& [ours, theirs] : {std::pair(&joined, &removed), std::pair(&removed, &joined)}) {
    const Person& who = ours == &joined ? ring.ada : ring.ben;
    const UnlockedKeys both = join(*ours, *who.open(theirs->file), 5);
    CHECK_FALSE(is_member(both.file, ring.eve));
    for (const char* domain : {"main", "history", "of ada", "of ben"})
      CHECK_FALSE(reads_what_comes(eves, both, domain));
  }
}

TEST_CASE("two who removed each other are not joined by one of them") {
  Ring ring;
  UnlockedKeys bens = *ring.ben.open(ring.keys.file);
  remove_member(bens, ring.ada.identity.public_key, 2);
  const UnlockedKeys seen_by_eve = *ring.eve.open(bens.file);
  remove_member(ring.keys, ring.ben.identity.public_key, 2);
  CHECK_FALSE(ring.ada.open(bens.file));
  UnlockedKeys theirs = bens;
  theirs.access.signer = signing_key_of(ring.ada.identity);
  CHECK(error_of([&] { join(ring.keys, theirs, 3); }) == ErrorKind::kRefused);
  // A third person, a member on both sides, can join them.
  const UnlockedKeys eves = *ring.eve.open(ring.keys.file);
  const UnlockedKeys joined = join(eves, seen_by_eve, 3);
  CHECK(is_member(joined.file, ring.ada));
  CHECK_FALSE(is_member(joined.file, ring.ben));
}

TEST_CASE("the old passphrase, with an old file beside it, opens nothing of what comes after a new one") {
  constexpr ScryptCost kCheap{10, 8, 1};
  UnlockedKeys keys = make_keys(passphrase_member(as_bytes("old"), "p", kCheap, 1), 1);
  keys.access = *unwrap_root(keys.file, *passphrase_identity(keys.file, as_bytes("old")));
  const UnlockedKeys before = keys;
  replace_member(keys, keys.file.members[0].public_key, passphrase_member(as_bytes("new"), "p", kCheap, 2), 2);
  CHECK_FALSE(passphrase_identity(keys.file, as_bytes("old")));
  CHECK(error_of([&] { unlock(keys.file, before.access, "keys"); }) == ErrorKind::kCorrupt);
  for (const char* domain : {"main", "history"}) CHECK_FALSE(reads_what_comes(before, keys, domain));
  CHECK(is_accepted(keys.file, before.file));
}

TEST_CASE("keys that became zero bytes come back from who has them, and never in place of another") {
  Ring ring;
  const std::uint32_t main = ring_of(ring.keys).current(kMainDomain).id;
  UnlockedKeys zeroed = ring.keys;
  CHECK(erase_keys(zeroed.file, {main}));
  CHECK(lacks_keys_of(zeroed.file, ring.keys.file, {}));
  CHECK_FALSE(lacks_keys_of(zeroed.file, ring.keys.file, {main}));
  CHECK_FALSE(put_back(zeroed, ring.keys, {main}));
  CHECK(put_back(zeroed, ring.keys, {}));
  CHECK(ring_of(zeroed).current(kMainDomain).content == ring_of(ring.keys).current(kMainDomain).content);
  UnlockedKeys other = ring.keys;
  rotate_domain(other, kMainDomain, 2);
  std::erase_if(other.file.keys, [&](const DataKey& key) { return key.id == main; });
  for (DataKey& key : other.file.keys) {
    if (key.current && key.domain == kMainDomain) key.id = main;
  }
  CHECK(erase_keys(zeroed.file, {main}));
  CHECK_FALSE(put_back(zeroed, other, {}));
}

TEST_CASE("a chain that does not hang together, or would cost more than it is worth, is refused when it is read") {
  Ring ring;
  const RingId& id = ring.keys.file.ring;
  const auto decodes = [&](const Chain& chain) {
    ByteWriter out;
    put_chain(out, chain);
    ByteReader in(out.bytes(), "chain");
    return !error_of([&] { get_chain(in, id, static_cast<std::uint32_t>(chain.size())); });
  };
  const Chain good = ring.keys.file.chain;
  REQUIRE(good.size() == 3);
  CHECK(decodes(good));
  CHECK_FALSE(decodes({}));
  CHECK_FALSE(decodes({good[0], good[2]}));
  CHECK_FALSE(decodes({good[1], good[2]}));
  CHECK_FALSE(decodes({good[0], good[1], good[2], good[2]}));
  CHECK_FALSE(decodes({good[0], good[2], good[1]}));
  Chain branch = good;  // a branch that leads nowhere: it would authenticate a revision that the file does not follow
  Link link;
  link.parents = {good[0].id};
  append_link(branch, id, link, &ring.keys.access.signer);
  CHECK_FALSE(decodes(branch));
  Chain high = good;
  high[2].revision = 9;
  CHECK_FALSE(decodes(high));
  RingId other = id;
  other[0] ^= 1;
  ByteWriter out;
  put_chain(out, good);
  ByteReader in(out.bytes(), "chain");
  CHECK(error_of([&] { get_chain(in, other, 3); }) == ErrorKind::kCorrupt);  // of another ring
}
