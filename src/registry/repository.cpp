// Finds, makes and opens a repository. Operations enter it in two ways: they are recorded here, or merged from
// elsewhere.
//
// An operation is applied, then appended to the journal (synced), then committed, all under the database's write lock.
// So an operation that cannot be applied is never journaled. One that was journaled but not committed (a crash) is
// applied by the next opening.
#include "registry/repository.h"

#include <unistd.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/path.h"
#include "registry/clone_id.h"
#include "registry/keys/keys.h"
#include "registry/keys/person.h"
#include "registry/keys/signer.h"
#include "registry/keys/trust.h"
#include "registry/live_runs.h"
#include "registry/operations/clock_doubt.h"
#include "registry/operations/history.h"
#include "registry/operations/operation_stage.h"
#include "registry/operations/schema.h"
#include "registry/operations/undone.h"
#include "registry/settings/own_folder.h"
#include "store/pack/layout.h"

namespace mlx::registry {
namespace {

constexpr const char* kFolder = ".mlx";
constexpr const char* kIntroduction = "actor.describe";  // the operation that names an actor

bool has_pointer_files(const std::string& folder) {
  if (!is_folder(folder) || ::access(folder.c_str(), R_OK) != 0) return false;
  for (const std::string& name : list_folder(folder)) {
    if (name.size() > 4 && name.ends_with(".mlx")) return true;
  }
  return false;
}

// A fresh `git clone` of a project that uses mlx has mlx.toml, or pointers here or one folder down.
bool looks_like_clone(const std::string& folder) {
  if (path_exists(join_path(folder, "mlx.toml")) || has_pointer_files(folder)) return true;
  for (const char* inside : {"data", "models"}) {
    if (has_pointer_files(join_path(folder, inside))) return true;
  }
  return false;
}

// The first of `folder` and the folders above it that matches; "" if none does.
template <typename Matches>
std::string first_upwards(std::string folder, const Matches& matches) {
  for (;; folder = parent_path(folder)) {
    if (matches(folder)) return folder;
    if (folder == "/") return {};
  }
}

std::string require_root(const std::string& start) {
  const std::string from = absolute_path(start);
  if (auto root = Repository::find_root(from)) return *root;
  const std::string clone = first_upwards(from, looks_like_clone);
  throw Error(ErrorKind::kNotFound, fmt::format("{}: not in an mlx repository", from),
              clone.empty() ? "run `mlx init` to make one"
                            : "this is a clone of one: run `mlx pull` to fetch what its pointers name");
}

// Returns `operations` itself if none of them is recorded, the usual case; else a copy without the recorded ones.
OperationStage& unrecorded_of(store::Database& db, OperationStage& operations, std::optional<OperationStage>& copy) {
  bool any = false;
  operations.visit_ids([&](const Digest& id) { any = any || is_recorded(db, id); });
  if (!any) return operations;
  copy.emplace();
  operations.visit([&](const Operation& operation) {
    if (!is_recorded(db, operation.id)) copy->add(operation);
  });
  copy->settle();
  return *copy;
}

// Applies migrations, and what a crash has left in the journal.
void bring_up_to_date(store::Database& db, Repository& repository) {
  db.migrate(kMigrations);
  if (!is_outdated(db) && !journal_differs(db, journal_path(repository.mlx_folder()))) return;
  const auto take_in = [&] {
    store::Transaction transaction(db);
    repository.store().reload();
    project_anew_where_outdated(db, repository.store(), repository.kinds());
    catch_up(db, repository.store(), repository.kinds(), repository.disk(), repository.mlx_folder());
    transaction.commit();
  };
  db.writable() ? take_in() : db.change_privately(take_in);
}

// A full disk may have room to open the database but none to update it. With `obstacle` the database is only read.
std::unique_ptr<store::Database> open_database(Repository& repository, std::optional<Error> obstacle) {
  const std::string path = join_path(repository.mlx_folder(), "meta.db");
  try {
    if (!obstacle) {
      auto db = std::make_unique<store::Database>(open_metadata(repository.mlx_folder(), repository.disk()));
      bring_up_to_date(*db, repository);
      return db;
    }
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kIo || !path_exists(path)) throw;
    obstacle = error;
  }
  auto db = std::make_unique<store::Database>(store::Database::private_copy(path, *obstacle));
  bring_up_to_date(*db, repository);
  return db;
}

}  // namespace

