// The remote of an exchange, its one line and its JSON fields.
#include "cmd/sync_text.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/cli/foreign_text.h"
#include "registry/settings/settings.h"
#include "registry/versions/artifacts.h"
#include "store/crypto/signature.h"

namespace mlx::cmd {

registry::RemoteConfig chosen_remote(const std::string& name, Context& context) {
  const std::string wanted = name.empty() ? context.settings().text("remote.default") : name;
  return registry::pick_remote(context.repository().root(), wanted);
}

std::string sync_text(const char* verb, const std::string& remote, const registry::SyncResult& result) {
  if (result.operations == 0 && result.objects == 0) return fmt::format("{} {}: unchanged", verb, remote);
  const std::string bytes = result.bytes ? ", " + format_bytes(result.bytes) : "";
  return fmt::format("{} {}: {}, {}{}", verb, remote, counted(result.operations, "operation"),
                     counted(result.objects, "object"), bytes);
}

std::string would_fetch_text(const std::string& remote, const registry::SyncResult& result) {
  if (result.operations == 0 && result.objects == 0) return fmt::format("nothing to fetch from {}", remote);
  std::string text = fmt::format("would fetch from {}: {}", remote, counted(result.operations, "operation"));
  if (result.objects > 0) {
    text += fmt::format(", and the content of {} that {} not here", counted(result.objects, "version"),
                        result.objects == 1 ? "is" : "are");
  }
  return text;
}

Option allow_unrelated_flag(bool& allow) {
  return flag("--allow-unrelated-histories", allow, "Join a history that has nothing in common with this clone's");
}

registry::FetchOptions fetch_options(bool all, bool allow_unrelated, Context& context) {
  registry::FetchOptions options;
  options.allow_unrelated = allow_unrelated;
  options.dry_run = context.dry_run();
  const bool lazy = context.settings().text("fetch.filter") != "none";
  if (lazy) options.content = registry::FetchContent::kTrees;
  if (all) options.content = registry::FetchContent::kEverything;
  return options;
}

void print_versions(Context& context, const registry::SyncResult& result) {
  constexpr std::size_t kShown = 10;
  for (std::size_t i = 0; i < result.versions.size() && i < kShown; ++i) {
    const auto& [artifact, digest] = result.versions[i];
    const auto version = registry::version_of(context.repository(), artifact, digest);
    context.line(fmt::format("  new  {}  {}", version ? version->name() : artifact, digest.brief()));
  }
  if (result.versions.size() > kShown) context.line(fmt::format("  and {} more", result.versions.size() - kShown));
}

void say_met(Context& context, const registry::SyncResult& result) {
  for (const Digest& key : result.met)
    context.say(fmt::format("first contact: from now on this clone trusts what {} signs", store::ssh_fingerprint(key)));
  if (!result.met.empty())
    context.say("compare it with what `mlx key signing` prints on their machine; `mlx key trust` declares people");
}

void say_remarks(Context& context, const registry::SyncResult& result) {
  constexpr std::size_t kShown = 10;
  for (std::size_t i = 0; i < result.remarks.size() && i < kShown; ++i) context.say(printable(result.remarks[i]));
  if (result.remarks.size() > kShown)
    context.say(fmt::format("and {} more such; `mlx audit verify` lists all", result.remarks.size() - kShown));
}

Json sync_json(const char* schema, const std::string& remote, const registry::SyncResult& result) {
  Json versions = Json::array();
  for (const auto& [artifact, digest] : result.versions)
    versions.push_back({{"artifact", artifact}, {"digest", digest.text()}});
  Json met = Json::array();
  for (const Digest& key : result.met) met.push_back(store::ssh_fingerprint(key));
  return {{"schema", schema},
          {"remote", remote},
          {"operations", result.operations},
          {"objects", result.objects},
          {"bytes", result.bytes},
          {"versions", versions},
          {"first_contact", met},
          {"remarks", result.remarks},
          {"status", result.operations == 0 && result.objects == 0 ? "unchanged" : "done"}};
}

}  // namespace mlx::cmd
