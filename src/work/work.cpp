// The outline of every work command's run.
#include "work/work.h"

#include <exception>
#include <new>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/path.h"
#include "base/progress.h"
#include "registry/live_runs.h"
#include "registry/versions/domains.h"
#include "registry/versions/pointers.h"
#include "work/code_state.h"

namespace mlx::work {

namespace {

std::string start_run(registry::Repository& repository, const Work& work) {
  registry::RunStart start;
  start.command = work.command;
  start.title = work.title;
  start.key = key_of(work);
  start.inputs = work.inputs;
  start.params = work.params;
  start.environment = canonical(environment(work.numerics, repository.pool().threads()));
  start.code = code_state(repository);
  return registry::start_run(repository, start);
}

std::string open_run(registry::Repository& repository, const Work& work) {
  if (work.resume.empty()) return start_run(repository, work);
  std::string run = registry::read_run(repository, work.resume).id;
  repository.live_runs().hold(run);  // no two processes work on one run
  return run;
}

// True if `record` could write. If the disk refuses and the work is useful without a record, this is a warning, and
// reading does not write from then on either.
bool record_if_possible(registry::Repository& repository, const Work& work, Progress& progress,
                        const std::function<void()>& record) {
  try {
    record();
    return true;
  } catch (const Error& error) {
    if (!work.runs_unrecorded || error.kind != ErrorKind::kIo) throw;
    repository.store().stop_keeping();
    progress.warn(fmt::format("this {} is not recorded: {}", work.command, error.message));
    return false;
  }
}

struct BadEnd {
  registry::RunStatus status;
  std::string message;
};

// Describes the exception that is being handled.
BadEnd bad_end() {
  using registry::RunStatus;
  try {
    throw;
  } catch (const Error& error) {
    return {error.kind == ErrorKind::kInterrupted ? RunStatus::kInterrupted : RunStatus::kFailed, error.message};
  } catch (const std::bad_alloc&) {
    return {RunStatus::kFailed, "out of memory"};
  } catch (const std::exception& error) {
    return {RunStatus::kFailed, error.what()};
  } catch (...) {
    return {RunStatus::kFailed, "unknown error"};
  }
}

// Ends the run because of the exception that is being handled, which the caller rethrows. If the end cannot be recorded
// (a full disk), only the log says so.
void end_badly(registry::Repository& repository, const std::string& run) noexcept {
  const Interruption::Deferred deferred(repository.interruption());  // else it would stop the recording too
  try {
    const BadEnd end = bad_end();
    registry::end_run(repository, run, end.status, {}, Json::object(), end.message);
  } catch (...) {
    log("run:{} could not be ended", run);
  }
}

std::vector<registry::Version> create_versions(registry::Repository& repository, const ActiveRun& run) {
  std::vector<registry::Version> made;
  for (const auto& [output, manifest] : run.outputs) {
    registry::NewVersion version;
    version.artifact = output.artifact;
    version.kind = output.kind;
    version.manifest = manifest;
    version.message = output.message;
    version.parent = output.parent;
    version.run = run.id;
    made.push_back(registry::create_version(repository, version).version);
  }
  return made;
}

// The end comes last: a done run has everything that it made.
std::vector<registry::Version> finish(registry::Repository& repository, const ActiveRun& run, const Json& summary) {
  std::vector<registry::Version> made = create_versions(repository, run);
  for (const ActiveRun::Attachment& each : run.attachments)
    registry::attach(repository, each.version, each.kind, each.name, as_bytes(each.blob));
  std::vector<registry::RunOutput> outputs;
  for (const auto& [output, manifest] : run.outputs) outputs.push_back({output.role, manifest.id});
  registry::end_run(repository, run.id, registry::RunStatus::kDone, outputs, summary, {}, run.keep_state);
  return made;
}

Outcome run_body(registry::Repository& repository, const Work& work, const std::string& id, const Body& body,
                 Progress& progress) {
  ActiveRun run{repository, work, id, {}, {}, false};
  const Json summary = body(run);
  CHECK(run.outputs.size() == work.makes.size());
  require_repository(repository);
  Outcome outcome;
  outcome.recorded =
      record_if_possible(repository, work, progress, [&] { outcome.versions = finish(repository, run, summary); });
  outcome.run = registry::read_run(repository, id);
  return outcome;
}

Outcome run_unrecorded(registry::Repository& repository, const Work& work, const Body& body) {
  ActiveRun run{repository, work, "", {}, {}, false};
  (void)body(run);
  Outcome outcome;
  outcome.recorded = false;
  return outcome;
}

}  // namespace

Digest key_of(const Work& work) {
  Json inputs = Json::array();
  for (const auto& [role, digest] : work.inputs) inputs.push_back({{"digest", digest.text()}, {"role", role}});
  return Digest::of(canonical({{"command", work.command},
                               {"inputs", inputs},
                               {"numerics", numerics_id(work.numerics).text()},
                               {"params", parse_json(work.params, "parameters")}}));
}

store::ManifestSummary store_output(ActiveRun& run, NewOutput output,
                                    const std::function<store::ManifestSummary(store::Store&)>& write) {
  const std::vector<std::string>& makes = run.work.makes;
  CHECK(run.outputs.size() < makes.size() && output.artifact == makes[run.outputs.size()]);
  registry::store_under_domain_of(run.repository, output.artifact);
  const store::ManifestSummary manifest = write(run.repository.store());
  run.outputs.push_back({std::move(output), manifest});
  return manifest;
}

std::optional<Outcome> known_answer(registry::Repository& repository, const Work& work) {
  if (work.force) return std::nullopt;
  if (!work.resume.empty() && registry::read_run(repository, work.resume).status != registry::RunStatus::kDone)
    return std::nullopt;
  std::optional<registry::Run> done = registry::find_done_run(repository, key_of(work));
  if (!done || done->outputs.size() != work.makes.size()) return std::nullopt;
  Outcome outcome;
  outcome.unchanged = true;
  for (std::size_t i = 0; i < work.makes.size(); ++i) {
    std::optional<registry::Version> version =
        registry::version_of(repository, work.makes[i], done->outputs[i].version);
    if (!version) return std::nullopt;
    outcome.versions.push_back(std::move(*version));
  }
  outcome.run = std::move(*done);
  return outcome;
}

Outcome run_once(registry::Repository& repository, Work work, const Body& body, Progress& progress,
                 const Prepare& prepare) {
  if (std::optional<Outcome> known = known_answer(repository, work)) return std::move(*known);
  if (prepare) prepare(work);
  std::string run;
  if (!record_if_possible(repository, work, progress, [&] { run = open_run(repository, work); }))
    return run_unrecorded(repository, work, body);
  try {
    return run_body(repository, work, run, body, progress);
  } catch (...) {
    end_badly(repository, run);
    throw;
  }
}

void require_repository(const registry::Repository& repository) {
  if (path_exists(join_path(repository.mlx_folder(), "meta.db"))) return;
  throw Error(ErrorKind::kNotFound, fmt::format("{} was removed during the run", repository.mlx_folder()),
              "what was not stored before is lost; restore the folder, or make a new repository with `mlx init`");
}

void point_at(registry::Repository& repository, const registry::Version& version) {
  registry::write_pointer(repository, {version.artifact, version.kind, version.digest, version.files, version.bytes});
}

}  // namespace mlx::work
