// The chains decide who is a member (key_chain.h); the joined file has the keys of both files.
#include "store/crypto/key_join.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "store/crypto/key_seals.h"

namespace mlx::store {

namespace {

const DataKey* find_key(const KeyFile& file, std::uint32_t id) {
  const auto at = std::ranges::find(file.keys, id, &DataKey::id);
  return at == file.keys.end() ? nullptr : &*at;
}

// Appends the links that only `theirs` has; each comes after its parents.
void take_links(Chain& ours, const Chain& theirs) {
  for (const Link& link : theirs) {
    if (!find_link(ours, link.id)) ours.push_back(link);
  }
}

void take_keys(UnlockedKeys& keys, const UnlockedKeys& theirs) {
  for (const DataKey& key : theirs.file.keys) {
    if (const DataKey* known = find_key(keys.file, key.id)) {
      if (known->check == key.check && known->domain == key.domain) continue;
      fail(ErrorKind::kCorrupt, "key {:08x} of the domain '{}' is not the same in two files of one ring", key.id,
           known->domain);
    }
    DataKey copy = key;
    const auto holds_domain = [&](const DataKey& other) { return other.current && other.domain == key.domain; };
    copy.current = key.current && std::ranges::none_of(keys.file.keys, holds_domain);
    if (!key.erased()) seal_key(keys, copy, open_key(theirs, key));
    keys.file.keys.push_back(std::move(copy));
  }
}

void set_members(KeyFile& file, const KeyFile& theirs, const Membership& members) {
  std::vector<Member> joined;
  for (const std::vector<Member>* side : {&std::as_const(file.members), &theirs.members}) {
    for (const Member& member : *side) {
      const auto at = members.find(member.public_key);
      if (at == members.end() || at->second != member.signing_key) continue;
      if (std::ranges::find(joined, member.public_key, &Member::public_key) == joined.end()) joined.push_back(member);
    }
  }
  file.members = std::move(joined);
}

}  // namespace

UnlockedKeys join(const UnlockedKeys& ours, const UnlockedKeys& theirs, std::int64_t now) {
  const Digest& signer = ours.access.signer.public_key;
  const JoinedMembers who = join_members(ours.file.chain, theirs.file.chain);
  if (!signs(who.members, signer) || !signs(members_after(theirs.file.chain, theirs.file.chain.back()), signer)) {
    throw Error(ErrorKind::kRefused,
                fmt::format("the keys went two ways, as revision {} here and revision {} there, and in one of them you "
                            "are no member",
                            ours.file.revision(), theirs.file.revision()),
                "a member of both has to pull and push; `mlx push --repair` puts yours in place of theirs");
  }
  UnlockedKeys joined = ours;
  take_keys(joined, theirs);
  set_members(joined.file, theirs.file, who.members);
  if (who.someone_left)
    change_all(joined, now);
  else
    change_root(joined);
  take_links(joined.file.chain, theirs.file.chain);
  finish_revision(joined, {ours.file.chain.back().id, theirs.file.chain.back().id});
  return joined;
}

bool lacks_keys_of(const KeyFile& file, const KeyFile& other, const std::vector<std::uint32_t>& gone) {
  return std::ranges::any_of(file.keys, [&](const DataKey& key) {
    const DataKey* known = find_key(other, key.id);
    return key.erased() && known && !known->erased() && std::ranges::find(gone, key.id) == gone.end();
  });
}

bool put_back(UnlockedKeys& keys, const UnlockedKeys& from, const std::vector<std::uint32_t>& gone) {
  bool any = false;
  for (DataKey& key : keys.file.keys) {
    if (!key.erased() || std::ranges::find(gone, key.id) != gone.end()) continue;
    const DataKey* source = find_key(from.file, key.id);
    if (source == nullptr || source->erased() || source->check != key.check) continue;
    seal_key(keys, key, open_key(from, *source));
    any = true;
  }
  return any;
}

}  // namespace mlx::store
