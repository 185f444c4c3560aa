// A separate table beside the stat cache's, opened briefly for each call, because a command asks only once.
#include "registry/versions/checkouts.h"

#include "base/error.h"
#include "base/log.h"
#include "base/path.h"

namespace mlx::registry {
namespace {

store::Database open_cache(Repository& repository) {
  store::Database database(join_path(repository.mlx_folder(), "cache.db"), store::Database::Open::kCreate);
  // A power loss may lose entries, which then count as unknown; the file stays intact.
  database.run(
      "PRAGMA synchronous = NORMAL; "
      "CREATE TABLE IF NOT EXISTS checkouts (artifact TEXT PRIMARY KEY, digest BLOB NOT NULL) WITHOUT ROWID");
  return database;
}

}  // namespace

std::map<std::string, Digest> checked_out(Repository& repository) {
  std::map<std::string, Digest> known;
  if (!path_exists(join_path(repository.mlx_folder(), "cache.db"))) return known;
  try {
    store::Database database = open_cache(repository);
    store::Statement select = database.prepare("SELECT artifact, digest FROM checkouts");
    while (select.step()) known.insert_or_assign(select.text(0), select.digest(1));
  } catch (const Error& error) {
    log("it is not known what was checked out: {}", error.message);
    known.clear();
  }
  return known;
}

std::optional<Digest> checked_out_as(Repository& repository, const std::string& artifact) {
  const std::map<std::string, Digest> known = checked_out(repository);
  const auto at = known.find(artifact);
  return at == known.end() ? std::nullopt : std::optional(at->second);
}

void note_checked_out(Repository& repository, const std::string& artifact, const std::optional<Digest>& digest) {
  try {
    store::Database database = open_cache(repository);
    if (digest)
      database.prepare("INSERT OR REPLACE INTO checkouts (artifact, digest) VALUES (?, ?)")
          .bind(artifact, *digest)
          .run();
    else
      database.prepare("DELETE FROM checkouts WHERE artifact = ?").bind(artifact).run();
  } catch (const Error& error) {
    log("cannot remember what was checked out: {}", error.message);
  }
}

}  // namespace mlx::registry
