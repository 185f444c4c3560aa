// Verifies the history. Every operation is hashed again, and its place in the graph and in the fixed order is checked.
// The three places that hold operations (meta.db, journal, packs) are compared. The projected tables are made again
// from the operations and compared row by row. Then signatures are verified (audit_trust.h). Used by `mlx audit
// verify`.
//
// Reads the files as they are and repairs nothing, so it must run before the repository's database is opened.
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
  std::uint64_t operations = 0;       // undamaged ones in meta.db
  std::vector<Digest> heads;          // their heads, which vouch for all of them
  std::vector<std::string> problems;  // each names its place: "meta.db: versions: artifact='clf' …: was altered"
  std::vector<std::string> notes;     // findings that are no problem if nobody is declared (audit_trust.h)
  std::uint64_t rows = 0;             // of the projected tables
  bool history_lost = false;          // not all operations are known; this is one of the problems
};
// `head`: a prefix of the id of one operation that the history must contain (hex digits, with or without sha256:); ""
// for any history.
AuditReport verify_history(const std::string& root, store::Disk& disk, Pool& pool, Progress& progress,
                           const store::StoreOptions& options = {}, const std::string& head = {},
                           const Environment& environment = {}, const Kinds& kinds = known_kinds());

}  // namespace mlx::registry
