// An operation's generation is one more than the largest of its parents' (mlx-format-operation(5)). It is known at once
// if operations are added after their parents, as they come from a database or a journal. Otherwise generations are
// computed when all operations are there, starting from those without parents.
#include "registry/operations/operation_stage.h"

#include <algorithm>
#include <tuple>

namespace mlx::registry {
namespace {

// Row numbers start at 1 and have no gaps until rows are removed. Contents are in a separate table, so that queries on
// the graph read no bodies. `places` is filled only if the order of adding is not the fixed one.
constexpr const char* kStageTables = R"sql(
CREATE TABLE staged (
  row INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, generation INTEGER NOT NULL, time INTEGER NOT NULL);
CREATE TABLE contents (
  row INTEGER PRIMARY KEY, kind TEXT NOT NULL, actor TEXT NOT NULL, clone TEXT NOT NULL, parents BLOB NOT NULL,
  signer BLOB NOT NULL, signature BLOB NOT NULL, body TEXT NOT NULL);
CREATE INDEX contents_by_kind ON contents (kind);
CREATE TABLE links (parent BLOB NOT NULL, child INTEGER NOT NULL, PRIMARY KEY (parent, child)) WITHOUT ROWID;
CREATE TABLE places (place INTEGER PRIMARY KEY, row INTEGER NOT NULL);
BEGIN;
)sql";

Bytes joined(const std::vector<Digest>& digests) {
  Bytes bytes;
  for (const Digest& digest : digests) bytes.insert(bytes.end(), digest.bytes.begin(), digest.bytes.end());
  return bytes;
}

std::vector<Digest> split(const Bytes& bytes) {
  std::vector<Digest> digests;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Digest::bytes))
    digests.push_back(Digest::from(ByteView(bytes).subspan(at, sizeof(Digest::bytes))));
  return digests;
}

}  // namespace

// A database without a name: SQLite keeps it in memory while it is small, then in a file that it removes on closing.
// Nobody reads it after a crash, and nothing in it is ever rolled back.
store::Database scratch_database(const char* tables) {
  store::Database db("", store::Database::Open::kCreate, store::Database::Sharing::kLocal);
  db.run("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -4096;");
  db.run(tables);
  return db;
}

OperationStage::OperationStage()
    : db_(scratch_database(kStageTables)),
      find_(db_.prepare("SELECT row, generation FROM staged WHERE id = ?")),
      awaited_(db_.prepare("SELECT 1 FROM links WHERE parent = ? LIMIT 1")),
      insert_(db_.prepare("INSERT INTO staged (row, id, generation, time) VALUES (?, ?, ?, ?)")),
      insert_content_(db_.prepare("INSERT INTO contents (row, kind, actor, clone, parents, signer, signature, body)"
                                  " VALUES (?, ?, ?, ?, ?, ?, ?, ?)")),
      link_(db_.prepare("INSERT INTO links (parent, child) VALUES (?, ?)")),
      content_(db_.prepare("SELECT s.id, s.time, c.kind, c.actor, c.clone, c.parents, c.signer, c.signature, c.body"
                           " FROM staged s JOIN contents c ON c.row = s.row WHERE s.row = ?")),
      place_of_row_(db_.prepare("SELECT place FROM places WHERE row = ?")),
      row_at_(db_.prepare("SELECT row FROM places WHERE place = ?")) {}

std::optional<std::int64_t> OperationStage::generation_of(const Digest& id) {
  std::optional<std::int64_t> generation;
  if (find_.bind(id).step()) generation = find_.int64(1);
  find_.reset();
  return generation;
}

void OperationStage::add(const Operation& operation) {
  if (has(operation.id)) return;
  std::int64_t generation = 0;
  for (const Digest& parent : operation.parents) {
    if (const auto before = generation_of(parent)) generation = std::max(generation, *before + 1);
  }
  if (is_parent(operation.id)) parents_first_ = false;
  if (std::tie(generation, operation.id) < std::tie(last_generation_, last_id_)) in_order_ = false;
  last_generation_ = generation;
  last_id_ = operation.id;
  const std::int64_t row = ++last_row_;
  insert_.bind(row, operation.id, generation, operation.time).run();
  insert_content_
      .bind(row, operation.kind, operation.actor, operation.clone, joined(operation.parents), operation.signer,
            ByteView(operation.signature.bytes), operation.body)
      .run();
  for (const Digest& parent : operation.parents) link_.bind(parent, row).run();
  ++size_;
}

