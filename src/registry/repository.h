// An opened repository: the folder, its store, its database, its configuration. What every command that needs a
// repository holds.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/interruption.h"
#include "base/json_fwd.h"
#include "base/parallel.h"
#include "registry/operations/operation.h"
#include "store/pack/store.h"
#include "store/sqlite.h"
#include "store/worktree/scan.h"

namespace mlx::registry {

class Keys;
class Kinds;
class LiveRuns;
class OperationStage;
class Repository;
struct Signer;

// What a repository asks of the floors above it. open_repository() (sync/open_repository.h) hands it in.
struct RepositoryHooks {
  // Fetches what the store lacks from a remote; false where that is not to be.
  std::function<bool(Repository&, const std::vector<store::Store::Missing>&)> fetch_missing;
  // The database was opened, or operations came in: keys that they erased are destroyed.
  std::function<void(Repository&)> destroy_erased;
};

class Repository {
 public:
  // Makes .mlx/ in `folder` (fine where it exists), writes .mlx/.gitignore so that git ignores it. Returns true where
  // new.
  static bool init(const std::string& folder, store::Disk& disk, bool encrypted = false);
  // The folder with .mlx/ that holds `start`, or is it.
  static std::optional<std::string> find_root(const std::string& start);
  // Opens what find_root() finds. kNotFound with the hint `mlx init`. Where a git clone has mlx.toml
  // or *.mlx pointers but no .mlx/ yet, the hint is `mlx pull`.
  // `kinds` and `interruption` outlive it. Work in the repository that takes a Progress looks at the same interruption.
  Repository(const std::string& start, store::Disk& disk, Pool& pool, Environment environment, RepositoryHooks hooks,
             const Kinds& kinds, const Interruption& interruption);
  ~Repository();
  Repository(const Repository&) = delete;
  Repository& operator=(const Repository&) = delete;

  const std::string& root() const;  // absolute; the folder that holds .mlx/
  std::string mlx_folder() const;   // root/.mlx
  store::Disk& disk();
  const Environment& environment() const;
  const Kinds& kinds() const;                 // of operations
  const Interruption& interruption() const;   // of what is done in it
  store::Store& store();                      // opened when first used
  store::StoreOptions store_options() const;  // what this repository's store is opened with
  // Opened and brought up to date when first used: in the file, or where that cannot be written in a private copy, with
  // which everything that reads works and every record is the error that says why.
  store::Database& db();
  void refresh();  // sees what others have recorded since, also where db() is a private copy
  Keys& keys();    // of an encrypted repository or its remotes
  LiveRuns& live_runs();
  store::StatCache& stat_cache();
  Pool& pool();
  // Who signs what this clone records (signer.h); nullopt where nobody has recorded anything yet.
  const std::optional<Signer>& find_signer();
  const Signer& signer();         // made where there is none
  const std::string& clone_id();  // 16 random hex digits
  // One line where the clone's own id, which is a part of the actors' ids, is damaged; "" where it is not.
  std::string clone_id_problem() const;
  void remove_clone_id();  // the next operation makes another
  // The pseudonymous id of that person in this clone; "" where there is no signer yet.
  std::string actor();
  // The ids of all people who have recorded something in this clone, and that of the signer.
  const std::set<std::string>& own_actors();

  // Writes one operation: object to the journal (synced), then its apply in a transaction. `body` is the kind's fields.
  // Before it another that says who its actor is, where the settings give them a name that is not recorded yet.
  Operation record(const std::string& kind, const Json& body);
  // The same where the body depends on what stands in the database: `make` runs under the write lock, fills the body,
  // and returns false where nothing is to be recorded (then nullopt). What it throws leaves everything as before.
  std::optional<Operation> record_with(const std::string& kind, const std::function<bool(Json& body)>& make);
  // Operations from elsewhere (fetch): journal, then union in the fixed order, rebuilding the projection where they
  // diverge.
  void merge(OperationStage& operations);  // settled
  void merge(const std::vector<Operation>& operations);
  // Throws what merge() would, and changes nothing.
  void try_merge(OperationStage& operations);
  // kCorrupt, with the ways out, while what was recorded here before is lost: nothing is added on top of a gap, which
  // the others would take for another beginning.
  void require_history();
  // What is wrong with the clock by which this process has recorded something, "" where nothing is known to be.
  const std::string& clock_doubt() const;
  std::vector<Digest> heads();
  std::vector<Operation> operations();  // all, in the fixed order

  // A path of the command line (relative to `current`) as seen from the root, without a trailing slash. kUsage outside
  // of it.
  std::string inside(const std::string& path, const std::string& current) const;

 private:
  Operation append(const std::string& kind, const Json& body);
  bool may_introduce();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlx::registry