struct Repository::State {
  std::string root, folder;
  std::optional<Error> stranger;          // why nothing is written
  std::unique_ptr<store::Disk> refusing;  // the disk in use then
  store::Disk& disk;
  Pool& pool;
  Environment environment;
  RepositoryHooks hooks;
  const Kinds& kinds;
  const Interruption& interruption;
  std::unique_ptr<store::Store> store;
  std::unique_ptr<store::Database> db;
  std::unique_ptr<store::StatCache> stat_cache;
  std::string clone_id;
  std::shared_ptr<Keys> keys;
  std::unique_ptr<LiveRuns> live_runs;
  std::optional<Signer> signer;
  std::string clock_doubt;
  std::optional<std::set<std::string>> own_actors;
  bool is_introduced = false;  // the signer's name is recorded, or the settings have none
  std::once_flag opened;       // the store

  const std::string& find_clone_id();
};

bool Repository::init(const std::string& folder, store::Disk& disk, bool encrypted) {
  const std::string mlx = join_path(absolute_path(folder), kFolder);
  require_own_folder(absolute_path(folder));
  const bool made = !path_exists(join_path(mlx, "meta.db"));
  make_folders(mlx);
  store::Store::create(mlx, disk, encrypted || store::holds_encrypted_packs(mlx));
  if (!path_exists(join_path(mlx, ".gitignore"))) write_small_text(disk, join_path(mlx, ".gitignore"), "*\n", 0644);
  make_clone_id(mlx, disk);
  (void)open_metadata(mlx, disk);
  return made;
}

std::optional<std::string> Repository::find_root(const std::string& start) {
  std::string root =
      first_upwards(absolute_path(start), [](const auto& f) { return is_folder(join_path(f, kFolder)); });
  return root.empty() ? std::nullopt : std::optional(std::move(root));
}

Repository::Repository(const std::string& start, store::Disk& disk, Pool& pool, Environment environment,
                       RepositoryHooks hooks, const Kinds& kinds, const Interruption& interruption) {
  const std::string root = require_root(start);
  require_own_folder(root);
  std::optional<Error> stranger = stranger_in(root, environment);
  std::unique_ptr<store::Disk> refusing = stranger ? refusing_disk(*stranger) : nullptr;
  store::Disk& used = refusing ? *refusing : disk;
  state_.reset(new State{root,
                         join_path(root, kFolder),
                         std::move(stranger),
                         std::move(refusing),
                         used,
                         pool,
                         std::move(environment),
                         std::move(hooks),
                         kinds,
                         interruption,
                         nullptr,
                         nullptr,
                         nullptr,
                         {},
                         std::make_shared<Keys>(join_path(join_path(root, kFolder), "keys"), used)});
}

Repository::~Repository() = default;

const std::string& Repository::root() const {
  return state_->root;
}
std::string Repository::mlx_folder() const {
  return state_->folder;
}
store::Disk& Repository::disk() {
  return state_->disk;
}
const Environment& Repository::environment() const {
  return state_->environment;
}
const Kinds& Repository::kinds() const {
  return state_->kinds;
}
const Interruption& Repository::interruption() const {
  return state_->interruption;
}
Pool& Repository::pool() {
  return state_->pool;
}

store::Store& Repository::store() {
  std::call_once(state_->opened, [this] {  // threads may be the first to ask
    auto store = std::make_unique<store::Store>(state_->folder, state_->disk, state_->pool, store_options());
    store->on_missing([this](const auto& objects) { return state_->hooks.fetch_missing(*this, objects); });
    state_->store = std::move(store);
  });
  return *state_->store;
}

store::StoreOptions Repository::store_options() const {
  store::StoreOptions options;
  options.keys = state_->keys;
  options.interruption = &state_->interruption;
  return options;
}

Keys& Repository::keys() {
  return *state_->keys;
}

LiveRuns& Repository::live_runs() {
  if (!state_->live_runs)
    state_->live_runs = std::make_unique<LiveRuns>(join_path(state_->folder, "runs"), state_->disk);
  return *state_->live_runs;
}