void OperationStage::take_out_incomplete(const std::function<void(const Operation&)>& lost) {
  work_out_generations();
  db_.run(
      "CREATE TABLE incomplete AS WITH RECURSIVE gone (row) AS ("
      "  SELECT child FROM links WHERE parent NOT IN (SELECT id FROM staged)"
      "  UNION SELECT l.child FROM gone g JOIN staged s ON s.row = g.row JOIN links l ON l.parent = s.id)"
      " SELECT row FROM gone");
  std::uint64_t count = 0;
  {
    store::Statement select =
        db_.prepare("SELECT i.row FROM incomplete i JOIN staged s ON s.row = i.row ORDER BY s.generation, s.id");
    for (; select.step(); ++count) lost(read(select.int64(0)));
  }
  if (count > 0) {
    for (const char* table : {"staged", "contents"})
      db_.run(fmt::format("DELETE FROM {} WHERE row IN (SELECT row FROM incomplete)", table));
    db_.run("DELETE FROM links WHERE child IN (SELECT row FROM incomplete)");
    size_ -= count;
    in_order_ = false;  // rows have gaps
  }
  db_.run("DROP TABLE incomplete");
}

// An operation that is its own ancestor is never reached, and is left out.
void OperationStage::work_out_generations() {
  if (parents_first_) return;
  parents_first_ = true;
  in_order_ = false;
  db_.run(
      "CREATE TABLE waiting (row INTEGER PRIMARY KEY, parents INTEGER NOT NULL);"
      "INSERT INTO waiting SELECT l.child, count(*) FROM links l JOIN staged s ON s.id = l.parent GROUP BY l.child;"
      "CREATE TABLE ready (turn INTEGER PRIMARY KEY, row INTEGER NOT NULL UNIQUE);"
      "UPDATE staged SET generation = 0;"
      "INSERT INTO ready (row) SELECT row FROM staged WHERE row NOT IN (SELECT row FROM waiting)");
  store::Statement next =
      db_.prepare("SELECT s.row, s.id, s.generation FROM ready r JOIN staged s ON s.row = r.row WHERE r.turn = ?");
  store::Statement children = db_.prepare("SELECT child FROM links WHERE parent = ?");
  store::Statement raise = db_.prepare("UPDATE staged SET generation = max(generation, ?) WHERE row = ?");
  store::Statement meet = db_.prepare("UPDATE waiting SET parents = parents - 1 WHERE row = ? RETURNING parents");
  store::Statement push = db_.prepare("INSERT INTO ready (row) VALUES (?)");
  for (std::int64_t turn = 1; next.bind(turn).step(); ++turn) {
    const std::int64_t generation = next.int64(2) + 1;
    for (children.bind(next.digest(1)); children.step();) {
      const std::int64_t child = children.int64(0);
      raise.bind(generation, child).run();
      const bool all_met = meet.bind(child).step() && meet.int64(0) == 0;
      meet.reset();
      if (all_met) push.bind(child).run();
    }
    children.reset();
    next.reset();
  }
  next.reset();
  db_.run("DELETE FROM staged WHERE row NOT IN (SELECT row FROM ready)");
  store::Statement left = db_.prepare("SELECT count(*) FROM staged");
  if (left.step()) size_ = static_cast<std::uint64_t>(left.int64(0));
}

void OperationStage::settle() {
  work_out_generations();
  if (in_order_) return;
  db_.run(
      "INSERT INTO places (row) SELECT row FROM staged ORDER BY generation, id;"
      "CREATE UNIQUE INDEX places_by_row ON places (row)");
}

void OperationStage::settle_as_added() {
  CHECK(parents_first_);
  in_order_ = true;
}

Operation OperationStage::read(std::int64_t row) {
  CHECK(content_.bind(row).step());
  Operation operation;
  operation.id = content_.digest(0);
  operation.time = content_.int64(1);
  operation.kind = content_.text(2);
  operation.actor = content_.text(3);
  operation.clone = content_.text(4);
  operation.parents = split(content_.blob(5));
  operation.signer = content_.digest(6);
  std::ranges::copy(content_.blob(7), operation.signature.bytes.begin());
  operation.body = content_.text(8);
  content_.reset();
  return operation;
}

void OperationStage::visit(const Visit& visit) {
  store::Statement rows =
      db_.prepare(in_order_ ? "SELECT row FROM staged ORDER BY row" : "SELECT row FROM places ORDER BY place");
  while (rows.step()) visit(read(rows.int64(0)));
}

void OperationStage::visit_kind(const std::string& kind, const Visit& visit) {
  store::Statement rows = db_.prepare(in_order_ ? "SELECT row FROM contents WHERE kind = ? ORDER BY row"
                                                : "SELECT c.row FROM contents c JOIN places p ON p.row = c.row"
                                                  " WHERE c.kind = ? ORDER BY p.place");
  for (rows.bind(kind); rows.step();) visit(read(rows.int64(0)));
}

void OperationStage::visit_slices(const std::function<void(const std::vector<Operation>&)>& visit) {
  constexpr std::size_t kMostOperations = 1024, kMostBytes = 4 << 20;
  std::vector<Operation> slice;
  std::size_t bytes = 0;
  const auto flush = [&] {
    visit(slice);
    slice.clear();
    bytes = 0;
  };
  this->visit([&](const Operation& operation) {
    bytes += operation.body.size();
    slice.push_back(operation);
    if (slice.size() == kMostOperations || bytes >= kMostBytes) flush();
  });
  if (!slice.empty()) flush();
}

