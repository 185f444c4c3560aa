// Whose operations count. Every operation is signed, and [people] of mlx.toml (declared_people.h) says whose key may do
// what. Without that table the keys count whose operations this clone has already accepted; a fresh clone accepts the
// keys that it meets first. That is enough for one person, and for nobody else.
//
// When a person loses a right, their earlier operations still count. `until` bounds them by operations, never by times.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "registry/keys/declared_people.h"
#include "registry/keys/signer.h"
#include "registry/operations/kinds.h"
#include "registry/operations/operation.h"
#include "store/sqlite.h"

namespace mlx::registry {

// Looks up the parents of an operation; nullopt if the operation is not known.
using ParentsOf = std::function<std::optional<std::vector<Digest>>(const Digest& id)>;
using DigestSet = std::unordered_set<Digest, DigestHash>;
DigestSet with_ancestors(std::vector<Digest> of, const ParentsOf& parents_of);

// Judges operations one by one against one state of trust.
class Trust {
 public:
  // `known`: the keys that count if nobody is declared. `first_contact`: every key counts then.
  Trust(const Kinds& kinds, const People& people, const std::vector<Digest>& known, bool first_contact,
        const ParentsOf& parents_of);
  // Why the operation does not count; "" if it does. Also verifies its signature.
  std::string objection(const Operation& operation) const;
  bool may(const Digest& key, Right right) const;  // now: without grants that `until` bounds

 private:
  // One key of one person, and how long it counts.
  struct Grant {
    std::string name;
    Digest key;
    std::vector<Right> may;
    bool bounded = false;
    DigestSet reached = {};  // for a bounded grant: the operations that count
    bool allows(Right right) const;
  };
  void grant(const TrustedPerson& person, const ParentsOf& parents_of);
  std::string objection_to_signer(const Operation& operation) const;
  const Kinds& kinds_;
  bool declared_;
  std::vector<Grant> grants_;
  DigestSet known_;
  bool first_contact_;
  DigestSet unsigned_;
};

// The objection to each operation, "" if it counts. Uses all cores: checking a signature takes a tenth of a
// millisecond.
std::vector<std::string> objections_to(const std::vector<Operation>& operations, const Trust& trust, Pool& pool);

// The parents of recorded operations.
ParentsOf parents_in(store::Database& db);

// Judges an operation before this clone records it. Throws kRefused with who lacks which right, and the remedy. A run
// that was allowed to start may end, even if [people] has changed meanwhile; its end is judged when it is published.
// Reads only the operation's kind, body and actor. `root`: the folder of mlx.toml. `own`: the signer here.
void require_may_sign(const Kinds& kinds, const std::string& root, const std::function<const Signer*()>& own,
                      const Operation& operation);

// For error messages: "0123456789ab (made clf@v2)"
std::string described(const Kinds& kinds, const Operation& operation);
// The command by which somebody in [people] adds this right to the key.
std::string trusting_command(const People& people, const Digest& key, Right right);
// How somebody who may change [people] can give the key this right.
std::string way_to_right(const People& people, const Digest& key, Right right);

}  // namespace mlx::registry
