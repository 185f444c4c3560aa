// Whose operations count for what. Every operation is signed; [people] of mlx.toml (declared_people.h) says whose key
// may do what. Without that table the keys that this clone has taken operations of count, and a fresh clone takes those
// that it meets first: enough for one person, and for nobody else.
//
// Who may no longer sign keeps what stood in the graph before: `until` names operations, never times.
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

// What the graph of operations is asked: the parents of an operation, nullopt for one that is not known.
using ParentsOf = std::function<std::optional<std::vector<Digest>>(const Digest& id)>;
using DigestSet = std::unordered_set<Digest, DigestHash>;
DigestSet with_ancestors(std::vector<Digest> of, const ParentsOf& parents_of);

// Judges operations one by one against one state of trust.
class Trust {
 public:
  // `known`: keys that count where nobody is declared. `first_contact`: so does every key then.
  Trust(const Kinds& kinds, const People& people, const std::vector<Digest>& known, bool first_contact,
        const ParentsOf& parents_of);
  // What is wrong with it, "" where it counts. Its signature is checked too.
  std::string objection(const Operation& operation) const;
  bool may(const Digest& key, Right right) const;  // now: without what is bounded by `until`

 private:
  // One key of one person, for as long as it counts.
  struct Grant {
    std::string name;
    Digest key;
    std::vector<Right> may;
    bool bounded = false;
    DigestSet reached = {};  // where bounded: what counts
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

// What is wrong with each, "" where it counts. By all cores: a signature takes a tenth of a millisecond.
std::vector<std::string> objections_to(const std::vector<Operation>& operations, const Trust& trust, Pool& pool);

// The parents of operations that are recorded.
ParentsOf parents_in(store::Database& db);

// What this clone records is judged before it is: kRefused, naming who lacks which right and what helps. A run that was
// allowed to begin may end, whatever [people] says meanwhile: that is judged when it is published. Of the operation
// only kind, body and actor are looked at. `root`: where mlx.toml stands. `own`: who signs here.
void require_may_sign(const Kinds& kinds, const std::string& root, const std::function<const Signer*()>& own,
                      const Operation& operation);

// For errors. "0123456789ab (made clf@v2)"
std::string described(const Kinds& kinds, const Operation& operation);
// The command by which somebody in [people] gives the key this right, beside those that it has.
std::string trusting_command(const People& people, const Digest& key, Right right);
// What gives the key the right, for whoever may change [people].
std::string way_to_right(const People& people, const Digest& key, Right right);

}  // namespace mlx::registry
