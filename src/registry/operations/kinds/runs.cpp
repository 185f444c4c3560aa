// Runs, their checkpoints and their sealed metrics.
#include "base/error.h"
#include "registry/operations/application.h"
#include "registry/operations/body.h"
#include "registry/operations/metric_series.h"
#include "registry/operations/run_status.h"
#include "store/pack/store.h"

namespace mlx::registry {
namespace {

constexpr int kKeptCheckpoints = 2;  // besides the best one

// "" if it is somebody else's: only the person who started a run can add to it.
std::string own_run(const Application& a) {
  const std::string run = a.string("run");
  store::Statement select = a.db.prepare("SELECT seq FROM runs WHERE id = ?");
  if (!select.bind(run).step()) a.corrupt("names a run that no operation before it started: " + run);
  const Made starter = maker_at(a.db, select.int64(0));
  if (starter.maker == a.maker()) return run;
  a.ignore("the run was started by", starter.actor);
  return {};
}

void insert_versions(const Application& a, const char* at, const char* table, const std::string& run) {
  store::Statement insert =
      a.db.prepare(fmt::format("INSERT INTO {} (run, position, role, version) VALUES (?, ?, ?, ?)", table));
  int position = 0;
  for (const auto& [role, version] : a.roles_and_digests(at)) insert.bind(run, position++, role, version).run();
}

// Restores the rows of a sealed series. Existing rows are the same as those in the blob. If the blob is not in this
// store (a clone that fetched operations only), the series stays without rows, and metrics() reads the blob once it is
// here.
void restore_points(const Application& a, const std::string& run, const Digest& blob, std::int64_t points) {
  if (count_points(a.db, run) == points || !a.store.has_blob(blob)) return;
  delete_points(a.db, run);
  insert_points(a.db, run, decode_series(a.store.read_blob(blob), "metrics of run " + run));
}

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
  insert_versions(a, "inputs[].version", "run_inputs", run);
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
  const std::string run = own_run(a), text = a.string("status");
  if (run.empty()) return;
  const std::optional<RunStatus> status = parse_run_status(text);
  if (!status || !is_recorded_end(*status)) a.corrupt("'status' is " + text);
  const std::optional<Digest> series = a.digest_or_null("metrics");
  const std::int64_t points = a.integer("points", 0);
  a.db.prepare("UPDATE runs SET status = ?, summary = ?, error = ?, ended = ?, metrics = ?, points = ? WHERE id = ?")
      .bind(text, a.json("summary"), a.string("error"), a.operation.time, series, points, run)
      .run();
  a.db.prepare("DELETE FROM run_outputs WHERE run = ?").bind(run).run();
  insert_versions(a, "outputs[].version", "run_outputs", run);
  if (status == RunStatus::kDone) {
    // "state": the last checkpoint stays, so that the training can be extended.
    const int kept = a.string_or_empty("state") == "kept" ? 1 : 0;
    a.db.prepare(
            "DELETE FROM checkpoints WHERE run = ?1 AND step NOT IN"
            " (SELECT step FROM checkpoints WHERE run = ?1 ORDER BY step DESC LIMIT ?2)")
        .bind(run, kept)
        .run();
  }
  if (series) restore_points(a, run, *series, points);
}

// What its ranks said: those of a later process stand beside those of an earlier one.
void apply_run_log(const Application& a) {
  const std::string run = own_run(a);
  if (run.empty()) return;
  store::Statement insert =
      a.db.prepare("INSERT INTO run_logs (run, seq, position, role, blob) VALUES (?, ?, ?, ?, ?)");
  int position = 0;
  for (const auto& [role, log] : a.roles_and_digests("logs[].log"))
    insert.bind(run, a.seq, position++, role, log).run();
}

// Checkpoints that the run has released belong to nobody.
bool is_checkpoint_kept(store::Database& db, const Operation&, const Json& json) {
  const Body body(json);
  return db.prepare("SELECT 1 FROM checkpoints WHERE run = ? AND step = ?")
      .bind(body.text("run"), body.number("step"))
      .step();
}

std::string run_start_text(const Body& body) {
  return fmt::format("started run:{}: {}", body.text("run"), body.text("title"));
}

std::string run_checkpoint_text(const Body& body) {
  return fmt::format("checkpoint of run:{} at step {}", body.text("run"), body.number("step"));
}

std::string run_resume_text(const Body& body) {
  return fmt::format("resumed run:{} after step {}", body.text("run"), body.number("step"));
}

std::string run_end_text(const Body& body) {
  return fmt::format("ended run:{}: {}", body.text("run"), body.text("status"));
}

std::string run_log_text(const Body& body) {
  return fmt::format("kept what the ranks of run:{} said", body.text("run"));
}

constexpr UndoRule kRunIsKept = {.never = "the record of a run is kept", .stays = "what a run used or made stays"};

}  // namespace

// code.diff: the patch of uncommitted changes, if there are any.
extern const Kind kRunStart = {
    "run.start",
    apply_run_start,
    run_start_text,
    names({{Role::kReference, "inputs[].version"}, {Role::kBlob, "code.diff", true}, {Role::kOther, "key"}}),
    ContentDomain::kHistory,
    kRunIsKept,
    takes<Right::kCommit>,
};

extern const Kind kRunCheckpoint = {
    "run.checkpoint",        apply_run_checkpoint, run_checkpoint_text,   names({{Role::kCheckpoint, "manifest"}}),
    ContentDomain::kHistory, kRunIsKept,           takes<Right::kCommit>, {.folded = true, .ends_run = true},
    is_checkpoint_kept,
};

extern const Kind kRunResume = {
    "run.resume", apply_run_resume,      run_resume_text, kNamesNothing, ContentDomain::kHistory,
    kRunIsKept,   takes<Right::kCommit>,
};

extern const Kind kRunEnd = {
    "run.end",
    apply_run_end,
    run_end_text,
    names({{Role::kSeries, "metrics"}, {Role::kReference, "outputs[].version"}}),
    ContentDomain::kHistory,
    kRunIsKept,
    takes<Right::kCommit>,
    {.ends_run = true},
};

extern const Kind kRunLog = {
    "run.log",
    apply_run_log,
    run_log_text,
    names({{Role::kBlob, "logs[].log"}}),
    ContentDomain::kHistory,
    kRunIsKept,
    takes<Right::kCommit>,
    {.ends_run = true},
};

}  // namespace mlx::registry
