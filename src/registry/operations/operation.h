// Operations: immutable, hash-chained records of every change to metadata (mlx-format-operation(5)). Only `apply`
// writes the projected tables of meta.db, so the database can be rebuilt from operations alone.
//
// An operation's bytes are canonical JSON with its maker's Ed25519 signature; its id is their SHA-256. A new kind is
// one file with its apply function, and one row in the table of kinds.cpp. Whose signature counts: trust.h.
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
  std::int64_t time = 0;        // unix microseconds by the writer's clock; for people only, no decision depends on it
  std::string body;             // canonical JSON of the kind's own fields
  Digest signer;                // Ed25519 public key; zero for an operation of format 1, which is unsigned
  store::Signature signature;   // over signed_bytes()

  bool is_signed() const { return !signer.is_zero(); }
};

// True if one person made both in one clone. An unsigned operation is never by somebody who signs.
inline bool same_maker(const Operation& a, const Operation& b) {
  return a.actor == b.actor && a.signer == b.signer;
}

// The id of the person with this key in this clone. An id made from another key cannot be signed for.
std::string actor_of(const std::string& clone, const Digest& signer);

inline constexpr const char* kOperationPurpose = "mlx-operation";   // the namespace of its signature
inline constexpr std::int64_t kMostTime = 253'402'300'800'000'000;  // the year 10000: times must be earlier

Bytes encode(const Operation& operation);
// Throws kCorrupt if fields are missing, of another type or out of bounds, if the actor does not match the clone and
// the signer, or if the bytes are not canonical. Does not verify the signature.
Operation decode(ByteView bytes);
Bytes signed_bytes(const Operation& operation);
bool signature_holds(const Operation& operation);

// A fixed order for a set of operations: by generation (the length of the longest path from an operation without
// parents in the set), then by id. Parents come first, and clocks do not matter.
std::vector<Operation> fixed_order(std::vector<Operation> operations);

std::string random_id();  // for clones and runs: 16 lower-case hex digits from the kernel's random generator

}  // namespace mlx::registry
