// Operations: immutable, hash-chained records of every change to metadata (mlx-format-operation(5)). The projected
// tables of meta.db are written by `apply` and nothing else, so that the database can be rebuilt from operations alone.
//
// An operation's bytes are canonical JSON with the Ed25519 signature of whoever made it; its id is their SHA-256. A new
// kind is one file with its apply, and one row in the table of kinds.cpp. Whose signature counts: trust.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/json_fwd.h"
#include "store/crypto/signature.h"
#include "store/sqlite.h"

namespace mlx::store {
class Store;
}

namespace mlx::registry {

struct Operation {
  Digest id;
  std::string
      kind;  // "version.create", "alias.move", "tag.create", "run.start", "run.checkpoint", "run.end", "attach" …
  std::vector<Digest> parents;  // heads of the graph when it was made, sorted
  std::string actor;            // pseudonymous id of a person in a clone: 16 hex digits; actor_of(clone, signer)
  std::string clone;            // random id of the clone: 16 hex digits; "" in format 1
  std::int64_t time = 0;        // unix microseconds by the writer's clock: for people, nothing is decided by it
  std::string body;             // canonical JSON of the kind's own fields
  Digest signer;                // Ed25519 public key; zero for an operation of format 1, which nobody signed
  store::Signature signature;   // over signed_bytes()

  bool is_signed() const { return !signer.is_zero(); }
};

// By one person in one clone. What nobody signed is by nobody who signs.
inline bool same_maker(const Operation& a, const Operation& b) {
  return a.actor == b.actor && a.signer == b.signer;
}

// The id of the person with this key in this clone. Nobody can sign under an id that another key makes.
std::string actor_of(const std::string& clone, const Digest& signer);

inline constexpr const char* kOperationPurpose = "mlx-operation";   // the namespace of its signature
inline constexpr std::int64_t kMostTime = 253'402'300'800'000'000;  // the year 10000: no operation is from then on

Bytes encode(const Operation& operation);
// kCorrupt where fields are missing, of other types or out of bounds, where the actor is not that of the clone and the
// signer, or bytes are not canonical. Whether the signature holds is another question.
Operation decode(ByteView bytes);
Bytes signed_bytes(const Operation& operation);
bool signature_holds(const Operation& operation);

// A fixed order for a set of operations: by generation (the longest way from an operation without parents in the set),
// then by id. Parents come first, and no clock has a say.
std::vector<Operation> fixed_order(std::vector<Operation> operations);

std::string random_id();  // names clones and runs: 16 lower-case hex digits from the kernel's generator

}  // namespace mlx::registry
