// The schema of meta.db as numbered migrations. They are applied in order when a repository is opened, and never edited
// once released.
//
// Every table but `meta` is a projection of operations: written by `apply`, and emptied and rewritten by a rebuild. The
// one exception are the metrics of a running run (log_metrics), which are sealed into a blob when it ends.
#include "registry/operations/schema.h"

namespace mlx::registry {

const std::vector<store::Migration> kMigrations = {
    {1, R"sql(
-- journal_bytes: size of the journal when the database last agreed with it.
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;

-- seq: place in the fixed order of operations (mlx-format-operation(5)).
CREATE TABLE operations (
  seq INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, kind TEXT NOT NULL, actor TEXT NOT NULL, time INTEGER NOT NULL,
  bytes BLOB NOT NULL);
CREATE TABLE operation_parents (child BLOB NOT NULL, parent BLOB NOT NULL, PRIMARY KEY (child, parent)) WITHOUT ROWID;
CREATE TABLE heads (id BLOB PRIMARY KEY) WITHOUT ROWID;

CREATE TABLE artifacts (name TEXT PRIMARY KEY, kind TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE versions (
  seq INTEGER PRIMARY KEY, artifact TEXT NOT NULL, kind TEXT NOT NULL, digest BLOB NOT NULL, files INTEGER NOT NULL,
  bytes INTEGER NOT NULL, message TEXT NOT NULL, run TEXT NOT NULL, parent BLOB, actor TEXT NOT NULL, time INTEGER NOT NULL,
  UNIQUE (artifact, digest));
CREATE INDEX versions_by_digest ON versions (digest);
-- Claims on numbers: two digests with one number of one artifact are a conflict; one digest may hold several numbers.
CREATE TABLE version_numbers (
  artifact TEXT NOT NULL, number INTEGER NOT NULL, digest BLOB NOT NULL, actor TEXT NOT NULL, seq INTEGER NOT NULL,
  PRIMARY KEY (artifact, number, digest)) WITHOUT ROWID;
CREATE INDEX version_numbers_by_digest ON version_numbers (artifact, digest);
-- Moves in force: several rows with different digests are a conflict.
CREATE TABLE aliases (
  artifact TEXT NOT NULL, alias TEXT NOT NULL, operation BLOB NOT NULL, digest BLOB NOT NULL, actor TEXT NOT NULL,
  time INTEGER NOT NULL, PRIMARY KEY (artifact, alias, operation)) WITHOUT ROWID;
CREATE TABLE alias_moves (
  seq INTEGER PRIMARY KEY, artifact TEXT NOT NULL, alias TEXT NOT NULL, digest BLOB NOT NULL, actor TEXT NOT NULL,
  time INTEGER NOT NULL);
CREATE INDEX alias_moves_by_alias ON alias_moves (artifact, alias);
CREATE TABLE tags (
  artifact TEXT NOT NULL, tag TEXT NOT NULL, digest BLOB NOT NULL, actor TEXT NOT NULL, time INTEGER NOT NULL,
  PRIMARY KEY (artifact, tag, digest)) WITHOUT ROWID;
CREATE TABLE attachments (
  version BLOB NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, blob BLOB NOT NULL, actor TEXT NOT NULL,
  time INTEGER NOT NULL, PRIMARY KEY (version, kind, name)) WITHOUT ROWID;

CREATE TABLE runs (
  seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, command TEXT NOT NULL, title TEXT NOT NULL, status TEXT NOT NULL,
  key BLOB NOT NULL, params TEXT NOT NULL, environment TEXT NOT NULL, code TEXT NOT NULL, summary TEXT NOT NULL,
  error TEXT NOT NULL, actor TEXT NOT NULL, started INTEGER NOT NULL, ended INTEGER NOT NULL, metrics BLOB,
  points INTEGER NOT NULL);
CREATE INDEX runs_by_key ON runs (key);
CREATE TABLE run_inputs (
  run TEXT NOT NULL, position INTEGER NOT NULL, role TEXT NOT NULL, version BLOB NOT NULL, PRIMARY KEY (run, position))
  WITHOUT ROWID;
CREATE INDEX run_inputs_by_version ON run_inputs (version);
CREATE TABLE run_outputs (
  run TEXT NOT NULL, position INTEGER NOT NULL, role TEXT NOT NULL, version BLOB NOT NULL, PRIMARY KEY (run, position))
  WITHOUT ROWID;
CREATE INDEX run_outputs_by_version ON run_outputs (version);
CREATE TABLE checkpoints (
  run TEXT NOT NULL, step INTEGER NOT NULL, manifest BLOB NOT NULL, best INTEGER NOT NULL, PRIMARY KEY (run, step))
  WITHOUT ROWID;
-- NULL as a value is NaN.
CREATE TABLE metric_series (id INTEGER PRIMARY KEY, run TEXT NOT NULL, name TEXT NOT NULL, UNIQUE (run, name));
CREATE TABLE metrics (
  series INTEGER NOT NULL, step INTEGER NOT NULL, value REAL, time INTEGER NOT NULL, PRIMARY KEY (series, step))
  WITHOUT ROWID;
)sql"},
    {2, R"sql(
-- Operations that were taken back: recorded, and not applied.
CREATE TABLE undone (operation BLOB PRIMARY KEY) WITHOUT ROWID;
-- Blobs that hold the names of actors.
CREATE TABLE people (actor TEXT PRIMARY KEY, blob BLOB NOT NULL) WITHOUT ROWID;
)sql"},
    {3, R"sql(
-- Domains of keys: assigned before an artifact has content ('main' where none was), and erased.
CREATE TABLE artifact_domains (artifact TEXT PRIMARY KEY, domain TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE erasures (operation BLOB PRIMARY KEY, domain TEXT NOT NULL, actor TEXT NOT NULL, time INTEGER NOT NULL)
  WITHOUT ROWID;
CREATE TABLE erased_keys (key INTEGER PRIMARY KEY);
)sql"},
    {4, R"sql(
-- Who signed: NULL for operations of format 1, which nobody did.
ALTER TABLE operations ADD COLUMN signer BLOB;
CREATE INDEX operations_by_actor ON operations (actor, signer);
CREATE INDEX operations_by_signer ON operations (signer);
-- The operations in force that made or named a version, and those of them that an erasure came after.
CREATE TABLE version_makers (operation BLOB PRIMARY KEY, artifact TEXT NOT NULL, digest BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX version_makers_by_digest ON version_makers (digest);
CREATE TABLE erased_makers (operation BLOB NOT NULL, erasure BLOB NOT NULL, PRIMARY KEY (operation, erasure))
  WITHOUT ROWID;
-- The names that actors gave themselves, each with its place in the order.
DROP TABLE people;
CREATE TABLE people (seq INTEGER PRIMARY KEY, actor TEXT NOT NULL, blob BLOB NOT NULL);
CREATE INDEX people_by_actor ON people (actor);
CREATE TABLE forgotten (operation BLOB PRIMARY KEY, actor TEXT NOT NULL) WITHOUT ROWID;
ALTER TABLE tags ADD COLUMN operation BLOB;
-- Which erasure took a key: that of `main` holds where it was made alone (domains.cpp).
DROP TABLE erased_keys;
CREATE TABLE erased_keys (key INTEGER NOT NULL, erasure BLOB NOT NULL, PRIMARY KEY (key, erasure)) WITHOUT ROWID;
-- When this clone took an operation in, by its own clock: no projection, so that gc's grace is that of this clone.
CREATE TABLE taken (operation BLOB PRIMARY KEY, time INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta (key, value) VALUES ('outdated', 1);
)sql"},
    {5, R"sql(
-- Why an alias was moved; '' where nobody said.
ALTER TABLE alias_moves ADD COLUMN message TEXT NOT NULL DEFAULT '';
INSERT OR REPLACE INTO meta (key, value) VALUES ('outdated', 1);
)sql"},
    {6, R"sql(
-- Operations without effect, and those that changed what somebody else had made, in the words that people are told.
CREATE TABLE remarks (operation BLOB PRIMARY KEY, ignored INTEGER NOT NULL, what TEXT NOT NULL, whose TEXT NOT NULL)
  WITHOUT ROWID;
-- Each that somebody has in force; the last one of a version, kind and name is shown. maker: a key, or the actor where
-- nobody signed.
DROP TABLE attachments;
CREATE TABLE attachments (
  seq INTEGER PRIMARY KEY, version BLOB NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, maker TEXT NOT NULL,
  blob BLOB NOT NULL, actor TEXT NOT NULL, time INTEGER NOT NULL, UNIQUE (version, kind, name, maker));
-- Each claim by itself, so that a later one of somebody else leaves it as it is.
DROP TABLE version_numbers;
CREATE TABLE version_numbers (
  artifact TEXT NOT NULL, number INTEGER NOT NULL, digest BLOB NOT NULL, seq INTEGER NOT NULL, actor TEXT NOT NULL,
  PRIMARY KEY (artifact, number, digest, seq)) WITHOUT ROWID;
CREATE INDEX version_numbers_by_digest ON version_numbers (artifact, digest);
-- What each of those that made a version says of it. Shown is the first that this clone took in: it stays the first
-- whatever arrives.
DROP TABLE versions;
CREATE TABLE versions (
  seq INTEGER PRIMARY KEY, artifact TEXT NOT NULL, digest BLOB NOT NULL, UNIQUE (artifact, digest));
CREATE INDEX versions_by_digest ON versions (digest);
DROP TABLE version_makers;
CREATE TABLE version_makers (
  operation BLOB PRIMARY KEY, artifact TEXT NOT NULL, digest BLOB NOT NULL, message TEXT NOT NULL, seq INTEGER NOT NULL,
  kind TEXT NOT NULL, files INTEGER NOT NULL, bytes INTEGER NOT NULL, run TEXT NOT NULL, parent BLOB,
  actor TEXT NOT NULL, time INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX version_makers_by_digest ON version_makers (digest);
ALTER TABLE taken ADD COLUMN place INTEGER NOT NULL DEFAULT 0;
CREATE INDEX taken_by_place ON taken (place);
CREATE VIEW made_versions AS
  SELECT v.seq, v.artifact, m.kind, v.digest, m.files, m.bytes, m.message, m.run, m.parent, m.actor, m.time,
    m.operation
  FROM versions v JOIN version_makers m ON m.operation = (
    SELECT o.operation FROM version_makers o LEFT JOIN taken t ON t.operation = o.operation
    WHERE o.digest = v.digest AND o.artifact = v.artifact ORDER BY t.place, o.seq LIMIT 1);
INSERT OR REPLACE INTO meta (key, value) VALUES ('outdated', 1);
)sql"},
    {7, R"sql(
-- What names a version is asked of every version that is listed.
CREATE INDEX tags_by_digest ON tags (artifact, digest);
CREATE INDEX aliases_by_digest ON aliases (artifact, digest);
)sql"},
    {8, R"sql(
CREATE TABLE run_logs (
  run TEXT NOT NULL, seq INTEGER NOT NULL, position INTEGER NOT NULL, role TEXT NOT NULL, blob BLOB NOT NULL,
  PRIMARY KEY (run, seq, position)) WITHOUT ROWID;
)sql"},
    {9, R"sql(
-- API keys of servers, by digest. models: a JSON list of names. One that was revoked stays so.
CREATE TABLE api_keys (
  digest BLOB PRIMARY KEY, seq INTEGER NOT NULL, name TEXT NOT NULL, infer INTEGER NOT NULL, metrics INTEGER NOT NULL,
  models TEXT NOT NULL, expires INTEGER NOT NULL, per_minute INTEGER NOT NULL, per_day INTEGER NOT NULL,
  actor TEXT NOT NULL, time INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE revoked_api_keys (digest BLOB PRIMARY KEY, actor TEXT NOT NULL, time INTEGER NOT NULL) WITHOUT ROWID;
)sql"},
};

}  // namespace mlx::registry
