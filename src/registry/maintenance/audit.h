// Is the history what it was? Every operation is hashed again, its place in the graph and in the order is checked, the
// three places that hold operations (meta.db, journal, packs) are compared, and the tables that are made from
// operations are made again and compared row by row; then whose they are (audit_trust.h). Used by `mlx audit
// verify`.
//
// Reads the files as they are: nothing is repaired on the way, so it must run before the repository's database is
// opened.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/hash.h"
#include "base/progress.h"
#include "registry/operations/kinds.h"
#include "store/disk.h"
#include "store/pack/store.h"

namespace mlx {
class Pool;
}

namespace mlx::registry {

struct AuditReport {
  std::uint64_t operations = 0;       // those of meta.db that are whole
  std::vector<Digest> heads;          // that they have: what vouches for all of them
  std::vector<std::string> problems;  // each names its place: "meta.db: versions: artifact='clf' …: was altered"
  std::vector<std::string> notes;     // what is no problem where nobody is declared (audit_trust.h)
  std::uint64_t rows = 0;             // of the projected tables
  bool history_lost = false;          // not all operations are known, which is one of the problems
};
// `head`: what the id of one operation must begin with (hex digits, with or without sha256:); "" for any history.
AuditReport verify_history(const std::string& root, store::Disk& disk, Pool& pool, Progress& progress,
                           const store::StoreOptions& options = {}, const std::string& head = {},
                           const Environment& environment = {}, const Kinds& kinds = known_kinds());

}  // namespace mlx::registry
