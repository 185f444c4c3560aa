// [people] of mlx.toml: whose keys may do what. Git tracks the file, and code review guards it. The table is parsed
// strictly, and edited as text.
#pragma once

#include <string>
#include <vector>

#include "registry/operations/kind.h"

namespace mlx::registry {

inline constexpr Right kAllRights[] = {Right::kCommit, Right::kPromote, Right::kErase, Right::kKeys};
const char* right_name(Right right);
Right parse_right(const std::string& text);  // throws kUsage, listing the rights

// A retired key, or a withdrawn right. Signatures up to `until` still count, later ones do not.
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
  std::vector<Digest> until;  // if not empty: only these operations and their ancestors count
  std::vector<FormerTrust> before = {};
};
struct People {
  bool declared = false;
  std::vector<TrustedPerson> people;
  std::vector<Digest> unsigned_until;                   // operations up to these count without a signature
  const TrustedPerson* whose(const Digest& key) const;  // nullptr if nobody who counts today has this key
};
People declared_people(const std::string& root);  // throws kUsage with file and line

// These edit [people] as text. Return true if the file changed.
bool trust_person(const std::string& root, const TrustedPerson& person, bool dry_run);
bool end_trust(const std::string& root, const std::string& name, const std::vector<Digest>& until, bool dry_run);
// Declares up to which operations unsigned ones count.
void declare_unsigned(const std::string& root, const std::vector<Digest>& until, bool dry_run);

}  // namespace mlx::registry
