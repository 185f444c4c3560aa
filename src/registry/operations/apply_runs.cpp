// Applies the operations on runs, their checkpoints and sealed metrics to their tables.
#include "base/error.h"
#include "base/json.h"
#include "registry/operations/apply.h"
#include "registry/operations/metric_series.h"
#include "store/pack/store.h"

namespace mlx::registry {
namespace {

constexpr int kKeptCheckpoints = 2;  // and the best one

// "" where it is somebody else's: nothing but what the person who started a run says of it counts.
std::string own_run(const Application& a) {
  const std::string run = a.string("run");
  store::Statement select = a.db.prepare("SELECT seq FROM runs WHERE id = ?");
  if (!select.bind(run).step()) a.corrupt("names a run that no operation before it started: " + run);
  const Made starter = maker_at(a.db, select.int64(0));
  if (starter.maker == a.maker()) return run;
  a.ignore("the run was started by", starter.actor);
  return {};
}

void insert_versions(const Application& a, const char* key, const char* table, const std::string& run) {
  store::Statement insert =
      a.db.prepare(fmt::format("INSERT INTO {} (run, position, role, version) VALUES (?, ?, ?, ?)", table));
  int position = 0;
  for (const Json& item : json_array(a.body, key, a.what())) {
    insert
        .bind(run, position++, json_string(item, "role", a.what()),
              Digest::parse(json_string(item, "version", a.what())))
        .run();
  }
}

// Rows that are there already are the same (they were sealed into the blob); a blob that is not in this store (a clone
// that fetched operations only) leaves the series without rows, and metrics() reads the blob once it is here.
void restore_points(const Application& a, const std::string& run, const Digest& blob, std::int64_t points) {
  if (count_points(a.db, run) == points || !a.store.has_blob(blob)) return;
  delete_points(a.db, run);
  insert_points(a.db, run, decode_series(a.store.read_blob(blob), "metrics of run " + run));
}

}  // namespace

void apply_run_start(const Application& a) {
  const std::string run = a.string("run");
  if (run.size() != 16 || run.find_first_not_of("0123456789abcdef") != std::string::npos) {
    a.corrupt("'run' is not 16 hex digits");
  }
  if (a.db.prepare("SELECT 1 FROM runs WHERE id = ?").bind(run).step()) a.corrupt("starts run " + run + " again");
  a.db.prepare(
          "INSERT INTO runs (seq, id, command, title, status, key, params, environment, code, summary, error, actor,"
          " started, ended, metrics, points) VALUES (?, ?, ?, ?, 'running', ?, ?, ?, ?, '', '', ?, ?, 0, NULL, 0)")
      .bind(a.seq, run, a.string("command"), a.string("title"), a.digest("key"), a.json("params"),
            a.json("environment"), a.json("code"), a.operation.actor, a.operation.time)
      .run();
  insert_versions(a, "inputs", "run_inputs", run);
}

void apply_run_checkpoint(const Application& a) {
  const std::string run = own_run(a);
  if (run.empty()) return;
  const bool best = a.boolean("best");
  if (best) a.db.prepare("UPDATE checkpoints SET best = 0 WHERE run = ?").bind(run).run();
  a.db.prepare("INSERT OR REPLACE INTO checkpoints (run, step, manifest, best) VALUES (?, ?, ?, ?)")
      .bind(run, a.integer("step", 0), a.digest("manifest"), best)
      .run();
  a.db.prepare(
          "DELETE FROM checkpoints WHERE run = ?1 AND best = 0 AND step NOT IN"
          " (SELECT step FROM checkpoints WHERE run = ?1 ORDER BY step DESC LIMIT ?2)")
      .bind(run, kKeptCheckpoints)
      .run();
}

void apply_run_resume(const Application& a) {
  const std::string run = own_run(a);
  if (run.empty()) return;
  const std::int64_t step = a.integer("step", 0);
  a.db.prepare(
          "UPDATE runs SET status = 'running', ended = 0, summary = '', error = '', metrics = NULL, points = 0 WHERE "
          "id = ?")
      .bind(run)
      .run();
  a.db.prepare("DELETE FROM run_outputs WHERE run = ?").bind(run).run();
  a.db.prepare("DELETE FROM checkpoints WHERE run = ? AND step > ?").bind(run, step).run();
  delete_points_after(a.db, run, step);
}

void apply_run_end(const Application& a) {
  const std::string run = own_run(a), status = a.string("status");
  if (run.empty()) return;
  if (status != "done" && status != "failed" && status != "interrupted") a.corrupt("'status' is " + status);
  const std::optional<Digest> series = a.digest_or_null("metrics");
  const std::int64_t points = a.integer("points", 0);
  a.db.prepare("UPDATE runs SET status = ?, summary = ?, error = ?, ended = ?, metrics = ?, points = ? WHERE id = ?")
      .bind(status, a.json("summary"), a.string("error"), a.operation.time, series, points, run)
      .run();
  a.db.prepare("DELETE FROM run_outputs WHERE run = ?").bind(run).run();
  insert_versions(a, "outputs", "run_outputs", run);
  if (status == "done") {
    // "state": the last one stays, so that the training can go on for longer.
    const int kept = a.body.contains("state") && a.string("state") == "kept" ? 1 : 0;
    a.db.prepare(
            "DELETE FROM checkpoints WHERE run = ?1 AND step NOT IN"
            " (SELECT step FROM checkpoints WHERE run = ?1 ORDER BY step DESC LIMIT ?2)")
        .bind(run, kept)
        .run();
  }
  if (series) restore_points(a, run, *series, points);
}

}  // namespace mlx::registry
