// What a kind of operation is: one row. The table of all rows is kinds.cpp, their functions stand in kinds/, one file a
// family. Everybody who has to know something of a kind reads it here: what travels and what gc keeps, undo, trust, the
// log. A new kind is one file and one row.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "store/sqlite.h"

namespace mlx::registry {

class Application;
class Body;
struct Operation;

// What a digest in a body stands for, and what follows from it.
enum class Role {
  kVersion,     // the manifest of a version that the operation makes: gc keeps its tree, and the tree travels with it
  kReference,   // the manifest of a version that it is about: gc keeps its tree
  kParent,      // the version that it was made from: keeps nothing
  kCheckpoint,  // a manifest of this clone alone: gc keeps its tree, and it does not travel
  kSeries,      // a blob that `apply` reads: kept, and arrives before the operation
  kBlob,        // a blob: kept, and travels with the operation where it is here
  kLost,        // a version whose content nobody has any more
  kErased,      // a version whose content is shredded
  kReplaced,    // the id of an operation whose place it takes
  kTakenBack,   // the id of an operation that no longer counts
  kOther,       // no content
};
inline constexpr std::size_t kRoles = static_cast<std::size_t>(Role::kOther) + 1;

// A place of a body where digests stand: "digest", "code.diff", "versions[]" (each of a list), "inputs[].version".
struct DigestField {
  Role role = Role::kOther;
  std::string_view at;
  bool or_text = false;  // a text that is no digest may stand there
};

// Every place of a kind's bodies where digests stand. There is no default: a row says names({…}) or kNamesNothing. What
// is not said here cannot be read by the kind's `apply` (Application::digest).
class ContentFields {
 public:
  ContentFields() = delete;
  constexpr std::span<const DigestField> fields() const { return {fields_.data(), count_}; }
  constexpr bool has(Role role) const { return find(role) != nullptr; }
  constexpr const DigestField* find(Role role) const {
    for (const DigestField& field : fields()) {
      if (field.role == role) return &field;
    }
    return nullptr;
  }
  constexpr bool declares(std::string_view at) const {
    for (const DigestField& field : fields()) {
      if (field.at == at) return true;
    }
    return false;
  }

 private:
  static constexpr std::size_t kMost = 4;
  constexpr explicit ContentFields(std::span<const DigestField> fields) : count_(fields.size()) {
    for (std::size_t i = 0; i < fields.size(); ++i) fields_[i] = fields[i];
  }
  template <std::size_t count>
  friend constexpr ContentFields names(const DigestField (&fields)[count]);
  friend struct NamesNothing;

  std::array<DigestField, kMost> fields_;
  std::size_t count_;
};
template <std::size_t count>
constexpr ContentFields names(const DigestField (&fields)[count]) {
  static_assert(count <= ContentFields::kMost);
  return ContentFields(fields);
}
struct NamesNothing {
  constexpr operator ContentFields() const { return ContentFields(std::span<const DigestField>()); }
};
inline constexpr NamesNothing kNamesNothing;

// The domain of keys that the blobs and versions of an operation are encrypted under.
enum class ContentDomain {
  kHistory,   // that of operations
  kArtifact,  // that of the artifact under the key "artifact"
  kVersion,   // that of the version which it refers to
};

// Whether an operation can be taken back.
struct UndoRule {
  const char* never = nullptr;                    // why not, as a sentence's end; nullptr where it can
  const char* stays = "what it refers to stays";  // the way on where it stands in the way of another's undo
  // What it is about: the last operation in force about a thing can be taken back and no earlier one. Operations are
  // about one thing where `thing` and the texts under `keys` are equal; without `thing` each is about itself.
  const char* thing = nullptr;
  std::array<const char*, 3> keys = {};
  bool needs_version = false;  // what is brought back refers to a version that has to be there
  bool both_hold = false;      // two that know nothing of each other hold both, until one is taken back
};
inline constexpr UndoRule kCanBeUndone = {};
inline constexpr UndoRule kNeverUndone = {.never = "this is never undone"};

// What a signer must be trusted with ([people] of mlx.toml).
enum class Right { kCommit, kPromote, kErase, kKeys };
using RightOf = Right (*)(const Operation& operation, const Json& body);
template <Right right>
Right takes(const Operation&, const Json&) {
  return right;
}

using Apply = void (*)(const Application& application);
using Text = std::string (*)(const Body& body);
// Whether the content that an operation in force names is still wanted, by the projected tables.
using Keeps = bool (*)(store::Database& db, const Operation& operation, const Json& body);

struct Traits {
  bool tells_names = false;      // says who an actor is: recorded beside what they do, never undone by name
  bool folded = false;           // the log shows the last of a run's in the place of all
  const char* number = nullptr;  // the key of the version number that it gives
  bool ends_run = false;  // goes on with what was allowed to begin: judged when it is published, not when recorded
};

struct Kind {
  std::string_view name;  // "version.create"
  Apply apply;            // projects it (application.h)
  Text text;              // in a few words, for people
  ContentFields content;
  ContentDomain domain;
  UndoRule undo;
  RightOf right;
  Traits traits = {};
  Keeps keeps = nullptr;  // nullptr: while it is in force
};

}  // namespace mlx::registry
