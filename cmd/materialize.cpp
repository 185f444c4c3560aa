// Folders and single files, planned and carried out by store/worktree/checkout.h.
#include "cmd/materialize.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/path.h"
#include "cmd/describe.h"
#include "registry/record/lost.h"
#include "registry/repository.h"
#include "registry/settings/settings.h"
#include "registry/sync/fetch_on_demand.h"
#include "registry/versions/checkouts.h"
#include "registry/versions/domains.h"

namespace mlx::cmd {

bool is_single_file(registry::Repository& repository, const Digest& manifest, const std::string& artifact) {
  if (repository.store().summarize(manifest).files != 1) return false;
  return repository.store().entries(manifest)[0].path == base_name(artifact);
}

void require_own_place(const std::string& root, const std::string& artifact) {
  for (std::size_t end = artifact.find('/');; end = artifact.find('/', end + 1)) {
    const std::string part = artifact.substr(0, end), path = join_path(root, part);
    if (is_folder(path) && !is_real_folder(path)) {
      throw Error(ErrorKind::kConflict,
                  fmt::format("{} is a symbolic link to a folder, and links are not followed", printable(part)),
                  "move the folder itself there (mv), or mount it there");
    }
    if (end == std::string::npos) return;
  }
}

bool say_erased(registry::Repository& repository, const registry::Pointer& pointer, Context& context) {
  const bool erased = registry::erasure_of_absent(repository, pointer.digest).has_value();
  if (!erased && !registry::loss_of(repository, pointer.digest)) return false;
  context.line(fmt::format("{}  {}  {}  {}", context.bold(printable(pointer.artifact)),
                           registry::kind_name(pointer.kind), pointer.digest.brief(), erased ? "erased" : "lost"));
  return true;
}

store::CheckoutPlan plan_version(registry::Repository& repository, const Digest& manifest, const std::string& artifact,
                                 const std::string& path, bool force, Context& context) {
  require_own_place(repository.root(), artifact);
  registry::fetch_on_demand(repository, manifest, context.progress());
  store::CheckoutOptions options;
  options.force = force;
  options.root = repository.root();
  options.single = is_single_file(repository, manifest, artifact);
  return store::plan_checkout(repository.store(), repository.store().entries(manifest), path, options,
                              &repository.stat_cache(), repository.pool(), context.progress());
}

store::CheckoutReport carry_out_version(registry::Repository& repository, const store::CheckoutPlan& plan,
                                        const Digest& manifest, const std::string& artifact, store::LinkMode link,
                                        Context& context) {
  const store::CheckoutReport report =
      store::carry_out(repository.store(), plan, link, &repository.stat_cache(), repository.pool(), context.progress());
  if (!artifact.empty() && plan.folder == join_path(repository.root(), artifact)) {
    registry::note_checked_out(repository, artifact, manifest);
  }
  return report;
}

store::LinkMode link_mode(Context& context, const std::string& option) {
  const store::LinkMode mode =
      store::parse_link_mode(option.empty() ? context.settings().text("checkout.link") : option);
  if (mode == store::LinkMode::kCopy || !context.repository().store().encrypted()) return mode;
  if (!option.empty()) {
    throw Error(ErrorKind::kRefused, "--link: the cache would hold plain copies of what is encrypted here",
                "leave it out, or say --link copy");
  }
  context.progress().warn("checkout.link is left alone: files are copied, for the repository is encrypted");
  return store::LinkMode::kCopy;
}

void materialize(registry::Repository& repository, const Digest& manifest, const std::string& artifact,
                 const std::string& path, bool force, Context& context) {
  const store::CheckoutPlan plan = plan_version(repository, manifest, artifact, path, force, context);
  carry_out_version(repository, plan, manifest, artifact, link_mode(context), context);
}

}  // namespace mlx::cmd
