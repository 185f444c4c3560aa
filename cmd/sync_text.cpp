// The remote of an exchange, its one line and its JSON fields.
#include "cmd/sync_text.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/json.h"
#include "registry/settings.h"

namespace mlx::cmd {

registry::RemoteConfig chosen_remote(const std::string& name, Context& context) {
  const std::string wanted = name.empty() ? context.settings().text("remote.default") : name;
  return registry::pick_remote(context.repository().root(), wanted);
}

std::string sync_text(const char* verb, const std::string& remote, const registry::SyncResult& result) {
  if (result.operations == 0 && result.objects == 0) return fmt::format("{} {}: unchanged", verb, remote);
  const std::string bytes = result.bytes ? ", " + format_bytes(result.bytes) : "";
  return fmt::format("{} {}: {} operation{}, {} object{}{}", verb, remote, result.operations,
                     result.operations == 1 ? "" : "s", result.objects, result.objects == 1 ? "" : "s", bytes);
}

Json sync_json(const char* schema, const std::string& remote, const registry::SyncResult& result) {
  return {{"schema", schema},
          {"remote", remote},
          {"operations", result.operations},
          {"objects", result.objects},
          {"bytes", result.bytes},
          {"status", result.operations == 0 && result.objects == 0 ? "unchanged" : "done"}};
}

}  // namespace mlx::cmd