store::StatCache& Repository::stat_cache() {
  if (!state_->stat_cache)
    // A stat cache that a stranger wrote is not trusted.
    state_->stat_cache =
        std::make_unique<store::StatCache>(state_->stranger ? ":memory:" : join_path(state_->folder, "cache.db"));
  return *state_->stat_cache;
}

store::Database& Repository::db() {
  if (state_->db) return *state_->db;
  state_->db = open_database(*this, state_->stranger);
  try {
    state_->hooks.destroy_erased(*this);
  } catch (const Error& error) {
    // The store refuses erased content already; the first process that can write shreds its keys.
    if (error.kind != ErrorKind::kIo) throw;
    log("erased keys could not be destroyed yet: {}", error.message);
  }
  return *state_->db;
}

void Repository::refresh() {
  state_->own_actors.reset();
  if (!db().writable()) state_->db.reset();
  db();
}

const std::string& Repository::State::find_clone_id() {
  if (clone_id.empty()) clone_id = read_or_make_clone_id(folder, disk);
  return clone_id;
}

const std::string& Repository::clone_id() {
  return state_->find_clone_id();
}

std::string Repository::clone_id_problem() const {
  return registry::clone_id_problem(state_->folder);
}

void Repository::remove_clone_id() {
  state_->disk.remove(clone_id_path(state_->folder));
  state_->clone_id.clear();
}

const std::optional<Signer>& Repository::find_signer() {
  if (!state_->signer) state_->signer = registry::find_signer({state_->environment, state_->root});
  return state_->signer;
}

const Signer& Repository::signer() {
  if (!find_signer()) state_->signer = find_or_make_signer({state_->environment, state_->root});
  return *state_->signer;
}

// A person without a usable key, or who may not read the clone's id, has recorded nothing, so "" is the right answer.
// record() reports the error.
std::string Repository::actor() {
  try {
    const std::optional<Signer>& known = find_signer();
    return known ? actor_of(state_->find_clone_id(), known->public_key) : std::string();
  } catch (const Error& error) {
    log("nobody signs here: {}", error.message);
    return {};
  }
}

// An actor's id is made of the clone's id and the signer's key, so it tells the clone. Before operations were signed,
// it was the clone's id.
const std::set<std::string>& Repository::own_actors() {
  if (state_->own_actors) return *state_->own_actors;
  std::set<std::string> own;
  if (const std::string signing = actor(); !signing.empty()) own.insert(signing);
  try {
    const std::string& clone_id = state_->find_clone_id();
    store::Statement select = db().prepare("SELECT DISTINCT actor, signer FROM operations");
    while (select.step()) {
      const std::string made = select.null(1) ? clone_id : actor_of(clone_id, select.digest(1));
      if (select.text(0) == made) own.insert(made);
    }
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kIo && error.kind != ErrorKind::kCorrupt) throw;
    log("cannot read whose clone this is: {}", error.message);
  }
  return state_->own_actors.emplace(std::move(own));
}

Operation Repository::record(const std::string& kind, const Json& body) {
  return *record_with(kind, [&](Json& own) {
    own = body;
    return true;
  });
}

void Repository::require_history() {
  if (!is_history_lost(db()) || is_history_given_up(db())) return;
  throw Error(ErrorKind::kCorrupt,
              fmt::format("{}: its recorded history is lost, so nothing can be added", state_->folder),
              "`mlx pull` fetches what a remote has; `mlx fsck --rebuild` applies what the packs have");
}

const std::string& Repository::clock_doubt() const {
  return state_->clock_doubt;
}

// Call under the write lock. Appends after everything that is recorded.
Operation Repository::append(const std::string& kind, const Json& body) {
  const Signer& own = signer();
  const std::int64_t now = recordable_time(unix_micros());
  if (state_->clock_doubt.empty()) state_->clock_doubt = doubt_of_clock(db(), state_->root, now);
  Operation operation;
  operation.kind = kind;
  operation.parents = select_heads(db());
  operation.clone = clone_id();
  operation.actor = actor_of(operation.clone, own.public_key);
  operation.time = now;
  operation.body = canonical(body);
  require_may_sign(
      kinds(), root(), [&] { return &own; },
      operation);  // operations that others would refuse are refused before they are part of the history
  operation.signer = own.public_key;
  operation.signature = own.sign(kOperationPurpose, signed_bytes(operation));
  const Bytes bytes = encode(operation);
  operation.id = Digest::of(bytes);
  adopt(db(), store(), kinds(), operation);
  store::Journal(journal_path(state_->folder), state_->disk).append(bytes);
  return operation;
}

