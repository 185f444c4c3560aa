// Encoding, verifying and comparing chains. A link's parents come before it, so every walk over a chain is a loop.
#include "store/crypto/key_chain.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace mlx::store {

namespace {

constexpr std::string_view kPurpose = "mlx-keys";
constexpr std::size_t kMaxChanges = 2048;  // of one link: all members replaced
constexpr std::size_t kMaxBranches = 64;   // unmerged at once: bounds the memory of verifying

Bytes unsigned_bytes(const Link& link) {
  ByteWriter out;
  out.u64(link.revision);
  out.u16(static_cast<std::uint16_t>(link.parents.size()));
  out.u16(static_cast<std::uint16_t>(link.changes.size()));
  out.u32(0);
  for (const Digest& parent : link.parents) out.raw(parent.bytes);
  out.raw(link.state.bytes);
  for (const Link::Change& change : link.changes) {
    out.u64(change.member ? 1 : 0);
    out.raw(change.public_key.bytes);
    out.raw(change.signing_key.bytes);
  }
  out.raw(link.signer.bytes);
  return out.take();
}

Bytes signed_bytes(const Link& link, const RingId& ring) {
  Bytes bytes(ring.begin(), ring.end());
  const Bytes rest = unsigned_bytes(link);
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}

Link get_link(ByteReader& in, const RingId& ring) {
  Link link;
  link.revision = in.u64();
  const std::size_t parents = in.u16(), changes = in.u16();
  if (parents > 2 || changes > kMaxChanges || in.u32() != 0) in.corrupt("a revision that is none");
  for (std::size_t i = 0; i < parents; ++i) link.parents.push_back(Digest::from(in.take(32)));
  link.state = Digest::from(in.take(32));
  for (std::size_t i = 0; i < changes; ++i) {
    const std::uint64_t member = in.u64();
    if (member > 1) in.corrupt("a change of members that is none");
    Link::Change change{member == 1, Digest::from(in.take(32)), {}};
    change.signing_key = Digest::from(in.take(32));
    link.changes.push_back(change);
  }
  link.signer = Digest::from(in.take(32));
  const ByteView signature = in.take(link.signature.bytes.size());
  std::ranges::copy(signature, link.signature.bytes.begin());
  link.id = Digest::of(signed_bytes(link, ring));
  return link;
}

std::uint64_t next_revision(const Chain& chain, const std::vector<Digest>& parents) {
  std::uint64_t last = 0;
  for (const Digest& parent : parents) last = std::max(last, find_link(chain, parent)->revision);
  return last + 1;
}

void apply(const Link& link, Membership& members) {
  for (const Link::Change& change : link.changes) {
    if (change.member)
      members.insert_or_assign(change.public_key, change.signing_key);
    else
      members.erase(change.public_key);
  }
}

// The links of the first chain that the second lacks, in order.
std::vector<const Link*> beyond(const Chain& chain, const Chain& other) {
  std::set<Digest> known;
  for (const Link& link : other) known.insert(link.id);
  std::vector<const Link*> found;
  for (const Link& link : chain) {
    if (!known.contains(link.id)) found.push_back(&link);
  }
  return found;
}

}  // namespace

void put_chain(ByteWriter& out, const Chain& chain) {
  for (const Link& link : chain) {
    out.raw(unsigned_bytes(link));
    out.raw(link.signature.bytes);
  }
}

Chain get_chain(ByteReader& in, const RingId& ring, std::uint32_t count) {
  Chain chain;
  std::map<Digest, std::uint64_t> revisions;
  std::set<Digest> leading;  // to a later one
  for (std::uint32_t i = 0; i < count; ++i) {
    Link link = get_link(in, ring);
    std::uint64_t before = 0;
    for (const Digest& parent : link.parents) {
      const auto at = revisions.find(parent);
      if (at == revisions.end()) in.corrupt("a revision whose predecessor is missing");
      before = std::max(before, at->second);
      leading.insert(parent);
    }
    if (link.parents.empty() != (i == 0)) in.corrupt("a chain with two beginnings");
    if (link.parents.size() == 2 && link.parents[0] == link.parents[1]) in.corrupt("a revision joined with itself");
    if (link.revision != before + 1 || !revisions.emplace(link.id, link.revision).second)
      in.corrupt("revisions out of order");
    chain.push_back(std::move(link));
  }
  if (count == 0 || leading.size() + 1 != count) in.corrupt("a revision that leads nowhere");
  return chain;
}

