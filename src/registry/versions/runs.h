// Runs: what was executed, with which inputs, and its results. Metrics are written in batches while a run goes on, and
// sealed into a blob when it ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "registry/operations/metric_series.h"
#include "registry/operations/run_status.h"
#include "registry/repository.h"
#include "registry/versions/artifacts.h"

namespace mlx::registry {

struct RunStart {
  std::string command;                                 // "train", "eval", "quantize"
  std::string title;                                   // one line for people: the command as typed
  Digest key;                                          // hash of everything that can change the result
  std::vector<std::pair<std::string, Digest>> inputs;  // role ("data", "model") → version digest
  std::string params;                                  // canonical JSON: resolved config, seed
  std::string environment;  // canonical JSON: cpu, threads, kernels, oneDNN, numerics id, host kind
  std::string code;         // canonical JSON: git head, branch, dirty, digest of the dirty diff (stored as a blob)
};

struct RunOutput {
  std::string role;  // "model"
  Digest version;
};

struct Run {
  std::string id;  // 16 hex digits
  std::string command, title;
  RunStatus status = RunStatus::kRunning;
  Digest key;
  std::vector<std::pair<std::string, Digest>> inputs;
  std::vector<RunOutput> outputs;
  std::string params, environment, code;
  std::string summary;  // canonical JSON of the final metrics
  std::string error;
  std::string actor;
  std::int64_t started = 0, ended = 0;
  Digest operation;  // that started it
};

struct Checkpoint {
  std::string run;
  std::int64_t step = 0;
  Digest manifest;
  bool best = false;
};

std::string start_run(Repository& repository, const RunStart& start);  // returns the id
void log_metrics(Repository& repository, const std::string& run,
                 const std::vector<MetricPoint>& points);  // one transaction
// Records the checkpoint; forgets all but the last two and the best, whose objects gc may then remove.
void record_checkpoint(Repository& repository, const Checkpoint& checkpoint);
std::vector<Checkpoint> checkpoints(Repository& repository, const std::string& run);  // by step
// True if this clone's person started it. Operations of others on the run have no effect.
bool is_own_run(Repository& repository, const std::string& run);
// Drops the metrics after `step`, because a resumed run writes them again. Throws kConflict if another process works on
// the run, kRefused if it is somebody else's.
void resume_run(Repository& repository, const std::string& run, std::int64_t step);
// Seals the series into a blob. A done run releases its checkpoints; with `keep_state` it keeps the last one.
void end_run(Repository& repository, const std::string& run, RunStatus status, const std::vector<RunOutput>& outputs,
             const Json& summary, const std::string& error = {}, bool keep_state = false);

// What a rank of a run has written to stderr, for people.
struct RankLog {
  std::string role;  // "rank 1 on b"; "mpirun" for lines that do not say whose they are
  std::string text;
};
// Keeps them with the run, after those of earlier processes. Only the person who started the run may.
void add_logs(Repository& repository, const std::string& run, const std::vector<RankLog>& logs);
// In the order in which they were kept. Texts that are not in this clone are "".
std::vector<RankLog> logs(Repository& repository, const std::string& run);

Run read_run(Repository& repository,
             const std::string& id);            // "run:ID" or an unambiguous prefix of at least 4; kNotFound
std::vector<Run> runs(Repository& repository);  // oldest first
// The versions among the run's outputs, by their names in this clone. If one content has several names, prefers those
// that this run made.
std::vector<Version> made_by(Repository& repository, const Run& run);
std::optional<Run> find_done_run(Repository& repository, const Digest& key);
// This person's newest run with this key that ended early (interrupted, killed, failed), that no process works on, and
// whose last checkpoint is in this store.
std::optional<Run> find_unfinished_run(Repository& repository, const Digest& key);
std::vector<MetricPoint> metrics(Repository& repository, const std::string& run, const std::string& name = {});

}  // namespace mlx::registry
