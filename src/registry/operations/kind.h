// A kind of operation is one row. kinds.cpp holds the table of all rows; their functions are in kinds/, one file for
// each family. Every property of a kind is read from here: what travels, what gc keeps, undo, trust, the log text. A
// new kind is one file and one row.
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

// What a digest in a body refers to, and what follows from it.
enum class Role {
  kVersion,     // manifest of a version that the operation makes: gc keeps its tree, and the tree travels with it
  kReference,   // manifest of a version that it refers to: gc keeps its tree
  kParent,      // the version it was made from: keeps nothing
  kCheckpoint,  // a manifest local to this clone: gc keeps its tree, and it does not travel
  kSeries,      // a blob that `apply` reads: kept, and arrives before the operation
  kBlob,        // a blob: kept, and travels with the operation if it is present
  kLost,        // a version whose content is lost everywhere
  kErased,      // a version whose content was shredded
  kReplaced,    // the id of an operation that it replaces
  kTakenBack,   // the id of an operation that it takes back
  kOther,       // no content
};
inline constexpr std::size_t kRoles = static_cast<std::size_t>(Role::kOther) + 1;

// A place in a body that holds digests: "digest", "code.diff", "versions[]" (each of a list), "inputs[].version".
struct DigestField {
  Role role = Role::kOther;
  std::string_view at;
  bool or_text = false;  // the place may also hold a text that is not a digest
};

// Every place in a kind's bodies that holds digests. There is no default: a row says names({…}) or kNamesNothing. The
// kind's `apply` cannot read a digest at a place that is not declared here (Application::digest).
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

// The key domain that an operation's blobs and versions are encrypted under.
enum class ContentDomain {
  kHistory,   // the domain of operations
  kArtifact,  // the domain of the artifact under the key "artifact"
  kVersion,   // the domain of the version that it refers to
};

// Whether and when an operation can be undone.
struct UndoRule {
  const char* never = nullptr;                    // why not, as the end of a sentence; nullptr if it can
  const char* stays = "what it refers to stays";  // advice for when it prevents another operation's undo
  // The subject of the operation. Only the last operation in force on a subject can be undone. Two operations have the
  // same subject if `thing` and the texts under `keys` are equal; without `thing` each operation is its own subject.
  const char* thing = nullptr;
  std::array<const char*, 3> keys = {};
  bool needs_version = false;  // undoing an undo refers to a version that must exist
  bool both_hold = false;      // two concurrent ones both hold, until one is undone
};
inline constexpr UndoRule kCanBeUndone = {};
inline constexpr UndoRule kNeverUndone = {.never = "this is never undone"};

// The right that a signer needs ([people] of mlx.toml).
enum class Right { kCommit, kPromote, kErase, kKeys };
using RightOf = Right (*)(const Operation& operation, const Json& body);
template <Right right>
Right takes(const Operation&, const Json&) {
  return right;
}

using Apply = void (*)(const Application& application);
using Text = std::string (*)(const Body& body);
// True if the content that an operation in force names is still wanted, by the projected tables.
using Keeps = bool (*)(store::Database& db, const Operation& operation, const Json& body);

struct Traits {
  bool tells_names = false;      // names an actor: recorded beside what the actor does, never undone by name
  bool folded = false;           // the log shows only the last one of each run
  const char* number = nullptr;  // the key of the version number that it assigns
  bool ends_run = false;         // ends a run that was allowed to start: judged when it is published, not when recorded
};

struct Kind {
  std::string_view name;  // "version.create"
  Apply apply;            // projects it (application.h)
  Text text;              // a short text for people
  ContentFields content;
  ContentDomain domain;
  UndoRule undo;
  RightOf right;
  Traits traits = {};
  Keeps keeps = nullptr;  // nullptr: as long as it is in force
};

}  // namespace mlx::registry
