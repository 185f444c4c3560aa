// Work: the one way to run, record and memoise (DESIGN 1). A command whose result is worth remembering describes what
// decides that result, and hands run_once() a body that makes it.
//
//   key      of all that can change the result
//   answer   a done run with that key: `unchanged`, and nothing else happens
//   start    a run is recorded with its inputs, parameters, environment and the state of the code
//   body     the command's own part
//   versions of what the body stored, and attachments
//   end      recorded whatever happens: done, failed or interrupted
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
  // The artifacts that it makes a version of each. A known answer counts only while they still have these versions.
  std::vector<std::string> makes;
  bool force = false;  // run although the answer is known
  // The id of a run to go on with, which has not reached its end; "" for a new one. The body finds in that run's
  // checkpoints where it stood.
  std::string resume;
  // What it finds out is worth having where the repository cannot be written: then it runs without a record, with a
  // warning. Only for work that makes no version.
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

// The run that a body works in. What the body puts here becomes visible to others when it has returned.
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
  std::string id;               // "" where the run is not recorded
  std::vector<Stored> outputs;  // store_output() adds to them
  std::vector<Attachment> attachments;
  bool keep_state = false;  // the last checkpoint outlives a run that is done
};
// Stores a version's content through `write`, under the key of its artifact's domain.
store::ManifestSummary store_output(ActiveRun& run, NewOutput output,
                                    const std::function<store::ManifestSummary(store::Store&)>& write);

struct Outcome {
  bool unchanged = false;                   // the answer was known
  bool recorded = true;                     // false: see Work::runs_unrecorded
  registry::Run run;                        // that made it; empty where it is not recorded
  std::vector<registry::Version> versions;  // in the order of Work::makes
};

// Returns the summary that the run records. An exception ends the run as interrupted (kInterrupted) or failed.
using Body = std::function<Json(ActiveRun& run)>;
// Called where no answer is known and before a run begins: may refuse the work, and may choose the run to resume.
using Prepare = std::function<void(Work& work)>;

// kConflict where the run to resume is worked in by another process. kNotFound where the repository's folder was
// removed while the body ran.
Outcome run_once(registry::Repository& repository, Work work, const Body& body, Progress& progress,
                 const Prepare& prepare = {});

// kNotFound where the repository's folder was removed: what is written from then on would be lost.
void require_repository(const registry::Repository& repository);
// The worktree's pointer moves to the version.
void point_at(registry::Repository& repository, const registry::Version& version);

}  // namespace mlx::work
