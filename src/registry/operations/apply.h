// What the apply functions of all kinds of operations share. Used by operation.cpp (the table of kinds) and the
// apply_*.cpp files, one a family; nobody else writes projected tables.
//
// An apply function runs inside the caller's transaction, sees every earlier operation of the fixed order applied, and
// throws kCorrupt (naming the operation and the key) for a body that no mlx would have written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json_fwd.h"
#include "registry/operations/ancestry.h"
#include "registry/operations/operation.h"

namespace mlx::registry {

struct Application {
  store::Database& db;
  const store::Store& store;
  const Operation& operation;
  const Json& body;
  std::int64_t seq;  // place of the operation in the fixed order
  Ancestry& ancestry;

  std::string what() const;  // "operation 0123456789ab (alias.move)"
  std::string string(const char* key) const;
  std::string string_or_empty(const char* key) const;  // of a key that older operations do not have
  std::int64_t integer(const char* key, std::int64_t least) const;
  bool boolean(const char* key) const;
  Digest digest(const char* key) const;
  std::optional<Digest> digest_or_null(const char* key) const;
  std::string json(const char* key) const;  // canonical JSON of any value, "" for null
  [[noreturn]] void corrupt(const std::string& why) const;

  bool follows(std::int64_t place) const;  // whether the operation at this place is before this one in the graph
  bool follows(const Digest& earlier) const;
  // Whose operation it is, where one person's clones are one: the key, or the actor where nobody signed.
  std::string maker() const;
  // For people (remarks.h): the operation has no effect, or changes what `whose`, an actor, had made. `what` goes
  // before a name: "the run was started by".
  void ignore(const std::string& what, const std::string& whose) const;
  void changes(const std::string& what, const std::string& whose) const;
};

struct Made {
  std::string maker, actor;
};
Made maker_at(store::Database& db, std::int64_t place);  // of the operation there

using Apply = void (*)(const Application&);

void apply_version_create(const Application& application);
void apply_version_renumber(const Application& application);
void apply_version_lost(const Application& application);  // lost.cpp
void apply_alias_move(const Application& application);
void apply_tag_create(const Application& application);
void apply_tag_delete(const Application& application);
void apply_attach(const Application& application);
void apply_operation_undo(const Application& application);  // undo.cpp
void apply_actor_describe(const Application& application);  // people.cpp
void apply_actor_forget(const Application& application);
void apply_domain_assign(const Application& application);
void apply_key_erase(const Application& application);
void apply_run_start(const Application& application);
void apply_run_checkpoint(const Application& application);
void apply_run_resume(const Application& application);
void apply_run_end(const Application& application);

}  // namespace mlx::registry
