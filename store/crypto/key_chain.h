// The history of a key file (mlx-format-keys(5), CHAIN): a link for each revision, signed by a member of the revision
// before. Used by key_file.cpp and key_changes.cpp, and to compare two files of one ring.
//
// A decoded chain is connected: the last link is the newest revision, and all others lead to it. Only verify_chain()
// shows that the signers were members. A chain holds no secret.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/crypto.h"
#include "store/crypto/signature.h"

namespace mlx::store {

using RingId = std::array<std::uint8_t, 16>;
using Membership = std::map<Digest, Digest>;  // public key → the key that the member signs with

struct Link {
  struct Change {
    bool member = false;  // true: added in this revision; false: removed
    Digest public_key, signing_key;
  };
  std::uint64_t revision = 1;
  std::vector<Digest> parents;  // none in the first; two if two clones' revisions were joined
  Digest state;                 // of the file in this revision (key_file.h)
  std::vector<Change> changes;  // since the first parent
  Digest signer;                // zero in the first
  Signature signature;          // zero in the first
  Digest id;                    // digest of the ring and of the link without its signature
};
using Chain = std::vector<Link>;

inline constexpr std::uint32_t kMaxLinks = 4096;

void put_chain(ByteWriter& out, const Chain& chain);
// kCorrupt if it is not connected. `count` is at most kMaxLinks.
Chain get_chain(ByteReader& in, const RingId& ring, std::uint32_t count);

// Completes `link` with revision, signature and id, and appends it. A chain's first link is not signed.
// kRefused if the chain is full.
void append_link(Chain& chain, const RingId& ring, Link link, const SigningKey* signer);

// kCorrupt if a link's signer was not a member in all of its parent revisions. Links that are also in `known` were
// verified before.
void verify_chain(const Chain& chain, const RingId& ring, const Chain& known, const std::string& what);

const Link* find_link(const Chain& chain, const Digest& id);  // nullptr if it is not in the chain
Membership members_after(const Chain& chain, const Link& link);
bool signs(const Membership& members, const Digest& signing_key);
// "SHA256:…" of one revision: it stands for the ring with all its members up to there.
std::string fingerprint(const Link& link);
const Link* find_fingerprint(const Chain& chain, std::string_view text);

// The relation of the first of two files of one ring to the second.
enum class Standing { kSame, kOlder, kNewer, kDiverged };
Standing standing(const Chain& ours, const Chain& theirs);

// The members of the joined file of two chains. Who was removed on one side is removed; the other side's changes count
// only if their signer is still a member here.
struct JoinedMembers {
  Membership members;
  bool someone_left = false;  // on either side
};
JoinedMembers join_members(const Chain& ours, const Chain& theirs);

}  // namespace mlx::store
