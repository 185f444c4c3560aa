// [people] of mlx.toml: whose keys may do what. Git tracks it and its review guards it. Read strictly, changed as text.
#pragma once

#include <string>
#include <vector>

#include "registry/operations/kind.h"

namespace mlx::registry {

inline constexpr Right kAllRights[] = {Right::kCommit, Right::kPromote, Right::kErase, Right::kKeys};
const char* right_name(Right right);
Right parse_right(const std::string& text);  // kUsage with what there is

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
bool end_trust(const std::string& root, const std::string& name, const std::vector<Digest>& until, bool dry_run);
// Says up to which operations those that nobody signed count.
void declare_unsigned(const std::string& root, const std::vector<Digest>& until, bool dry_run);

}  // namespace mlx::registry
