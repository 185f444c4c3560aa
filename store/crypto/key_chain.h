// The history of a file of keys (mlx-format-keys(5), CHAIN): a link for each revision, signed by somebody who was a
// member in the revision before. Used by key_file.cpp and key_changes.cpp, and by whoever compares two files of one
// ring.
//
// A chain that was decoded is connected: the last link is the newest revision, and all others lead to it. Who signed is
// known to be a member only after verify_chain(). No secret stands in a chain.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "store/crypto/crypto.h"
#include "store/crypto/signature.h"

namespace mlx::store {

using RingId = std::array<std::uint8_t, 16>;
using Membership = std::map<Digest, Digest>;  // public key → the key that the member signs with

struct Link {
  struct Change {
    bool member = false;  // from this revision on, or no longer
    Digest public_key, signing_key;
  };
  std::uint64_t revision = 1;
  std::vector<Digest> parents;  // none in the first; two where revisions of two clones were joined
  Digest state;                 // of the file in this revision (key_file.h)
  std::vector<Change> changes;  // since the first parent
  Digest signer;                // zero in the first
  Signature signature;          // zero in the first
  Digest id;                    // of all of it but the signature, and of the ring
};
using Chain = std::vector<Link>;

inline constexpr std::uint32_t kMaxLinks = 4096;

void put_chain(ByteWriter& out, const Chain& chain);
// kCorrupt where it is not connected. `count` is at most kMaxLinks.
Chain get_chain(ByteReader& in, const RingId& ring, std::uint32_t count);

// Appends the link that `link`, given without revision, signature and id, becomes. A chain's first link is not signed.
// kRefused where the chain is full.
void append_link(Chain& chain, const RingId& ring, Link link, const SigningKey* signer);

// kCorrupt where a link was signed by nobody who was a member in all revisions right before it. Links that `known` has
// too were verified before.
void verify_chain(const Chain& chain, const RingId& ring, const Chain& known, const std::string& what);

const Link* find_link(const Chain& chain, const Digest& id);  // nullptr where it is not in the chain
Membership members_after(const Chain& chain, const Link& link);
bool signs(const Membership& members, const Digest& signing_key);
// "SHA256:…" of one revision: whoever compares it compares the ring with all its members up to there.
std::string fingerprint(const Link& link);
const Link* find_fingerprint(const Chain& chain, std::string_view text);

// How two files of one ring stand to each other: the first to the second.
enum class Standing { kSame, kOlder, kNewer, kDiverged };
Standing standing(const Chain& ours, const Chain& theirs);

// Whom the joined file of two chains is locked for. Whoever is gone on one side is gone; of what the other side changed
// counts only what was signed by one who is a member here still.
struct JoinedMembers {
  Membership members;
  bool someone_left = false;  // on either side
};
JoinedMembers join_members(const Chain& ours, const Chain& theirs);

}  // namespace mlx::store
