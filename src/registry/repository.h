// An open repository: its folder, store, database and configuration. Every command that needs a repository holds one.
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

// What a repository needs from layers above it. open_repository() (sync/open_repository.h) provides it.
struct RepositoryHooks {
  // Fetches objects that the store lacks from a remote; false if it must not or cannot.
  std::function<bool(Repository&, const std::vector<store::Store::Missing>&)> fetch_missing;
  // Called when the database was opened or operations arrived: destroys the keys that operations have erased.
  std::function<void(Repository&)> destroy_erased;
};

class Repository {
 public:
  // Makes .mlx/ in `folder` and writes .mlx/.gitignore, so that git ignores it. No error if it exists; true if it is
  // new.
  static bool init(const std::string& folder, store::Disk& disk, bool encrypted = false);
  // The nearest folder with .mlx/, starting at `start` and going up.
  static std::optional<std::string> find_root(const std::string& start);
  // Opens the repository that find_root() finds. Throws kNotFound with the hint `mlx init`, or `mlx pull` if this is a
  // git clone with mlx.toml or *.mlx pointers but without .mlx/. `kinds` and `interruption` must outlive the
  // repository. Work in the repository that takes a Progress checks the same interruption.
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
  store::Store& store();                      // opened on first use
  store::StoreOptions store_options() const;  // the options that the store is opened with
  // Opened and updated on first use. If the file cannot be written, this is a private copy: reading works, and
  // recording throws the error that says why.
  store::Database& db();
  void refresh();  // sees what others have recorded since, even if db() is a private copy
  Keys& keys();    // for an encrypted repository or its remotes
  LiveRuns& live_runs();
  store::StatCache& stat_cache();
  Pool& pool();
  // The signer of what this clone records (signer.h); nullopt if nothing was recorded yet.
  const std::optional<Signer>& find_signer();
  const Signer& signer();         // made if there is none
  const std::string& clone_id();  // 16 random hex digits
  // One line if the clone's own id, a part of the actors' ids, is damaged; else "".
  std::string clone_id_problem() const;
  void remove_clone_id();  // the next operation makes another
  // The pseudonymous id of that person in this clone; "" if there is no signer yet.
  std::string actor();
  // The ids of everybody who has recorded something in this clone, and of the signer.
  const std::set<std::string>& own_actors();

  // Records one operation: appends it to the journal (synced), then applies it in a transaction. `body` holds the
  // kind's fields. If the settings give the actor a name that is not recorded yet, an operation that names the actor
  // comes first.
  Operation record(const std::string& kind, const Json& body);
  // The same for a body that depends on the database: `make` runs under the write lock and fills the body. It returns
  // false if there is nothing to record (the result is then nullopt). If it throws, nothing changes.
  std::optional<Operation> record_with(const std::string& kind, const std::function<bool(Json& body)>& make);
  // Merges operations from elsewhere (fetch): into the journal, then as a union in the fixed order; rebuilds the
  // projection if the histories diverge.
  void merge(OperationStage& operations);  // must be settled
  void merge(const std::vector<Operation>& operations);
  // Throws what merge() would throw, and changes nothing.
  void try_merge(OperationStage& operations);
  // Throws kCorrupt, with the remedies, while earlier history of this clone is lost. Recording on top of a gap would
  // look to others like a second beginning.
  void require_history();
  // What is wrong with the clock by which this process recorded something; "" if nothing is known to be.
  const std::string& clock_doubt() const;
  std::vector<Digest> heads();
  std::vector<Operation> operations();  // all, in the fixed order

  // Turns a path of the command line (relative to `current`) into one relative to the root, without a trailing slash.
  // Throws kUsage for a path outside of the root.
  std::string inside(const std::string& path, const std::string& current) const;

 private:
  Operation append(const std::string& kind, const Json& body);
  bool may_introduce();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlx::registry
