// mlx key api: the API keys of servers. A key is shown once, when it is made; what is recorded is its digest.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/cli/moment.h"
#include "cmd/key_people.h"
#include "registry/versions/api_keys.h"
#include "registry/versions/artifacts.h"

namespace mlx::cmd {
namespace {

struct ApiOptions {
  std::string name, roles = "infer", models, expires;
  std::int64_t per_minute = 0, per_day = 0;
};

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    out.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

// "90d", "12h", "30m", or a moment.
std::int64_t parse_expiry(const std::string& text) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const std::int64_t seconds = unit == "d" ? 86400 : unit == "h" ? 3600 : unit == "m" ? 60 : 0;
  if (error == std::errc() && seconds > 0) {
    if (count < 1 || count > 36500) fail(ErrorKind::kUsage, "--expires {}: expected 1 to 36500", text);
    return unix_micros() + count * seconds * 1'000'000;
  }
  const std::int64_t moment = parse_moment(text, "--expires");
  if (moment <= unix_micros()) fail(ErrorKind::kUsage, "--expires {}: that is not in the future", printable(text));
  return moment;
}

registry::ApiKey asked_key(const ApiOptions& options) {
  registry::ApiKey key{.name = options.name, .digest = {}};
  key.infer = false;
  for (const std::string& role : words_of(options.roles)) {
    if (role != "infer" && role != "metrics")
      fail(ErrorKind::kUsage, "--role {}: expected infer, metrics, or both with a comma", printable(role));
    (role == "infer" ? key.infer : key.metrics) = true;
  }
  if (!options.models.empty()) key.models = words_of(options.models);
  if (!options.expires.empty()) key.expires = parse_expiry(options.expires);
  if (options.per_minute < 0 || options.per_day < 0)
    fail(ErrorKind::kUsage, "--per-minute and --per-day: expected no negative number");
  key.per_minute = options.per_minute;
  key.per_day = options.per_day;
  return key;
}

// 256 random bits.
std::string fresh_key() {
  std::array<std::uint8_t, 32> bytes{};
  random_bytes(bytes);
  std::string text = to_base64(bytes);
  wipe(bytes);
  while (text.ends_with('=')) text.pop_back();
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  return "mlx_" + text;
}

std::vector<std::string> roles_of(const registry::ApiKey& key) {
  std::vector<std::string> out;
  if (key.infer) out.emplace_back("infer");
  if (key.metrics) out.emplace_back("metrics");
  return out;
}

Json to_json(const registry::ApiKey& key) {
  return {{"name", key.name},
          {"digest", key.digest.text()},
          {"roles", roles_of(key)},
          {"models", key.models},
          {"expires", key.expires == 0 ? Json() : Json(iso_time(key.expires))},
          {"per_minute", key.per_minute},
          {"per_day", key.per_day},
          {"revoked", key.revoked}};
}

// A server may give a model another name (`mlx serve NAME=MODEL`), so that such a key is no error.
void warn_of_unknown(const std::vector<std::string>& models, Context& context) {
  const std::vector<std::string> known = registry::artifact_names(context.repository());
  for (const std::string& model : models)
    if (std::ranges::find(known, model) == known.end())
      context.progress().warn(
          fmt::format("there is no model '{0}': the key may ask what is served as '{0}', and nothing else", model));
}

int add(const ApiOptions& options, Context& context) {
  registry::ApiKey key = asked_key(options);
  registry::check_new_api_key(context.repository(), key);
  warn_of_unknown(key.models, context);
  const char* const status = context.dry_run() ? "would be added" : "added";
  Json document = {{"schema", "mlx.key.api.add/1"}, {"status", status}, {"dry_run", context.dry_run()}};
  if (!context.dry_run()) {
    const std::string text = fresh_key();
    key.digest = Digest::of(text);
    registry::add_api_key(context.repository(), key);
    document["key"] = text;
    context.line(text);
  }
  document["api_key"] = to_json(key);
  context.say(fmt::format("'{}' {}{}", key.name, status,
                          context.dry_run() ? "" : ": this is the only time that the key is shown"));
  if (context.wants_json()) context.json(document);
  return 0;
}

std::string state_of(const registry::ApiKey& key) {
  if (key.revoked) return "revoked";
  if (key.expires == 0) return "";
  return fmt::format("{} {}", key.expires <= unix_micros() ? "expired" : "until", iso_time(key.expires));
}

std::string limits_of(const registry::ApiKey& key) {
  std::string out;
  if (key.per_minute > 0) out += fmt::format("{} a minute", grouped(static_cast<std::uint64_t>(key.per_minute)));
  if (key.per_day > 0)
    out += fmt::format("{}{} a day", out.empty() ? "" : ", ", grouped(static_cast<std::uint64_t>(key.per_day)));
  return out.empty() ? "any number" : out;
}

int list(const ApiOptions& /*options*/, Context& context) {
  Json keys = Json::array();
  for (const registry::ApiKey& key : registry::api_keys(context.repository())) {
    const std::string models = key.models.empty() ? "all models" : fmt::format("{}", fmt::join(key.models, ","));
    std::string line = fmt::format("{}  {}  {}  {}  {}", context.bold(key.name), fmt::join(roles_of(key), ","), models,
                                   limits_of(key), context.dim(key.digest.brief()));
    if (const std::string state = state_of(key); !state.empty()) line += "  " + state;
    context.line(line);
    keys.push_back(to_json(key));
  }
  if (keys.empty()) context.line("there are no API keys: `mlx serve` asks for none");
  if (context.wants_json()) context.json({{"schema", "mlx.key.api/1"}, {"keys", keys}});
  return 0;
}

int revoke(const ApiOptions& options, Context& context) {
  const bool any = !registry::revoke_api_keys(context.repository(), options.name, context.dry_run()).empty();
  const char* const status = !any ? "unchanged" : context.dry_run() ? "would be revoked" : "revoked";
  context.line(fmt::format("{}  {}", context.bold(options.name), status));
  if (context.wants_json())
    context.json({{"schema", "mlx.key.api.revoke/1"},
                  {"name", options.name},
                  {"status", status},
                  {"dry_run", context.dry_run()}});
  return 0;
}

}  // namespace

Command api_key_command() {
  auto values = std::make_shared<ApiOptions>();
  ApiOptions& v = *values;
  Command command;
  command.name = "api";
  command.summary = "API keys, which `mlx serve` asks for";
  command.subcommands = {
      subcommand("add", "Make an API key and print it, once",
                 {argument("NAME", v.name, "What to call it"),
                  option("--role", "ROLES", v.roles, "infer (the default), metrics, or both with a comma"),
                  option("--model", "NAMES", v.models, "The models that it may ask, with commas (default: all)"),
                  option("--expires", "WHEN", v.expires, "Until when it holds: 90d, 12h, 30m, or a date"),
                  integer("--per-minute", "N", v.per_minute, "Most requests in a minute (default: any number)"),
                  integer("--per-day", "N", v.per_day, "Most requests in a day of UTC (default: any number)")},
                 true, values, add),
      subcommand("list", "List the API keys; the document of --json is what `mlx serve --keys` reads", {}, false,
                 values, list),
      subcommand("revoke", "Make an API key hold no more", {argument("NAME", v.name, "A name of `mlx key api list`")},
                 true, values, revoke),
  };
  command.subcommands[0].examples = {"mlx key api add ada --model lm --expires 90d --per-minute 60"};
  return command;
}

}  // namespace mlx::cmd
