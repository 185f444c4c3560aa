// A repository in a temporary folder, short ways to fill it, and a dump of everything that listings show.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/path.h"
#include "registry/keys/signer.h"
#include "registry/record/undo.h"
#include "registry/repository.h"
#include "registry/sync/open_repository.h"
#include "registry/versions/artifacts.h"
#include "registry/versions/pointers.h"
#include "registry/versions/runs.h"

namespace mlx::registry::test {

// The real disk without syncing. These tests simulate killed processes and failing calls, not power loss, and hundreds
// of operations should take a second.
class UnsyncedDisk : public store::Disk {
 public:
  Fd create(const std::string& path) override { return real_->create(path); }
  Fd open_append(const std::string& path) override { return real_->open_append(path); }
  void write(const Fd& fd, ByteView bytes, const std::string& path) override { real_->write(fd, bytes, path); }
  void sync(const Fd&, const std::string&) override {}
  void sync_folder(const std::string&) override {}
  void rename(const std::string& from, const std::string& to) override { real_->rename(from, to); }
  void truncate(const std::string& path, std::uint64_t size) override { real_->truncate(path, size); }
  void remove(const std::string& path) override { real_->remove(path); }

 private:
  std::unique_ptr<store::Disk> real_ = store::real_disk();
};

// The home of the one person that all clones belong to, unless told otherwise.
inline const std::string& shared_home() {
  static const TempFolder home;
  static const std::string path = home.path();
  return path;
}

struct Clone {
  explicit Clone(const std::string& name = "clone", const std::string& whose_home = shared_home())
      : root(join_path(folder.path(), name)), home(whose_home) {
    make_folders(root);
    Repository::init(root, *disk);
    open();
  }
  void open() {
    Environment environment;
    environment.home = home;
    repository = std::unique_ptr<Repository>(
        new Repository(open_repository(root, *disk, pool, environment, interruption, *kinds)));
    repository->db().run("PRAGMA synchronous = OFF");
  }
  void close() { repository.reset(); }
  Repository& repo() { return *repository; }
  std::string path(const std::string& name) const { return join_path(root, name); }

  TempFolder folder;
  std::string root, home;
  const Kinds* kinds = &known_kinds();
  std::unique_ptr<store::Disk> disk = std::make_unique<UnsyncedDisk>();
  Pool pool{1};
  Interruption interruption;
  std::unique_ptr<Repository> repository;
};

// Signs an operation as this clone's person, and fills in everything but kind, body, parents and time. An `actor` makes
// it somebody else's.
inline Operation signed_by(Repository& repo, Operation operation, const std::string& actor = {}) {
  operation.signer = repo.signer().public_key;
  (void)repo.actor();  // makes the clone's id
  operation.clone = read_text(join_path(repo.mlx_folder(), "actor")).substr(0, 16);
  operation.actor = actor.empty() ? actor_of(operation.clone, operation.signer) : actor;
  operation.signature = repo.signer().sign(kOperationPurpose, signed_bytes(operation));
  operation.id = Digest::of(encode(operation));
  return operation;
}

// Stores a tree of one file with this text.
inline store::ManifestSummary tree(Repository& repo, const std::string& text) {
  const auto batch = repo.store().begin();
  store::Entry entry;
  entry.path = "file";
  entry.size = text.size();
  entry.content = batch->add_blob(as_bytes(text));
  const store::ManifestSummary summary = batch->add_manifest({entry});
  batch->commit();
  return summary;
}

inline NewVersion new_version(Repository& repo, const std::string& artifact, const std::string& text,
                              ArtifactKind kind = ArtifactKind::kModel) {
  return {.artifact = artifact,
          .kind = kind,
          .manifest = tree(repo, text),
          .message = "made of " + text,
          .run = {},
          .parent = {}};
}

inline Version make(Repository& repo, const std::string& artifact, const std::string& text,
                    ArtifactKind kind = ArtifactKind::kModel) {
  return create_version(repo, new_version(repo, artifact, text, kind)).version;
}

inline RunStart run_start(const std::string& command, const std::string& key) {
  RunStart start;
  start.command = command;
  start.title = "mlx " + command;
  start.key = Digest::of(key);
  start.params = R"({"lr":0.1,"seed":1})";
  start.environment = R"({"cpu":"x"})";
  start.code = R"({"branch":"main","dirty":false})";
  return start;
}

inline std::string join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += word + ",";
  return out;
}

// One line per row, in the order of the listings.
inline std::string dump(Repository& repo) {
  std::string out = "artifacts " + join(artifact_names(repo)) + "\n";
  for (const Version& v : versions(repo)) {
    out += fmt::format("version {} {} {} {} {} {} '{}' run={} parent={} {} {} [{}] [{}]\n", v.artifact,
                       kind_name(v.kind), v.number, v.digest.text(), v.files, v.bytes, v.message, v.run,
                       v.parent ? v.parent->brief() : "", v.actor, v.time, join(v.aliases), join(v.tags));
    for (const Attachment& a : attachments(repo, v.digest)) {
      out += fmt::format("  attached {} {} {} {}\n", a.kind, a.name, a.blob.brief(), a.time);
    }
  }
  for (const AliasMove& m : alias_moves(repo)) {
    out += fmt::format("moved {}@{} {} {} {}\n", m.artifact, m.alias, m.digest.brief(), m.actor, m.time);
  }
  for (const Run& r : runs(repo)) {
    out += fmt::format("run {} {} '{}' {} {} {} {} {} {} '{}' {} {} {}\n", r.id, r.command, r.title, name_of(r.status),
                       r.key.brief(), r.params, r.environment, r.code, r.summary, r.error, r.actor, r.started, r.ended);
    for (const auto& [role, id] : r.inputs) out += fmt::format("  in {} {}\n", role, id.brief());
    for (const RunOutput& o : r.outputs) out += fmt::format("  out {} {}\n", o.role, o.version.brief());
    for (const Checkpoint& c : checkpoints(repo, r.id))
      out += fmt::format("  checkpoint {} {} {}\n", c.step, c.manifest.brief(), c.best);
    for (const MetricPoint& p : metrics(repo, r.id)) {
      out += fmt::format("  {} {} {} {}\n", p.name, p.step, std::isnan(p.value) ? "nan" : fmt::format("{:a}", p.value),
                         p.time);
    }
  }
  for (const Digest& head : repo.heads()) out += "head " + head.text() + "\n";
  store::Statement select = repo.db().prepare("SELECT 1 FROM undone WHERE operation = ?");
  const auto undone = [&](const Digest& id) {
    const bool is = select.bind(id).step();
    select.reset();
    return is;
  };
  for (const Operation& o : repo.operations())
    out += fmt::format("operation {} {}{}\n", o.id.text(), o.kind, undone(o.id) ? " undone" : "");
  return out;
}

}  // namespace mlx::registry::test
