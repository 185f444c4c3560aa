// mlx checkout: brings data to the worktree, as the pointers say or as a reference says; whole, a folder of it, or one
// file.
#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "cmd/describe.h"
#include "cmd/materialize.h"
#include "registry/sync/fetch_on_demand.h"
#include "registry/versions/checkouts.h"
#include "registry/versions/pointers.h"
#include "registry/versions/references.h"

namespace mlx::cmd {
namespace {

struct CheckoutOptions {
  std::vector<std::string> references;
  std::string to, link;  // link: "" as the setting says
  bool force = false;
};

// One thing to bring: all of these are planned before the first is carried out.
struct Job {
  std::string name;
  Digest digest;
  std::string artifact;                      // the artifact whose folder it is; "" for another folder
  std::optional<registry::Pointer> pointer;  // to be written afterwards
  std::string place;
  std::optional<store::CheckoutPlan> plan;  // none for a model: it is read from the store
  bool part = false;
};

// Every dataset as its pointer says; of those that were erased it is said.
std::vector<Job> plan_pointers(const CheckoutOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  std::vector<Job> jobs;
  for (const registry::Pointer& pointer : registry::all_pointers(repository)) {
    if (say_erased(repository, pointer, context)) continue;
    registry::need_files_of(repository, pointer.artifact, pointer.digest);
    if (pointer.kind == registry::ArtifactKind::kModel) continue;  // models are read from the store
    Job job{pointer.artifact, pointer.digest, pointer.artifact, {}, join_path(repository.root(), pointer.artifact), {}};
    job.plan = plan_version(repository, job.digest, job.artifact, job.place, options.force, context);
    jobs.push_back(std::move(job));
  }
  return jobs;
}

// One version to its place, and the pointer to it.
Job plan_whole(const registry::Version& version, const CheckoutOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  Job job{version.name(), version.digest, "", {}, "", {}};
  job.pointer = registry::Pointer{version.artifact, version.kind, version.digest, version.files, version.bytes};
  if (version.kind == registry::ArtifactKind::kModel) {
    job.place = join_path(repository.root(), registry::pointer_path(version.kind, version.artifact));
    return job;
  }
  job.artifact = version.artifact;
  job.place = join_path(repository.root(), version.artifact);
  job.plan = plan_version(repository, version.digest, version.artifact, job.place, options.force, context);
  return job;
}

// The version's files at `path` or below.
std::vector<store::Entry> part_of(registry::Repository& repository, const registry::Version& version,
                                  const std::string& path, Progress& progress) {
  std::vector<store::Entry> part = store::entries_inside(repository.store().entries(version.digest), path);
  if (part.empty()) {
    throw Error(ErrorKind::kNotFound, fmt::format("{} has nothing at '{}'", version.name(), printable(path)),
                fmt::format("`mlx ls {}` lists its files", shell_quoted(version.name())));
  }
  registry::fetch_on_demand(repository, part, progress);
  return part;
}

// Brings a part of a version into the artifact's folder; the rest of the folder and the pointer stay.
Job plan_part(const registry::Version& version, const std::string& path, const CheckoutOptions& options,
              Context& context) {
  registry::Repository& repository = context.repository();
  if (version.kind == registry::ArtifactKind::kModel) {
    throw Error(ErrorKind::kUsage, fmt::format("{}: a model has no folder of its own", version.name()),
                "name a folder for its files with --to FOLDER");
  }
  Job job{version.name() + ":" + path, version.digest, version.artifact, {}, "", {}, true};
  job.place = join_path(repository.root(), version.artifact);
  require_own_place(repository.root(), version.artifact);
  store::CheckoutOptions how;
  how.force = options.force;
  how.inside = path;
  how.root = repository.root();
  how.single = is_single_file(repository, version.digest, version.artifact);
  if (how.single) how.inside.clear();
  job.plan = store::plan_checkout(repository.store(), part_of(repository, version, path, context.progress()), job.place,
                                  how, &repository.stat_cache(), repository.pool(), context.progress());
  return job;
}

// With --to: a folder's files are written directly into the new folder, and so is a single file.
Job plan_export(const registry::Version& version, const std::string& path, const CheckoutOptions& options,
                Context& context) {
  registry::Repository& repository = context.repository();
  Job job{version.name() + (path.empty() ? "" : ":" + path), version.digest, "", {}, "", {}};
  job.place = absolute_path(join_path(context.folder(), options.to));
  if (relative_inside(job.place, repository.mlx_folder()))
    throw Error(ErrorKind::kUsage, fmt::format("--to {}: inside the repository's own files", printable(options.to)),
                "name a place outside of .mlx");
  std::vector<store::Entry> files = part_of(repository, version, path, context.progress());
  store::CheckoutOptions how;
  how.force = options.force;
  how.single = path.empty() ? is_single_file(repository, version.digest, version.artifact)
                            : files.size() == 1 && files[0].path == path;
  if (how.single) job.place = join_path(job.place, base_name(files[0].path));
  if (!how.single && !path.empty()) {
    for (store::Entry& entry : files) entry.path.erase(0, path.size() + 1);
  }
  job.plan = store::plan_checkout(repository.store(), std::move(files), job.place, how, &repository.stat_cache(),
                                  repository.pool(), context.progress());
  return job;
}

Job plan_reference(const std::string& text, const CheckoutOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  std::string path = registry::parse_reference(text).path;
  while (path.ends_with('/')) path.pop_back();
  const registry::Version version = registry::resolve(repository, text);
  registry::need_files_of(repository, version.name(), version.digest);
  if (!options.to.empty()) return plan_export(version, path, options, context);
  return path.empty() ? plan_whole(version, options, context) : plan_part(version, path, options, context);
}

store::CheckoutReport carry_out(const Job& job, store::LinkMode link, Context& context) {
  registry::Repository& repository = context.repository();
  store::CheckoutReport report;
  if (job.plan)
    report = carry_out_version(repository, *job.plan, job.digest, job.part ? "" : job.artifact, link, context);
  if (!job.artifact.empty()) registry::ignore_in_git(repository, job.artifact);
  if (job.pointer) registry::write_pointer(repository, *job.pointer);
  return report;
}

void print_plan(Context& context, const store::CheckoutPlan& plan) {
  const auto list = [&](const char* what, const std::vector<store::Entry>& entries) {
    for (const store::Entry& entry : entries) context.line(fmt::format("    {:<8}{}", what, printable(entry.path)));
  };
  list("write", plan.write);
  list("mode", plan.set_mode);
  list("remove", plan.remove);
  for (const std::string& path : plan.obstacles) context.line(fmt::format("    {:<8}{}", "remove", printable(path)));
}

Json plan_json(const store::CheckoutPlan& plan) {
  Json write = Json::array(), remove = Json::array();
  for (const store::Entry& entry : plan.write) write.push_back(entry_json(entry));
  for (const store::Entry& entry : plan.set_mode) write.push_back(entry_json(entry));
  for (const store::Entry& entry : plan.remove) remove.push_back(entry_json(entry));
  return {{"write", write}, {"remove", remove}};
}

void report(Context& context, Json& list, const Job& job, const store::CheckoutReport& done) {
  const bool nothing = !job.plan || job.plan->empty();
  const std::string what = nothing ? "" : fmt::format("  {}", files_text(job.plan->write.size(), job.plan->bytes()));
  context.line(fmt::format("{}  {}  {}{}", context.bold(printable(job.name)), job.digest.brief(), job.place,
                           context.dry_run() ? what : ""));
  if (context.dry_run() && job.plan) print_plan(context, *job.plan);
  Json one = {{"name", job.name}, {"digest", job.digest.text()}, {"place", job.place}};
  one["written"] = job.plan ? job.plan->write.size() + job.plan->set_mode.size() : 0;
  one["removed"] = job.plan ? job.plan->remove.size() + job.plan->obstacles.size() : 0;
  one["linked"] = done.linked;
  if (context.dry_run() && job.plan) one.update(plan_json(*job.plan));
  list.push_back(std::move(one));
}

void check_options(const CheckoutOptions& options) {
  if (options.to.empty()) return;
  if (options.references.empty()) {
    throw Error(ErrorKind::kUsage, "checkout: --to needs a version", "usage: mlx checkout REF --to FOLDER");
  }
  if (options.references.size() > 1) {
    throw Error(ErrorKind::kUsage, "checkout: --to takes one version at a time", "give each a folder of its own");
  }
}

int run_checkout(const CheckoutOptions& options, Context& context) {
  check_options(options);
  const store::LinkMode link = link_mode(context, options.link);
  std::vector<Job> jobs;
  if (options.references.empty()) jobs = plan_pointers(options, context);
  for (const std::string& reference : options.references) jobs.push_back(plan_reference(reference, options, context));
  Json list = Json::array();
  for (const Job& job : jobs) {
    const store::CheckoutReport done = context.dry_run() ? store::CheckoutReport() : carry_out(job, link, context);
    report(context, list, job, done);
  }
  if (jobs.empty()) context.line("nothing to check out: no pointers here");
  if (context.wants_json())
    context.json({{"schema", "mlx.checkout/1"}, {"dry_run", context.dry_run()}, {"artifacts", list}});
  return 0;
}

}  // namespace

Command add_checkout() {
  auto options = std::make_shared<CheckoutOptions>();
  Command command;
  command.name = "checkout";
  command.summary = "Bring data to the worktree, as the pointers or a version say";
  command.group = "versions";
  command.dry_run = true;
  command.options = {
      arguments("REF", options->references,
                "A version; its pointer moves to it. REF:path brings that file or folder only", Complete::kReference,
                false),
      option("--to", "FOLDER", options->to, "Write the files here and leave the pointer alone", Complete::kFolder),
      choice("--link", "HOW", {"copy", "hardlink", "reflink"}, options->link,
             "Share disk space with a cache of whole files in .mlx"),
      flag("-f,--force", options->force, "Overwrite changes that are in no version"),
  };
  command.examples = {"mlx checkout", "mlx checkout data/fashion@v1", "mlx checkout data/fashion@v2:train/",
                      "mlx checkout clf@production --to /tmp/clf"};
  command.run = [options](Context& context) { return run_checkout(*options, context); };
  return command;
}

}  // namespace mlx::cmd
