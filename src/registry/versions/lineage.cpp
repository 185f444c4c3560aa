// All ancestors and all descendants of a version, through runs and through parents.
#include "registry/versions/lineage.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "registry/versions/runs.h"

namespace mlx::registry {
namespace {

NodeKind kind_of_artifact(ArtifactKind kind) {
  return kind == ArtifactKind::kModel ? NodeKind::kModel : NodeKind::kDataset;
}

// The kind of a run's input or output, from its role.
NodeKind kind_of_role(std::string_view role) {
  if (role == "checkpoint") return NodeKind::kCheckpoint;  // another run continues from it
  return role == "model" || role == "init" ? NodeKind::kModel : NodeKind::kDataset;
}

class Walk {
 public:
  explicit Walk(store::Database& db) : db_(db) {}

  int version(const Digest& digest, NodeKind kind_if_unknown) {
    const auto [at, is_new] = versions_.emplace(digest, static_cast<int>(lineage_.nodes.size()));
    if (is_new) lineage_.nodes.push_back(describe(digest, kind_if_unknown));
    return at->second;
  }
  int run(const std::string& id) {
    const auto [at, is_new] = runs_.emplace(id, static_cast<int>(lineage_.nodes.size()));
    if (is_new) lineage_.nodes.push_back({.label = "run:" + id, .kind = NodeKind::kRun, .digest = {}, .run = id});
    return at->second;
  }
  void edge(int from, int to) {
    if (std::ranges::find(lineage_.edges, std::pair(from, to)) == lineage_.edges.end())
      lineage_.edges.emplace_back(from, to);
  }

  // Both directions use an explicit stack, so that long chains need no deep recursion.
  void ancestors(const Digest& of) {
    for (std::vector<Digest> todo = {of}; !todo.empty();) {
      const Digest digest = todo.back();
      todo.pop_back();
      if (!up_.insert(digest).second) continue;
      const int here = version(digest, NodeKind::kDataset);
      bool made_by_run = false;
      for (const std::string& id :
           texts("SELECT run FROM run_outputs WHERE version = ?1 UNION SELECT run FROM checkpoints WHERE manifest = ?1"
                 " ORDER BY run",
                 digest)) {
        made_by_run = true;
        edge(run(id), here);
        for (const auto& [role, input] : run_versions("run_inputs", id)) {
          edge(version(input, kind_of_role(role)), run(id));
          todo.push_back(input);
        }
      }
      if (made_by_run) continue;  // the run's inputs include the parent
      for (const Digest& parent :
           digests("SELECT DISTINCT parent FROM made_versions WHERE digest = ? AND parent IS NOT NULL ORDER BY parent",
                   digest)) {
        edge(version(parent, NodeKind::kDataset), here);
        todo.push_back(parent);
      }
    }
  }

  void descendants(const Digest& of) {
    for (std::vector<Digest> todo = {of}; !todo.empty();) {
      const Digest digest = todo.back();
      todo.pop_back();
      if (!down_.insert(digest).second) continue;
      const int here = version(digest, NodeKind::kDataset);
      for (const std::string& id :
           texts("SELECT DISTINCT run FROM run_inputs WHERE version = ? ORDER BY run", digest)) {
        edge(here, run(id));
        for (const auto& [role, output] : run_versions("run_outputs", id)) {
          edge(run(id), version(output, kind_of_role(role)));
          todo.push_back(output);
        }
        for (const Digest& checkpoint : used_checkpoints(id)) {
          edge(run(id), version(checkpoint, NodeKind::kCheckpoint));
          todo.push_back(checkpoint);
        }
      }
      for (const Digest& child : digests("SELECT DISTINCT digest FROM made_versions WHERE parent = ?1 AND digest NOT IN"
                                         " (SELECT version FROM run_outputs) ORDER BY digest",
                                         digest)) {
        edge(here, version(child, NodeKind::kDataset));
        todo.push_back(child);
      }
    }
  }

  Lineage take() { return std::move(lineage_); }

 private:
  LineageNode describe(const Digest& digest, NodeKind kind_if_unknown) {
    store::Statement select = db_.prepare(
        "SELECT v.artifact, v.kind, (SELECT min(n.number) FROM version_numbers n WHERE n.artifact = v.artifact AND"
        " n.digest = v.digest) FROM made_versions v WHERE v.digest = ? ORDER BY v.seq LIMIT 1");
    if (!select.bind(digest).step()) return describe_unnamed(digest, kind_if_unknown);
    return {.label = fmt::format("{}@v{}", select.text(0), select.int64(2)),
            .kind = select.text(1) == kind_name(ArtifactKind::kModel) ? NodeKind::kModel : NodeKind::kDataset,
            .digest = digest,
            .run = {}};
  }

  // Describes content without a version: data that is not here any more, or a checkpoint.
  LineageNode describe_unnamed(const Digest& digest, NodeKind kind) {
    store::Statement select = db_.prepare("SELECT run, step FROM checkpoints WHERE manifest = ? ORDER BY run LIMIT 1");
    if (!select.bind(digest).step())
      return {.label = digest.text().substr(0, 19), .kind = kind, .digest = digest, .run = {}};
    return {.label = fmt::format("step {} of run:{}", select.int64(1), select.text(0)),
            .kind = NodeKind::kCheckpoint,
            .digest = digest,
            .run = select.text(0),
            .step = select.int64(1)};
  }

  std::vector<std::string> texts(std::string_view sql, const Digest& key) {
    std::vector<std::string> found;
    store::Statement select = db_.prepare(sql);
    for (select.bind(key); select.step();) found.push_back(select.text(0));
    return found;
  }

  std::vector<Digest> digests(std::string_view sql, const Digest& key) {
    std::vector<Digest> found;
    store::Statement select = db_.prepare(sql);
    for (select.bind(key); select.step();) found.push_back(select.digest(0));
    return found;
  }

  // The run's checkpoints that other runs continued from.
  std::vector<Digest> used_checkpoints(const std::string& id) {
    std::vector<Digest> found;
    store::Statement select = db_.prepare(
        "SELECT manifest FROM checkpoints WHERE run = ? AND manifest IN (SELECT version FROM run_inputs)"
        " ORDER BY step");
    for (select.bind(id); select.step();) found.push_back(select.digest(0));
    return found;
  }

  std::vector<std::pair<std::string, Digest>> run_versions(const char* table, const std::string& id) {
    std::vector<std::pair<std::string, Digest>> found;
    store::Statement select =
        db_.prepare(fmt::format("SELECT role, version FROM {} WHERE run = ? ORDER BY position", table));
    for (select.bind(id); select.step();) found.emplace_back(select.text(0), select.digest(1));
    return found;
  }

  store::Database& db_;
  Lineage lineage_;
  std::map<Digest, int> versions_;
  std::map<std::string, int> runs_;
  std::set<Digest> up_, down_;
};

}  // namespace

const char* node_kind_name(NodeKind kind) {
  constexpr const char* kNames[] = {"dataset", "model", "run", "checkpoint"};
  return kNames[static_cast<std::size_t>(kind)];
}

Lineage lineage(Repository& repository, const Version& version) {
  Walk walk(repository.db());
  walk.version(version.digest, kind_of_artifact(version.kind));
  walk.ancestors(version.digest);
  walk.descendants(version.digest);
  Lineage found = walk.take();
  found.nodes.front().label = version.name();  // a digest may belong to several artifacts: show the one asked for
  found.nodes.front().kind = kind_of_artifact(version.kind);
  return found;
}

}  // namespace mlx::registry
