// Finding, making and opening a repository, and the two ways in which operations enter it: recorded here, merged from
// elsewhere.
//
// An operation is applied, then appended to the journal (synced), then committed, all under the database's write lock.
// What can not be applied is therefore never journaled; what was journaled and not committed (a crash) is applied by
// the next opening.
#include "registry/repository.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/path.h"
#include "registry/bring.h"
#include "registry/domains.h"
#include "registry/history.h"
#include "registry/keys.h"
#include "registry/live_runs.h"
#include "registry/own_folder.h"
#include "registry/random_id.h"
#include "registry/signer.h"
#include "store/layout.h"

namespace mlx::registry {
namespace {

constexpr const char* kFolder = ".mlx";

bool has_pointer_files(const std::string& folder) {
  if (!is_folder(folder) || ::access(folder.c_str(), R_OK) != 0) return false;
  for (const std::string& name : list_folder(folder)) {
    if (name.size() > 4 && name.ends_with(".mlx")) return true;
  }
  return false;
}

// A fresh `git clone` of a project that uses mlx: mlx.toml, or pointers here or one folder down.
bool looks_like_clone(const std::string& folder) {
  if (path_exists(join_path(folder, "mlx.toml")) || has_pointer_files(folder)) return true;
  for (const char* inside : {"data", "models"}) {
    if (has_pointer_files(join_path(folder, inside))) return true;
  }
  return false;
}

// `folder` and every one above it, until `matches`; "" where none does.
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

// A random id of the clone: with a person's key it makes the id of an actor.
std::string clone_id_path(const std::string& mlx_folder) {
  return join_path(mlx_folder, "actor");
}

void write_small_file(store::Disk& disk, const std::string& path, std::string_view text, mode_t mode) {
  const std::string temporary = fmt::format("{}.{}", path, random_id());
  try {
    const Fd fd = disk.create(temporary);
    if (::fchmod(fd.get(), mode) != 0) fail_errno(errno, temporary, "change the mode of");
    disk.write(fd, as_bytes(text), temporary);
    disk.sync(fd, temporary);
    disk.rename(temporary, path);
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
  disk.sync_folder(parent_path(path));
}

// Made where it is missing.
std::string read_clone_id(const std::string& mlx_folder, store::Disk& disk) {
  const std::string path = clone_id_path(mlx_folder);
  if (!path_exists(path)) write_small_file(disk, path, random_id() + "\n", 0600);
  std::string text = read_text(path);
  if (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
    throw Error(ErrorKind::kCorrupt, fmt::format("{}:1: expected 16 hex digits", path), "delete it: a new one is made");
  }
  return text;
}

// What others made may be much to apply, and nobody has to wait for it.
class Interruptible final : public Progress {
 public:
  void begin(std::string_view, std::uint64_t, std::string_view) override {}
  void advance(std::uint64_t) override { check_interrupted(); }
  void note(std::string_view) override {}
  void end() override {}
  void warn(std::string_view) override {}
};

// Migrations, and what a crash has left in the journal.
void bring_up_to_date(store::Database& db, Repository& repository) {
  db.migrate(kMigrations);
  if (!is_outdated(db) && !journal_differs(db, journal_path(repository.mlx_folder()))) return;
  const auto take_in = [&] {
    store::Transaction transaction(db);
    repository.store().reload();
    project_anew_where_outdated(db, repository.store());
    catch_up(db, repository.store(), repository.disk(), repository.mlx_folder());
    transaction.commit();
  };
  db.writable() ? take_in() : db.change_privately(take_in);
}

// A disk may have room for opening the database and none for bringing it up to date.
std::unique_ptr<store::Database> open_database(Repository& repository) {
  const std::string path = join_path(repository.mlx_folder(), "meta.db");
  std::optional<Error> obstacle;
  try {
    auto db = std::make_unique<store::Database>(open_metadata(repository.mlx_folder()));
    bring_up_to_date(*db, repository);
    return db;
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
  store::Disk& disk;
  Pool& pool;
  Environment environment;
  std::unique_ptr<store::Store> store;
  std::unique_ptr<store::Database> db;
  std::unique_ptr<store::StatCache> stat_cache;
  std::string clone_id;
  std::shared_ptr<Keys> keys;
  std::unique_ptr<LiveRuns> live_runs;
  std::optional<Signer> signer;

  const std::string& find_clone_id();
};

bool Repository::init(const std::string& folder, store::Disk& disk, bool encrypted) {
  const std::string mlx = join_path(absolute_path(folder), kFolder);
  require_own_folder(absolute_path(folder));
  const bool made = !path_exists(join_path(mlx, "meta.db"));
  make_folders(mlx);
  store::Store::create(mlx, disk, encrypted || store::holds_encrypted_packs(mlx));
  if (!path_exists(join_path(mlx, ".gitignore"))) write_small_file(disk, join_path(mlx, ".gitignore"), "*\n", 0644);
  if (!path_exists(clone_id_path(mlx))) write_small_file(disk, clone_id_path(mlx), random_id() + "\n", 0600);
  (void)open_metadata(mlx);
  return made;
}

std::optional<std::string> Repository::find_root(const std::string& start) {
  std::string root =
      first_upwards(absolute_path(start), [](const auto& f) { return is_folder(join_path(f, kFolder)); });
  return root.empty() ? std::nullopt : std::optional(std::move(root));
}

Repository::Repository(const std::string& start, store::Disk& disk, Pool& pool, Environment environment) {
  const std::string root = require_root(start);
  require_own_folder(root);
  state_.reset(new State{root,
                         join_path(root, kFolder),
                         disk,
                         pool,
                         std::move(environment),
                         nullptr,
                         nullptr,
                         nullptr,
                         {},
                         std::make_shared<Keys>(join_path(join_path(root, kFolder), "keys"), disk)});
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
Pool& Repository::pool() {
  return state_->pool;
}

store::Store& Repository::store() {
  if (state_->store) return *state_->store;
  state_->store = std::make_unique<store::Store>(state_->folder, state_->disk, state_->pool, store_options());
  state_->store->on_missing([this](const auto& objects) { return bring_objects(*this, objects); });
  return *state_->store;
}

store::StoreOptions Repository::store_options() const {
  store::StoreOptions options;
  options.keys = state_->keys;
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
    state_->stat_cache = std::make_unique<store::StatCache>(join_path(state_->folder, "cache.db"));
  return *state_->stat_cache;
}

store::Database& Repository::db() {
  if (state_->db) return *state_->db;
  state_->db = open_database(*this);
  try {
    forget_erased(*this);
  } catch (const Error& error) {
    // The store refuses what was erased already; its keys are shredded by the first who can write.
    if (error.kind != ErrorKind::kIo) throw;
    log("keys that were erased stay: {}", error.message);
  }
  return *state_->db;
}

void Repository::refresh() {
  if (!db().writable()) state_->db.reset();
  db();
}

const std::string& Repository::State::find_clone_id() {
  if (clone_id.empty()) clone_id = read_clone_id(folder, disk);
  return clone_id;
}

const std::optional<Signer>& Repository::find_signer() {
  if (!state_->signer) state_->signer = registry::find_signer({state_->environment, state_->root});
  return state_->signer;
}

const Signer& Repository::signer() {
  if (!find_signer()) state_->signer = find_or_make_signer({state_->environment, state_->root});
  return *state_->signer;
}

// Whoever has no key that can be used, or may not read the clone's id, has recorded nothing: what is asked is only
// which operations are theirs. record() says what is wrong.
std::string Repository::actor() {
  try {
    const std::optional<Signer>& known = find_signer();
    return known ? actor_of(state_->find_clone_id(), known->public_key) : std::string();
  } catch (const Error& error) {
    log("nobody signs here: {}", error.message);
    return {};
  }
}

Operation Repository::record(const std::string& kind, const Json& body) {
  return *record_with(kind, [&](Json& own) {
    own = body;
    return true;
  });
}

std::optional<Operation> Repository::record_with(const std::string& kind, const std::function<bool(Json&)>& make) {
  store::Database& database = db();
  const std::string path = journal_path(state_->folder);
  const Signer& own = signer();
  store::Transaction transaction(database);
  catch_up(database, store(), state_->disk, state_->folder);
  Json body = Json::object();
  if (!make(body)) return std::nullopt;
  if (kind == "operation.undo") store().reload();  // all others are applied again
  Operation operation;
  operation.kind = kind;
  operation.parents = select_heads(database);
  operation.clone = state_->find_clone_id();
  operation.actor = actor_of(operation.clone, own.public_key);
  operation.time = std::clamp<std::int64_t>(unix_micros(), 0, kMostTime - 1);  // what a wrong clock says is readable
  operation.body = canonical(body);
  operation.signer = own.public_key;
  operation.signature = own.sign(kOperationPurpose, signed_bytes(operation));
  const Bytes bytes = encode(operation);
  operation.id = Digest::of(bytes);
  adopt(database, store(), {operation});
  store::Journal(path, state_->disk).append(bytes);
  note_journal_size(database, path);
  transaction.commit();
  return operation;
}

void Repository::merge(const std::vector<Operation>& operations) {
  store::Database& database = db();
  const std::string path = journal_path(state_->folder);
  store::Transaction transaction(database);
  store().reload();  // what is applied again reads what others have sealed since it was opened
  catch_up(database, store(), state_->disk, state_->folder);
  std::vector<Operation> unknown;
  std::vector<Bytes> bytes;
  for (const Operation& operation : fixed_order(operations)) {
    if (is_recorded(database, operation.id)) continue;
    unknown.push_back(operation);
    bytes.push_back(encode(operation));
  }
  if (unknown.empty()) return;
  Interruptible interruptible;
  adopt(database, store(), std::move(unknown), interruptible);
  store::Journal(path, state_->disk).append_all(bytes);
  note_journal_size(database, path);
  transaction.commit();
  forget_erased(*this);
}

std::vector<Digest> Repository::heads() {
  return select_heads(db());
}

// Afterwards the store sees what they name, also where another process has made it since the store was opened.
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
