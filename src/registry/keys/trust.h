// Whose operations count for what. Every operation is signed; [people] of mlx.toml, which git tracks and its review
// guards, says whose key may do what. Without that table the keys that this clone has taken operations of count, and a
// fresh clone takes those that it meets first: enough for one person, and for nobody else.
//
// Operations from elsewhere are judged before anything of them is recorded. Who may no longer sign keeps what stood in
// the graph before: `until` names operations, never times.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "registry/operations/operation.h"
#include "registry/operations/operation_stage.h"
#include "registry/repository.h"

namespace mlx::registry {

enum class Right { kCommit, kPromote, kErase, kKeys };
inline constexpr Right kAllRights[] = {Right::kCommit, Right::kPromote, Right::kErase, Right::kKeys};
const char* right_name(Right right);
Right parse_right(const std::string& text);  // kUsage with what there is
Right right_of(const Operation& operation);  // what it takes to make it

// A key that was retired, or a right that was taken away: what it signed up to here counts on, and nothing later.
struct FormerTrust {
  Digest key;
  std::vector<Right> may;
  std::vector<Digest> until;
  bool operator==(const FormerTrust&) const = default;
};
struct TrustedPerson {
  std::string name;
  std::vector<Digest> keys;
  std::vector<Right> may;
  std::vector<Digest> until;  // where there are any: only these operations and what is before them count
  std::vector<FormerTrust> before = {};
};
struct People {
  bool declared = false;
  std::vector<TrustedPerson> people;
  std::vector<Digest> unsigned_until;                   // operations up to these count without a signature
  const TrustedPerson* whose(const Digest& key) const;  // nullptr where nobody who counts today has this key
};
People declared_people(const std::string& root);  // kUsage with file and line

// Changes to [people] as text. True where the file changed.
bool trust_person(const std::string& root, const TrustedPerson& person, bool dry_run);
struct TrustChange {
  std::string name;
  Digest key;
  std::vector<Right> may = {};  // all that they may from now on; empty: what they may already, or commit
  bool replace = false;         // their other keys are retired
  bool again = false;           // also where this key was retired
  bool up_to_now = false;       // counts for what the recorded history holds, and for nothing later
};
// What [people] is to say of somebody after that. Nobody loses what they signed while it counted. kRefused where a
// retired key would count again unasked.
TrustedPerson changed_person(Repository& repository, const TrustChange& change);
bool end_trust(const std::string& root, const std::string& name, const std::vector<Digest>& until, bool dry_run);

// Keys of the recorded history that stand nowhere in [people], not even as retired ones.
std::vector<Digest> undeclared_signers(Repository& repository);
// Where the recorded history begins with operations that nobody signed: [people] says up to where they count.
void declare_unsigned(Repository& repository, bool dry_run);

// What the graph of operations is asked: the parents of an operation, nullopt for one that is not known.
using ParentsOf = std::function<std::optional<std::vector<Digest>>(const Digest& id)>;
using DigestSet = std::unordered_set<Digest, DigestHash>;
DigestSet with_ancestors(std::vector<Digest> of, const ParentsOf& parents_of);

// Judges operations one by one against one state of trust.
class Trust {
 public:
  // `known`: keys that count where nobody is declared. `first_contact`: so does every key then.
  Trust(const People& people, const std::vector<Digest>& known, bool first_contact, const ParentsOf& parents_of);
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
  bool declared_;
  std::vector<Grant> grants_;
  DigestSet known_;
  bool first_contact_;
  DigestSet unsigned_;
};

// What is wrong with each, "" where it counts. By all cores: a signature takes a tenth of a millisecond.
std::vector<std::string> objections_to(const std::vector<Operation>& operations, const Trust& trust, Pool& pool);

// What this clone records is judged before it is: kRefused, naming who lacks which right and what helps. A run that was
// allowed to begin may end, whatever [people] says meanwhile: that is judged when it is published. Of the operation
// only kind, body and actor are looked at.
void require_may_record(Repository& repository, const Operation& operation);
void require_may_record(Repository& repository, const std::string& kind);
bool may_record(Repository& repository, const std::string& kind);

// kRefused, with who and what, where one of them does not count here. The keys that are met for the first time, and
// taken, where this clone had no operations at all.
std::vector<Digest> require_vouched(Repository& repository, OperationStage& arriving);
// The same of what is about to be published: nobody else would take what [people] does not vouch for.
void require_publishable(Repository& repository, OperationStage& leaving);

}  // namespace mlx::registry
