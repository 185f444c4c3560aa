// Blobs attached to a version: evaluations, reports, statistics.
#include <fmt/format.h>

#include "registry/operations/application.h"
#include "registry/operations/body.h"

namespace mlx::registry {
namespace {

// An attachment replaces another one of the same name, which is kept but no longer shown.
void apply_attach(const Application& a) {
  const Digest version = a.digest("version");
  const std::string kind = a.string("kind"), name = a.string("name");
  store::Statement shown =
      a.db.prepare("SELECT seq FROM attachments WHERE version = ? AND kind = ? AND name = ? ORDER BY seq DESC LIMIT 1");
  if (shown.bind(version, kind, name).step()) a.note_change(shown.int64(0), "replaces the one by");
  shown.reset();
  a.db.prepare(
          "INSERT OR REPLACE INTO attachments (seq, version, kind, name, maker, blob, actor, time)"
          " VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
      .bind(a.seq, version, kind, name, a.maker(), a.digest("blob"), a.operation.actor, a.operation.time)
      .run();
}

std::string attach_text(const Body& body) {
  return fmt::format("attached {} '{}' to {}", body.text("kind"), body.text("name"), body.brief("version"));
}

}  // namespace

extern const Kind kAttach = {
    "attach",
    apply_attach,
    attach_text,
    names({{Role::kReference, "version"}, {Role::kBlob, "blob"}}),
    ContentDomain::kVersion,
    {.thing = "attached", .keys = {"version", "name", "kind"}},
    takes<Right::kCommit>,
};

}  // namespace mlx::registry
