// See serve_keys.h.
#include "cmd/serve_keys.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "cmd/cli/moment.h"
#include "registry/repository.h"
#include "registry/versions/api_keys.h"

namespace mlx::cmd {
namespace {

constexpr std::size_t kLargestKeys = std::size_t{16} << 20;

serve::ApiKey served_key(const registry::ApiKey& key) {
  return {key.name, key.digest, key.infer, key.metrics, key.models, key.expires, key.per_minute, key.per_day};
}

serve::ApiKey parse_api_key(const Json& json, const std::string& what) {
  serve::ApiKey key{.name = json_string(json, "name", what),
                    .digest = Digest::parse(json_string(json, "digest", what))};
  key.infer = false;
  for (const Json& role : json_array(json, "roles", what)) {
    if (role != "infer" && role != "metrics") fail(ErrorKind::kUsage, "{}: a role that is not known", what);
    (role == "infer" ? key.infer : key.metrics) = true;
  }
  for (const Json& model : json_array(json, "models", what)) {
    if (!model.is_string()) fail(ErrorKind::kUsage, "{}: a model's name is no text", what);
    key.models.push_back(model.get<std::string>());
  }
  if (!json.contains("expires")) fail(ErrorKind::kUsage, "{}: no 'expires'", what);
  if (!json["expires"].is_null()) key.expires = parse_moment(json_string(json, "expires", what), what);
  key.per_minute = json_int(json, "per_minute", what);
  key.per_day = json_int(json, "per_day", what);
  if (key.per_minute < 0 || key.per_day < 0) fail(ErrorKind::kUsage, "{}: a number of requests is negative", what);
  return key;
}

std::vector<serve::ApiKey> parse_api_keys(std::string_view text, const std::string& what) {
  try {
    const Json document = parse_json(text, what);
    std::vector<serve::ApiKey> out;
    for (const Json& json : json_array(document, "keys", what))
      if (!json_bool(json, "revoked", what)) out.push_back(parse_api_key(json, what));
    return out;
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage, error.message, "`mlx key api list --json` writes such a file");
  }
}

}  // namespace

ServeKeys::ServeKeys(const std::string& file, Context& context)
    : file_(file.empty() ? "" : join_path(context.folder(), file)), context_(context) {}

std::optional<std::vector<serve::ApiKey>> ServeKeys::now() {
  (void)changed();
  return read();
}

// Of a repository only its keys: a repository without any asks for none.
std::optional<std::vector<serve::ApiKey>> ServeKeys::read() {
  if (!file_.empty()) return parse_api_keys(as_text(read_regular_file(file_, kLargestKeys)), file_);
  if (!context_.has_repository()) return std::nullopt;
  const std::vector<registry::ApiKey> known = registry::api_keys(context_.repository());
  if (known.empty()) return std::nullopt;
  std::vector<serve::ApiKey> out;
  for (const registry::ApiKey& key : known)
    if (!key.revoked) out.push_back(served_key(key));
  return out;
}

bool ServeKeys::changed() {
  std::string now;
  if (!file_.empty()) {
    struct stat status {};
    if (::stat(file_.c_str(), &status) == 0)
      now = fmt::format("{} {} {}.{}", status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
  } else if (context_.has_repository()) {
    context_.repository().refresh();
    for (const registry::ApiKey& key : registry::api_keys(context_.repository()))
      now += fmt::format("{} {} ", key.digest.hex(), key.revoked);
  }
  return std::exchange(seen_, now) != now;
}

void ServeKeys::look(serve::Control& control) {
  if (seconds_now() < again_) return;
  try {
    // A database that cannot be written is copied each time.
    const bool costly = file_.empty() && context_.has_repository() && !context_.repository().db().writable();
    if (costly) again_ = seconds_now() + 10;
    if (!changed()) return;
    if (auto keys = read()) control.set_keys(std::move(*keys));
  } catch (const Error& error) {
    control.warn(error.message + "; the API keys that were read before still hold");
  }
}

}  // namespace mlx::cmd
