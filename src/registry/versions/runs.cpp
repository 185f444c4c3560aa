// Runs as operations and rows. Metrics of a running run are written straight to their rows, and no operation holds them
// yet. end_run() seals them into a blob that the operation names.
#include "registry/versions/runs.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/json.h"
#include "registry/keys/signer.h"
#include "registry/live_runs.h"
#include "registry/operations/metric_series.h"
#include "registry/operations/operation.h"
#include "store/crypto/keys.h"

namespace mlx::registry {
namespace {

constexpr const char* kSelectRun =
    "SELECT r.id, r.command, r.title, r.status, r.key, r.params, r.environment, r.code, r.summary, r.error, r.actor,"
    " r.started, r.ended, o.id FROM runs r JOIN operations o ON o.seq = r.seq ";
constexpr std::size_t kShortestPrefix = 4;

Json json_or_null(const std::string& text, const char* what) {
  return text.empty() ? Json(nullptr) : parse_json(text, what);
}

RunStatus read_status(const std::string& text) {
  const std::optional<RunStatus> status = parse_run_status(text);
  if (!status) fail(ErrorKind::kCorrupt, "meta.db: a run has the unknown status '{}'", text);
  return *status;
}

Run read_run(const store::Statement& row) {
  Run run;
  run.id = row.text(0);
  run.command = row.text(1);
  run.title = row.text(2);
  run.status = read_status(row.text(3));
  run.key = row.digest(4);
  run.params = row.text(5);
  run.environment = row.text(6);
  run.code = row.text(7);
  run.summary = row.text(8);
  run.error = row.text(9);
  run.actor = row.text(10);
  run.started = row.int64(11);
  run.ended = row.int64(12);
  run.operation = row.digest(13);
  return run;
}

// "killed" is in no row, because nobody was there to write it.
RunStatus status_now(Repository& repository, const Run& run) {
  return run.status == RunStatus::kRunning && repository.live_runs().killed(run.id) ? RunStatus::kKilled : run.status;
}

std::vector<Run> read_runs(Repository& repository, store::Statement& select) {
  std::vector<Run> runs;
  while (select.step()) runs.push_back(read_run(select));
  for (Run& run : runs) run.status = status_now(repository, run);
  store::Database& db = repository.db();
  store::Statement inputs = db.prepare("SELECT role, version FROM run_inputs WHERE run = ? ORDER BY position");
  store::Statement outputs = db.prepare("SELECT role, version FROM run_outputs WHERE run = ? ORDER BY position");
  for (Run& run : runs) {
    for (inputs.bind(run.id); inputs.step();) run.inputs.emplace_back(inputs.text(0), inputs.digest(1));
    for (outputs.bind(run.id); outputs.step();) run.outputs.push_back({outputs.text(0), outputs.digest(1)});
    inputs.reset();
    outputs.reset();
  }
  return runs;
}

Json version_list(const std::vector<RunOutput>& versions) {
  Json list = Json::array();
  for (const RunOutput& version : versions) {
    Json item;
    item["role"] = version.role;
    item["version"] = version.version.text();
    list.push_back(std::move(item));
  }
  return list;
}

// Stores the series and returns its digest; null if it is empty.
Json seal(Repository& repository, const std::vector<MetricPoint>& points) {
  if (points.empty()) return nullptr;
  repository.store().use_domain(store::kHistoryDomain);
  const auto batch = repository.store().begin();
  const Digest id = batch->add_blob(encode_series(points));
  batch->commit();
  return id.text();
}

struct SealedSeries {
  std::optional<Digest> blob;  // none while the run is running
  std::int64_t points = 0;
};

SealedSeries sealed_series(store::Database& db, const std::string& run) {
  store::Statement select = db.prepare("SELECT metrics, points FROM runs WHERE id = ?");
  if (!select.bind(run).step() || select.null(0)) return {};
  return {select.digest(0), select.int64(1)};
}

// Call under the write lock, so that no other process ends the run meanwhile.
void require_running(store::Database& db, const std::string& run) {
  store::Statement select = db.prepare("SELECT status FROM runs WHERE id = ?");
  if (!select.bind(run).step()) fail(ErrorKind::kNotFound, "no run has the id {}", run);
  if (read_status(select.text(0)) != RunStatus::kRunning) {
    throw Error(ErrorKind::kConflict, fmt::format("run {}: has ended ({})", run, select.text(0)),
                "resume it, or start a new one");
  }
}

}  // namespace

std::string start_run(Repository& repository, const RunStart& start) {
  const std::string id = random_id();
  std::vector<RunOutput> inputs;
  for (const auto& [role, version] : start.inputs) inputs.push_back({role, version});
  Json body;
  body["run"] = id;
  body["command"] = start.command;
  body["title"] = start.title;
  body["key"] = start.key.text();
  body["inputs"] = version_list(inputs);
  body["params"] = json_or_null(start.params, "params of the run");
  body["environment"] = json_or_null(start.environment, "environment of the run");
  body["code"] = json_or_null(start.code, "code of the run");
  repository.live_runs().hold(id);
  try {
    repository.record("run.start", body);
  } catch (...) {
    repository.live_runs().let_go(id);
    throw;
  }
  return id;
}

void log_metrics(Repository& repository, const std::string& run, const std::vector<MetricPoint>& points) {
  store::Database& db = repository.db();
  store::Transaction transaction(db);
  require_running(db, run);
  insert_points(db, run, points);
  transaction.commit();
}

void record_checkpoint(Repository& repository, const Checkpoint& checkpoint) {
  repository.record_with("run.checkpoint", [&](Json& body) {
    require_running(repository.db(), checkpoint.run);
    body["run"] = checkpoint.run;
    body["step"] = checkpoint.step;
    body["manifest"] = checkpoint.manifest.text();
    body["best"] = checkpoint.best;
    return true;
  });
}

std::vector<Checkpoint> checkpoints(Repository& repository, const std::string& run) {
  std::vector<Checkpoint> found;
  store::Statement select =
      repository.db().prepare("SELECT step, manifest, best FROM checkpoints WHERE run = ? ORDER BY step");
  for (select.bind(run); select.step();) {
    found.push_back({.run = run, .step = select.int64(0), .manifest = select.digest(1), .best = select.int64(2) != 0});
  }
  return found;
}

bool is_own_run(Repository& repository, const std::string& run) {
  store::Statement select =
      repository.db().prepare("SELECT o.signer FROM runs r JOIN operations o ON o.seq = r.seq WHERE r.id = ?");
  return select.bind(run).step() && !select.null(0) && select.digest(0) == repository.signer().public_key;
}

void resume_run(Repository& repository, const std::string& run, std::int64_t step) {
  repository.live_runs().hold(run);
  repository.record_with("run.resume", [&](Json& body) {
    store::Statement select = repository.db().prepare("SELECT status FROM runs WHERE id = ?");
    if (!select.bind(run).step()) fail(ErrorKind::kNotFound, "no run has the id {}", run);
    if (read_status(select.text(0)) == RunStatus::kDone) {
      throw Error(ErrorKind::kConflict, fmt::format("run {}: is done, so it cannot be resumed", run),
                  "start a new one");
    }
    if (!is_own_run(repository, run)) {
      throw Error(ErrorKind::kRefused, fmt::format("run {}: somebody else started it", run),
                  "start a new run, which can use what this one made");
    }
    body["run"] = run;
    body["step"] = step;
    return true;
  });
}

void end_run(Repository& repository, const std::string& run, RunStatus status, const std::vector<RunOutput>& outputs,
             const Json& summary, const std::string& error, bool keep_state) {
  if (!is_recorded_end(status)) fail(ErrorKind::kUsage, "run {}: cannot be ended as '{}'", run, name_of(status));
  const std::vector<MetricPoint> points = select_points(repository.db(), run);
  Json body;
  body["run"] = run;
  body["status"] = name_of(status);
  body["outputs"] = version_list(outputs);
  body["summary"] = summary;
  body["error"] = error;
  body["metrics"] = seal(repository, points);
  body["points"] = points.size();
  if (keep_state) body["state"] = "kept";
  repository.record_with("run.end", [&](Json& own) {
    require_running(repository.db(), run);
    own = std::move(body);
    return true;
  });
  repository.live_runs().let_go(run);
}

void add_logs(Repository& repository, const std::string& run, const std::vector<RankLog>& logs) {
  if (logs.empty()) return;
  repository.store().use_domain(store::kHistoryDomain);
  const auto batch = repository.store().begin();
  Json list = Json::array();
  for (const RankLog& log : logs)
    list.push_back({{"role", log.role}, {"log", batch->add_blob(as_bytes(log.text)).text()}});
  batch->commit();
  Json body;
  body["run"] = run;
  body["logs"] = std::move(list);
  repository.record("run.log", body);
}

std::vector<RankLog> logs(Repository& repository, const std::string& run) {
  std::vector<RankLog> found;
  store::Statement select =
      repository.db().prepare("SELECT role, blob FROM run_logs WHERE run = ? ORDER BY seq, position");
  for (select.bind(run); select.step();) {
    RankLog log{select.text(0), ""};
    const Digest blob = select.digest(1);
    if (repository.store().has_blob(blob)) log.text = as_text(repository.store().read_blob(blob));
    found.push_back(std::move(log));
  }
  return found;
}

Run read_run(Repository& repository, const std::string& id) {
  const std::string prefix = id.starts_with("run:") ? id.substr(4) : id;
  const auto not_found = [&](const std::string& why) {
    throw Error(ErrorKind::kNotFound, fmt::format("'{}': {}", id, why), "`mlx log --runs` lists all runs");
  };
  if (prefix.size() < kShortestPrefix || prefix.find_first_not_of("0123456789abcdef") != std::string::npos) {
    not_found("a run is named by at least 4 hex digits of its id");
  }
  store::Statement select =
      repository.db().prepare(std::string(kSelectRun) + "WHERE substr(r.id, 1, ?2) = ?1 ORDER BY r.seq");
  select.bind(prefix, prefix.size());
  std::vector<Run> found = read_runs(repository, select);
  if (found.empty()) not_found("no run has this id");
  if (found.size() > 1) {
    throw Error(ErrorKind::kConflict,
                fmt::format("'{}': {} runs begin with it: {}, {} …", id, found.size(), found[0].id, found[1].id),
                "type more digits of the id");
  }
  return std::move(found.front());
}

std::vector<Run> runs(Repository& repository) {
  store::Statement select = repository.db().prepare(std::string(kSelectRun) + "ORDER BY r.seq");
  return read_runs(repository, select);
}

std::optional<Run> find_done_run(Repository& repository, const Digest& key) {
  store::Statement select = repository.db().prepare(
      std::string(kSelectRun) + "WHERE r.key = ? AND r.status = 'done' ORDER BY r.seq DESC LIMIT 1");
  select.bind(key);
  std::vector<Run> found = read_runs(repository, select);
  if (found.empty()) return std::nullopt;
  return std::move(found.front());
}

std::vector<Version> made_by(Repository& repository, const Run& run) {
  std::vector<Version> made;
  store::Statement select = repository.db().prepare("SELECT artifact FROM versions WHERE digest = ? ORDER BY seq");
  for (const RunOutput& output : run.outputs) {
    std::vector<Version> named;
    for (select.bind(output.version); select.step();)
      named.push_back(*version_of(repository, select.text(0), output.version));
    select.reset();
    const auto own = [&](const Version& version) { return version.run == run.id; };
    if (std::ranges::any_of(named, own)) std::erase_if(named, std::not_fn(own));
    for (Version& version : named) {
      const auto same = [&](const Version& other) { return other.name() == version.name(); };
      if (std::ranges::none_of(made, same)) made.push_back(std::move(version));
    }
  }
  return made;
}

std::optional<Run> find_unfinished_run(Repository& repository, const Digest& key) {
  store::Statement select = repository.db().prepare(
      std::string(kSelectRun) +
      "WHERE r.key = ? AND r.status != 'done' AND r.id IN (SELECT run FROM checkpoints) ORDER BY r.seq DESC");
  select.bind(key);
  for (Run& run : read_runs(repository, select)) {
    if (!is_own_run(repository, run.id)) continue;
    const Digest last = checkpoints(repository, run.id).back().manifest;
    if (run.status != RunStatus::kRunning && repository.store().has(store::ObjectKind::kManifest, last))
      return std::move(run);
  }
  return std::nullopt;
}

std::vector<MetricPoint> metrics(Repository& repository, const std::string& run, const std::string& name) {
  std::vector<MetricPoint> points = select_points(repository.db(), run);
  const SealedSeries sealed = sealed_series(repository.db(), run);
  // The rows are missing: the blob was fetched after the operation.
  if (sealed.blob && static_cast<std::int64_t>(points.size()) != sealed.points &&
      repository.store().has_blob(*sealed.blob)) {
    points = decode_series(repository.store().read_blob(*sealed.blob), "metrics of run " + run);
  }
  if (!name.empty()) std::erase_if(points, [&](const MetricPoint& point) { return point.name != name; });
  return points;
}

}  // namespace mlx::registry