void append_link(Chain& chain, const RingId& ring, Link link, const SigningKey* signer) {
  if (chain.size() >= kMaxLinks) {
    throw Error(ErrorKind::kRefused, fmt::format("these keys were changed {} times: their history is full", kMaxLinks),
                "clone the project, and push it to an empty remote with keys of its own");
  }
  link.revision = next_revision(chain, link.parents);
  if (signer != nullptr) {
    link.signer = signer->public_key;
    link.signature = sign(*signer, kPurpose, signed_bytes(link, ring));
  }
  link.id = Digest::of(signed_bytes(link, ring));
  chain.push_back(std::move(link));
}

namespace {

[[noreturn]] void fail_unvouched(const Link& link, const std::string& what) {
  throw Error(ErrorKind::kCorrupt,
              fmt::format("{}: revision {} was not signed by a member of the revision before", what, link.revision),
              "somebody who is no member wrote them: see who can write there; `mlx push --repair` puts yours back");
}

}  // namespace

void verify_chain(const Chain& chain, const RingId& ring, const Chain& known, const std::string& what) {
  const std::vector<const Link*> fresh = beyond(chain, known);
  std::map<Digest, std::size_t> uses;  // as the revision before one that is still to be verified
  for (const Link* link : fresh) {
    for (const Digest& parent : link->parents) ++uses[parent];
  }
  std::map<Digest, Membership> after;
  for (const Link* link : fresh) {
    if (link->parents.empty() && !known.empty()) fail_unvouched(*link, what);
    for (const Digest& parent : link->parents) {
      if (!after.contains(parent)) after[parent] = members_after(chain, *find_link(chain, parent));
      if (!signs(after[parent], link->signer)) fail_unvouched(*link, what);
    }
    if (!link->parents.empty() && !verify(link->signer, kPurpose, signed_bytes(*link, ring), link->signature))
      fail_unvouched(*link, what);
    Membership members = link->parents.empty() ? Membership() : after[link->parents[0]];
    apply(*link, members);
    for (const Digest& parent : link->parents) {
      if (--uses[parent] == 0) after.erase(parent);
    }
    if (uses.contains(link->id)) after.emplace(link->id, std::move(members));
    if (after.size() > kMaxBranches) fail(ErrorKind::kCorrupt, "{}: too many branches of revisions", what);
  }
}

const Link* find_link(const Chain& chain, const Digest& id) {
  const auto at = std::ranges::find(chain, id, &Link::id);
  return at == chain.end() ? nullptr : &*at;
}

Membership members_after(const Chain& chain, const Link& link) {
  std::vector<const Link*> path;  // newest first
  for (const Link* at = &link; at != nullptr; at = at->parents.empty() ? nullptr : find_link(chain, at->parents[0]))
    path.push_back(at);
  Membership members;
  for (auto at = path.rbegin(); at != path.rend(); ++at) apply(**at, members);
  return members;
}

bool signs(const Membership& members, const Digest& signing_key) {
  return std::ranges::any_of(members, [&](const auto& member) { return member.second == signing_key; });
}

std::string fingerprint(const Link& link) {
  std::string digest = to_base64(link.id.bytes);
  while (digest.ends_with('=')) digest.pop_back();
  return "SHA256:" + digest;
}

const Link* find_fingerprint(const Chain& chain, std::string_view text) {
  const auto at = std::ranges::find_if(chain, [&](const Link& link) { return fingerprint(link) == text; });
  return at == chain.end() ? nullptr : &*at;
}

Standing standing(const Chain& ours, const Chain& theirs) {
  const Digest &our_last = ours.back().id, &their_last = theirs.back().id;
  if (our_last == their_last) return Standing::kSame;
  if (find_link(theirs, our_last)) return Standing::kOlder;
  if (find_link(ours, their_last)) return Standing::kNewer;
  return Standing::kDiverged;
}

JoinedMembers join_members(const Chain& ours, const Chain& theirs) {
  JoinedMembers joined{members_after(ours, ours.back()), false};
  std::set<Digest> gone;
  for (const Link* link : beyond(ours, theirs)) {
    for (const Link::Change& change : link->changes) {
      if (!change.member) gone.insert(change.public_key);
    }
  }
  joined.someone_left = !gone.empty();
  for (const Link* link : beyond(theirs, ours)) {
    if (!signs(joined.members, link->signer)) continue;
    for (const Link::Change& change : link->changes) {
      if (!change.member) {
        joined.someone_left = true;
        joined.members.erase(change.public_key);
      } else if (!gone.contains(change.public_key)) {
        joined.members.emplace(change.public_key, change.signing_key);
      }
    }
  }
  return joined;
}

}  // namespace mlx::store