void OperationStage::visit_ids(const std::function<void(const Digest&)>& visit) {
  store::Statement rows =
      db_.prepare(in_order_ ? "SELECT id FROM staged ORDER BY row"
                            : "SELECT s.id FROM places p JOIN staged s ON s.row = p.row ORDER BY p.place");
  while (rows.step()) visit(rows.digest(0));
}

Operation OperationStage::at(std::uint64_t place) {
  if (in_order_) return read(static_cast<std::int64_t>(place));
  CHECK(row_at_.bind(place).step());
  const std::int64_t row = row_at_.int64(0);
  row_at_.reset();
  return read(row);
}

std::optional<std::uint64_t> OperationStage::place_of(const Digest& id) {
  std::optional<std::uint64_t> place;
  if (find_.bind(id).step()) place = static_cast<std::uint64_t>(find_.int64(0));
  find_.reset();
  if (in_order_ || !place) return place;
  CHECK(place_of_row_.bind(*place).step());
  place = static_cast<std::uint64_t>(place_of_row_.int64(0));
  place_of_row_.reset();
  return place;
}

bool OperationStage::has(const Digest& id) {
  return generation_of(id).has_value();
}

bool OperationStage::has_prefix(const std::string& hex) {
  if (hex.empty()) return true;
  return db_.prepare("SELECT 1 FROM staged WHERE substr(lower(hex(id)), 1, ?) = ? LIMIT 1")
      .bind(static_cast<std::int64_t>(hex.size()), hex)
      .step();
}

bool OperationStage::is_parent(const Digest& id) {
  const bool any = awaited_.bind(id).step();
  awaited_.reset();
  return any;
}

std::optional<std::vector<Digest>> OperationStage::parents_of(const Digest& id) {
  store::Statement select =
      db_.prepare("SELECT c.parents FROM staged s JOIN contents c ON c.row = s.row WHERE s.id = ?");
  if (!select.bind(id).step()) return std::nullopt;
  return split(select.blob(0));
}

std::vector<Digest> OperationStage::heads() {
  std::vector<Digest> heads;
  store::Statement select =
      db_.prepare("SELECT id FROM staged s WHERE NOT EXISTS (SELECT 1 FROM links WHERE parent = s.id) ORDER BY id");
  while (select.step()) heads.push_back(select.digest(0));
  return heads;
}

void OperationStage::visit_missing(const std::function<void(const Digest&, const Digest&)>& visit) {
  store::Statement select = db_.prepare(
      "SELECT l.parent, s.id FROM links l JOIN staged s ON s.row = l.child"
      " WHERE NOT EXISTS (SELECT 1 FROM staged WHERE id = l.parent) ORDER BY l.child, l.parent");
  while (select.step()) visit(select.digest(0), select.digest(1));
}

void OperationStage::visit_later_than(std::int64_t time, const Visit& visit) {
  store::Statement select = db_.prepare("SELECT row FROM staged WHERE time > ? ORDER BY row");
  for (select.bind(time); select.step();) visit(read(select.int64(0)));
}

void OperationStage::visit_backdated(std::int64_t skew, std::int64_t latest,
                                     const std::function<void(const Link&)>& visit) {
  store::Statement select = db_.prepare(
      "SELECT p.id, p.time, c.row FROM links l JOIN staged p ON p.id = l.parent JOIN staged c ON c.row = l.child"
      " WHERE c.time < p.time - ? AND p.time <= ? ORDER BY l.child, l.parent");
  for (select.bind(skew, latest); select.step();) visit({select.digest(0), select.int64(1), read(select.int64(2))});
}

std::optional<std::pair<Digest, Digest>> OperationStage::first_misplaced() {
  store::Statement select = db_.prepare(
      "SELECT here.id, belongs.id FROM places p JOIN staged here ON here.row = p.place JOIN staged belongs ON"
      " belongs.row = p.row WHERE p.place <> p.row ORDER BY p.place LIMIT 1");
  if (!select.step()) return std::nullopt;
  return std::pair(select.digest(0), select.digest(1));
}

DigestTable::DigestTable()
    : db_(scratch_database("CREATE TABLE digests (id BLOB PRIMARY KEY) WITHOUT ROWID; BEGIN;")),
      insert_(db_.prepare("INSERT OR IGNORE INTO digests (id) VALUES (?) RETURNING 1")),
      find_(db_.prepare("SELECT 1 FROM digests WHERE id = ?")) {}

bool DigestTable::insert(const Digest& id) {
  const bool fresh = insert_.bind(id).step();
  insert_.reset();
  return fresh;
}

bool DigestTable::contains(const Digest& id) {
  const bool there = find_.bind(id).step();
  find_.reset();
  return there;
}

void DigestTable::visit(const std::function<void(const Digest&)>& visit) {
  store::Statement select = db_.prepare("SELECT id FROM digests ORDER BY id");
  while (select.step()) visit(select.digest(0));
}

}  // namespace mlx::registry
