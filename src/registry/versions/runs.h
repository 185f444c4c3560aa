// Runs: what was executed, with what, and what came of it. Metrics arrive live in batches and are sealed into a blob at
// the end.
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
  std::string summary;  // canonical JSON of final figures
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
// Records the checkpoint; forgets all but the last two and the best (their objects are gc's then).
void record_checkpoint(Repository& repository, const Checkpoint& checkpoint);
std::vector<Checkpoint> checkpoints(Repository& repository, const std::string& run);  // by step
// Whether the person of this clone started it: what others say of a run has no effect.
bool is_own_run(Repository& repository, const std::string& run);
// Metrics after `step` are dropped: a resumed run writes them again. kConflict where another process works in it,
// kRefused where it is somebody else's.
void resume_run(Repository& repository, const std::string& run, std::int64_t step);
// Seals the series into a blob; checkpoints of a done run are let go, but for the last where `keep_state` says so.
void end_run(Repository& repository, const std::string& run, RunStatus status, const std::vector<RunOutput>& outputs,
             const Json& summary, const std::string& error = {}, bool keep_state = false);

Run read_run(Repository& repository,
             const std::string& id);            // "run:ID" or an unambiguous prefix of at least 4; kNotFound
std::vector<Run> runs(Repository& repository);  // oldest first
// The versions among its outputs, by the names that they have here: of one content under several names those that this
// run made, where there are such.
std::vector<Version> made_by(Repository& repository, const Run& run);
std::optional<Run> find_done_run(Repository& repository, const Digest& key);
// The newest run of this person with this key that ended before it was done (interrupted, killed, failed), in which
// nobody works, and whose last checkpoint is in this store.
std::optional<Run> find_unfinished_run(Repository& repository, const Digest& key);
std::vector<MetricPoint> metrics(Repository& repository, const std::string& run, const std::string& name = {});

}  // namespace mlx::registry