bool Repository::may_introduce() {
  Operation operation;
  operation.kind = kIntroduction;
  operation.body = "{}";
  try {
    require_may_sign(
        kinds(), root(), [&] { return &signer(); }, operation);
    return true;
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kRefused) throw;
    return false;
  }
}

std::optional<Operation> Repository::record_with(const std::string& kind, const std::function<bool(Json&)>& make) {
  if (state_->stranger) throw Error(*state_->stranger);  // before a key is made
  store::Database& database = db();
  require_history();
  (void)recordable_time(unix_micros());
  (void)signer();
  std::optional<Json> name;
  const bool tells_names = kinds().at(kind).traits.tells_names;
  if (!state_->is_introduced && !tells_names) name = introduction(database, store(), {environment(), root()}, actor());
  if (name && !may_introduce()) name.reset();
  store::Transaction transaction(database);
  catch_up(database, store(), kinds(), state_->disk, state_->folder);
  Json body = Json::object();
  if (!make(body)) return std::nullopt;
  if (kinds().at(kind).content.has(Role::kTakenBack)) store().reload();  // an undo applies all others again
  if (name) append(kIntroduction, *name);
  const Operation operation = append(kind, body);
  note_journal_size(database, journal_path(state_->folder));
  transaction.commit();
  state_->is_introduced = state_->is_introduced || !tells_names;
  state_->own_actors.reset();
  return operation;
}

void Repository::try_merge(OperationStage& operations) {
  store::Database& database = db();
  store::Transaction transaction(database);  // rolled back
  std::optional<OperationStage> copy;
  OperationStage& unknown = unrecorded_of(database, operations, copy);
  if (unknown.empty()) return;
  NoProgress quiet(interruption());
  adopt(database, store(), kinds(), unknown, quiet);
}

void Repository::merge(const std::vector<Operation>& operations) {
  OperationStage stage;
  for (const Operation& operation : operations) stage.add(operation);
  stage.settle();
  merge(stage);
}

void Repository::merge(OperationStage& operations) {
  store::Database& database = db();
  const std::string path = journal_path(state_->folder);
  store::Transaction transaction(database);
  store().reload();  // operations applied again read blobs that others have sealed since
  catch_up(database, store(), kinds(), state_->disk, state_->folder);
  std::optional<OperationStage> copy, found;
  OperationStage& arriving = unrecorded_of(database, operations, copy);
  if (arriving.empty()) return;
  if (is_history_lost(database)) {
    // What was pushed and then lost here comes back, and with it the operations in packs that need it.
    found.emplace();
    arriving.visit([&](const Operation& operation) { found->add(operation); });
    for (const Operation& operation : unrecorded_in_packs(database, store(), arriving)) found->add(operation);
    found->settle();
    note_history_found(database);
  }
  OperationStage& unknown = found ? *found : arriving;
  state_->own_actors.reset();
  NoProgress quiet(interruption());
  adopt(database, store(), kinds(), unknown, quiet);
  store::Journal(path, state_->disk).append_each([&](const store::Journal::Take& take) {
    unknown.visit([&](const Operation& operation) { take(encode(operation)); });
  });
  note_journal_size(database, path);
  transaction.commit();
  state_->hooks.destroy_erased(*this);
}

std::vector<Digest> Repository::heads() {
  return select_heads(db());
}

// Afterwards the store sees the objects that they name, even if another process stored them after the store was opened.
std::vector<Operation> Repository::operations() {
  std::vector<Operation> operations = select_operations(db());
  if (state_->store) state_->store->reload();
  return operations;
}

std::string Repository::inside(const std::string& path, const std::string& current) const {
  const std::string full = absolute_path(join_path(absolute_path(current), path));
  const std::optional<std::string> relative = relative_inside(full, state_->root);
  if (!relative) {
    throw Error(ErrorKind::kUsage, fmt::format("{}: outside of the repository {}", path, state_->root),
                "name something inside it, or change there with -C");
  }
  return *relative;
}

}  // namespace mlx::registry
