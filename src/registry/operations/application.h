// What an apply function works with: the operation, strict access to its body, the tables. Used by apply.cpp and the
// kinds (kinds/), the only code that writes projected tables.
//
// An apply function runs inside the caller's transaction, after every earlier operation of the fixed order was applied.
// It throws kCorrupt (naming the operation and the key) for a body that no mlx would have written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "registry/operations/ancestry.h"
#include "registry/operations/kinds.h"
#include "registry/operations/operation.h"
#include "store/pack/store.h"

namespace mlx::registry {

class Application {
 public:
  store::Database& db;
  const store::Store& store;
  const Kinds& kinds;
  const Operation& operation;
  std::int64_t seq;  // place of the operation in the fixed order

  Application(store::Database& database, const store::Store& objects, const Kinds& table, const Kind& kind,
              const Operation& applied, const Json& body, std::int64_t place, Ancestry& ancestry)
      : db(database),
        store(objects),
        kinds(table),
        operation(applied),
        seq(place),
        kind_(kind),
        body_(body),
        ancestry_(ancestry) {}

  std::string what() const;  // "operation 0123456789ab (alias.move)"
  std::string string(const char* key) const;
  std::string string_or_empty(const char* key) const;  // for a key that older operations lack
  std::int64_t integer(const char* key, std::int64_t least) const;
  std::vector<std::uint32_t> key_ids(const char* key) const;  // a list of key ids
  bool boolean(const char* key) const;
  std::string json(const char* key) const;  // canonical JSON of any value, "" for null
  // Digests are read only from the places that the kind's row declares (a CHECK). So a kind cannot apply a digest that
  // its row does not name.
  Digest digest(std::string_view at) const;
  std::optional<Digest> digest_or_null(std::string_view at) const;
  std::vector<Digest> digests(std::string_view at) const;  // "versions[]"
  // "inputs[].version": the text under "role" of each item, and the digest.
  std::vector<std::pair<std::string, Digest>> roles_and_digests(std::string_view at) const;
  void require_version(const std::string& artifact, const Digest& digest) const;  // an earlier operation made it
  [[noreturn]] void corrupt(const std::string& why) const;

  Ancestry& ancestry() const { return ancestry_; }
  bool follows(std::int64_t place) const;  // true if the operation at this place is an ancestor of this one
  bool follows(const Digest& earlier) const;
  // The person behind the operation, one for all their clones: the key, or the actor if it is unsigned.
  std::string maker() const;
  // Notes for people (remarks.h): this operation has no effect, or changes what the actor `whose` had made. `what` is
  // followed by a name: "the run was started by".
  void ignore(const std::string& what, const std::string& whose) const;
  void changes(const std::string& what, const std::string& whose) const;
  void note_change(std::int64_t place, const std::string& what) const;  // if somebody else made what is at `place`

 private:
  const Kind& kind_;
  const Json& body_;
  Ancestry& ancestry_;
};

struct Made {
  std::string maker, actor;
};
Made maker_at(store::Database& db, std::int64_t place);  // of the operation at `place`

}  // namespace mlx::registry
