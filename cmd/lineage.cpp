// mlx lineage: what a version was made from and what was made from it, as a tree.
#include <fmt/format.h>

#include <memory>
#include <set>

#include "base/json.h"
#include "cmd/describe.h"
#include "registry/versions/lineage.h"
#include "registry/versions/references.h"

namespace mlx::cmd {
namespace {

// Draws `node` and its branches in one direction. A node that was drawn before is named again without its branches.
class Tree {
 public:
  Tree(const registry::Lineage& lineage, bool ancestors, Context& context)
      : lineage_(lineage), ancestors_(ancestors), context_(context) {}

  bool empty(int node) const { return next(node).empty(); }

  void draw(int node, const std::string& indent) {
    const std::vector<int> branches = next(node);
    for (std::size_t i = 0; i < branches.size(); ++i) {
      const bool last = i + 1 == branches.size();
      const bool seen = !drawn_.insert(branches[i]).second;
      context_.line(indent + (last ? "└─ " : "├─ ") + label(branches[i]) +
                    (seen && !empty(branches[i]) ? " (above)" : ""));
      if (!seen) draw(branches[i], indent + (last ? "   " : "│  "));
    }
  }

 private:
  std::vector<int> next(int node) const {
    std::vector<int> found;
    for (const auto& [from, to] : lineage_.edges) {
      if (ancestors_ && to == node) found.push_back(from);
      if (!ancestors_ && from == node) found.push_back(to);
    }
    return found;
  }

  std::string label(int index) const {
    const registry::LineageNode& node = lineage_.nodes[static_cast<std::size_t>(index)];
    if (node.kind == registry::NodeKind::kRun) return context_.yellow(node.label) + "  " + context_.dim(title_of(node));
    return context_.bold(node.label) + "  " +
           context_.dim(std::string(registry::node_kind_name(node.kind)) + "  " + node.digest.brief());
  }

  std::string title_of(const registry::LineageNode& node) const {
    return registry::read_run(context_.repository(), node.run).title;
  }

  const registry::Lineage& lineage_;
  bool ancestors_;
  Context& context_;
  std::set<int> drawn_;
};

Json lineage_json(const registry::Lineage& lineage) {
  Json nodes = Json::array(), edges = Json::array();
  for (const registry::LineageNode& node : lineage.nodes) {
    Json one = {{"label", node.label}, {"kind", registry::node_kind_name(node.kind)}};
    if (node.kind == registry::NodeKind::kRun)
      one["run"] = "run:" + node.run;
    else
      one["digest"] = node.digest.text();
    if (node.kind == registry::NodeKind::kCheckpoint && !node.run.empty()) {
      one["run"] = "run:" + node.run;
      one["step"] = node.step;
    }
    nodes.push_back(std::move(one));
  }
  for (const auto& [from, to] : lineage.edges) edges.push_back({{"from", from}, {"to", to}});
  return {{"schema", "mlx.lineage/1"}, {"nodes", nodes}, {"edges", edges}};
}

int run_lineage(const std::string& reference, Context& context) {
  registry::Repository& repository = context.repository();
  const registry::Version version = registry::resolve(repository, reference);
  const registry::Lineage lineage = registry::lineage(repository, version);
  if (context.wants_json()) {
    context.json(lineage_json(lineage));
    return 0;
  }
  context.line(context.bold(version.name()) + names_text(context, version) + "  " +
               context.dim(std::string(registry::kind_name(version.kind)) + "  " + version.digest.brief()));
  Tree from(lineage, true, context), to(lineage, false, context);
  if (!from.empty(0)) {
    context.line("made from");
    from.draw(0, "");
  }
  if (!to.empty(0)) {
    context.line("used for");
    to.draw(0, "");
  }
  return 0;
}

}  // namespace

Command add_lineage() {
  auto reference = std::make_shared<std::string>();
  Command command;
  command.name = "lineage";
  command.summary = "Show what a version was made from, and what was made from it";
  command.group = "govern";
  command.options = {argument("REF", *reference, "The version", Complete::kReference)};
  command.examples = {"mlx lineage clf@production", "mlx lineage data/fashion@v1 --json"};
  command.run = [reference](Context& context) { return run_lineage(*reference, context); };
  return command;
}

}  // namespace mlx::cmd
