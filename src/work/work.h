// Work: the only way to run, record and memoise (DESIGN 1). A command whose result is worth remembering describes what
// determines the result, and gives run_once() a body that computes it.
//
//   key      hash of everything that can change the result
//   answer   a done run with that key: `unchanged`, and nothing else happens
//   start    records a run with its inputs, parameters, environment and the state of the code
//   body     the command's own part
//   versions records what the body stored, and attachments
//   end      is always recorded: done, failed or interrupted
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "registry/versions/runs.h"
#include "work/numerics.h"

namespace mlx::work {

struct Work {
  // The key is made of these.
  std::string command;                                 // "train", "eval", "quantize"
  std::vector<std::pair<std::string, Digest>> inputs;  // role ("data", "model") → version
  std::string params = "{}";                           // canonical JSON: resolved config, seed
  Numerics numerics;

  std::string title;  // one line for people: the command as typed
  // The artifacts that it makes a version of. A known answer counts only while they still have these versions.
  std::vector<std::string> makes;
  bool force = false;  // run even if the answer is known
  // The id of an unfinished run to resume; "" for a new one. The body finds its progress in that run's checkpoints.
  std::string resume;
  // Runs without a record, with a warning, if the repository cannot be written, because the result is useful by itself.
  // Only for work that makes no version.
  bool runs_unrecorded = false;
};
Digest key_of(const Work& work);

// A version that a body makes.
struct NewOutput {
  std::string artifact;  // the next of Work::makes
  std::string message;
  std::optional<Digest> parent;
  registry::ArtifactKind kind = registry::ArtifactKind::kModel;
  std::string role = "model";
};

// The run that a body works in. Others see what the body adds here only after the body has returned.
struct ActiveRun {
  struct Stored {
    NewOutput output;
    store::ManifestSummary manifest;
  };
  struct Attachment {  // registry::attach
    Digest version;
    std::string kind, name, blob;
  };
  registry::Repository& repository;
  const Work& work;
  std::string id;               // "" if the run is not recorded
  std::vector<Stored> outputs;  // filled by store_output()
  std::vector<Attachment> attachments;
  bool keep_state = false;  // keep the last checkpoint of a done run
};
// Stores a version's content with `write`, under the key of its artifact's domain.
store::ManifestSummary store_output(ActiveRun& run, NewOutput output,
                                    const std::function<store::ManifestSummary(store::Store&)>& write);

struct Outcome {
  bool unchanged = false;                   // the answer was known
  bool recorded = true;                     // false: see Work::runs_unrecorded
  registry::Run run;                        // the run that made it; empty if it is not recorded
  std::vector<registry::Version> versions;  // in the order of Work::makes
};

// What an earlier run with the same key made, unless the work is forced.
std::optional<Outcome> known_answer(registry::Repository& repository, const Work& work);

// Returns the summary that the run records. An exception ends the run as interrupted (kInterrupted) or failed.
using Body = std::function<Json(ActiveRun& run)>;
// Called if no answer is known, before a run begins. May refuse the work, or choose the run to resume.
using Prepare = std::function<void(Work& work)>;

// Throws kConflict if another process works on the run to resume, kNotFound if the repository's folder was removed
// while the body ran.
Outcome run_once(registry::Repository& repository, Work work, const Body& body, Progress& progress,
                 const Prepare& prepare = {});

// Throws kNotFound if the repository's folder was removed: further writes would be lost.
void require_repository(const registry::Repository& repository);
// Moves the worktree's pointer to the version.
void point_at(registry::Repository& repository, const registry::Version& version);

}  // namespace mlx::work
