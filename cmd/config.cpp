// mlx config: reads and writes settings; says which file each value comes from.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "cmd/cli/cli.h"
#include "registry/settings/settings.h"

namespace mlx::cmd {
namespace {

using registry::SettingOrigin;

struct ConfigOptions {
  bool list = false, show_origin = false, unset = false, global = false, local = false, tracked = false;
  std::vector<std::string> words;  // KEY and VALUE: an empty VALUE is a value
};

std::optional<SettingOrigin> chosen_file(const ConfigOptions& options) {
  if (options.global + options.local + options.tracked > 1)
    throw Error(ErrorKind::kUsage, "config: --global, --local and --tracked exclude each other", "name one file");
  if (options.global) return SettingOrigin::kUser;
  if (options.tracked) return SettingOrigin::kTracked;
  if (options.local) return SettingOrigin::kClone;
  return std::nullopt;
}

void check_words(const ConfigOptions& options) {
  const std::size_t most = options.list ? 0 : options.unset ? 1 : 2;
  if (options.list && options.unset) throw Error(ErrorKind::kUsage, "config: --list and --unset exclude each other");
  if (options.unset && options.words.empty()) throw Error(ErrorKind::kUsage, "config: --unset needs a KEY");
  if (options.words.size() > most)
    throw Error(ErrorKind::kUsage, fmt::format("config: unexpected argument '{}'", options.words[most]),
                "usage: mlx config [KEY [VALUE]]");
}

Json setting_json(const registry::Setting& setting, const std::optional<registry::SettingValue>& value) {
  Json json = {{"key", setting.key}, {"help", setting.help}, {"environment", setting.environment}};
  const bool number = value && setting.kind == registry::SettingKind::kInteger;
  json["value"] = number ? Json(std::stoll(value->text)) : value ? Json(value->text) : Json();
  json["origin"] = value ? Json(origin_name(value->origin)) : Json();
  json["place"] = value && !value->place.empty() ? Json(value->place) : Json();
  return json;
}

std::string origin_text(const registry::SettingValue& value) {
  return value.place.empty() ? "default" : value.place;
}

std::optional<registry::SettingValue> find(Context& context, const ConfigOptions& options, const std::string& key) {
  const auto file = chosen_file(options);
  return file ? context.settings().find_in(*file, key) : context.settings().find(key);
}

int list(const ConfigOptions& options, Context& context) {
  Json list = Json::array();
  std::size_t width = 0;
  for (const registry::Setting& setting : registry::all_settings()) {
    if (const auto value = find(context, options, setting.key)) width = std::max(width, origin_text(*value).size());
  }
  for (const registry::Setting& setting : registry::all_settings()) {
    const auto value = find(context, options, setting.key);
    list.push_back(setting_json(setting, value));
    if (!value && chosen_file(options)) continue;
    const std::string origin = value ? origin_text(*value) : "";
    context.line((options.show_origin ? context.dim(fmt::format("{:<{}}  ", origin, width)) : "") +
                 fmt::format("{} = {}", context.bold(setting.key), value ? value->text : context.dim("(not set)")));
  }
  if (context.wants_json()) context.json({{"schema", "mlx.config/1"}, {"settings", list}});
  return 0;
}

int show(const ConfigOptions& options, Context& context) {
  const registry::Setting& setting = registry::setting_of(options.words[0]);
  const auto value = find(context, options, setting.key);
  if (value) context.line((options.show_origin ? origin_text(*value) + "  " : "") + value->text);
  if (context.wants_json()) {
    Json json = {{"schema", "mlx.config/1"}};
    json.update(setting_json(setting, value));
    context.json(json);
  }
  return value ? 0 : 1;
}

int change(const ConfigOptions& options, Context& context) {
  const SettingOrigin file = chosen_file(options).value_or(SettingOrigin::kClone);
  const registry::Setting& setting = registry::setting_of(options.words[0]);
  const registry::SettingSources& sources = context.setting_sources();
  const std::string path = registry::settings_file(sources, file);
  const bool changed = options.unset
                           ? registry::remove_setting(sources, file, setting.key, context.dry_run())
                           : registry::write_setting(sources, file, setting.key, options.words[1], context.dry_run());
  const std::string would = context.dry_run() ? "would be " : "";
  const std::string status = !changed ? "unchanged" : would + (options.unset ? "removed" : "set");
  context.line(fmt::format("{}{}  {}  {}", context.bold(setting.key), options.unset ? "" : " = " + options.words[1],
                           path, status));
  // An environment variable is stronger than every file.
  if (const auto stronger = sources.environment.get(setting.environment); stronger && !options.unset)
    context.say(fmt::format("{} is set in the environment and overrides this: {}", setting.environment, *stronger));
  if (context.wants_json()) {
    context.json({{"schema", "mlx.config/1"},
                  {"key", setting.key},
                  {"value", options.unset ? Json() : Json(options.words[1])},
                  {"file", path},
                  {"status", !changed        ? "unchanged"
                             : options.unset ? "removed"
                                             : "set"},
                  {"dry_run", context.dry_run()}});
  }
  return 0;
}

int run_config(const ConfigOptions& options, Context& context) {
  check_words(options);
  if (options.unset || options.words.size() == 2) return change(options, context);
  if (const auto file = chosen_file(options)) (void)registry::settings_file(context.setting_sources(), *file);
  return options.words.empty() ? list(options, context) : show(options, context);
}

}  // namespace

Command add_config() {
  auto options = std::make_shared<ConfigOptions>();
  Command command;
  command.name = "config";
  command.summary = "Read and write settings";
  command.group = "meta";
  command.dry_run = true;
  command.options = {
      arguments("KEY", options->words, "A setting and its new value; without one, all are listed", Complete::kSetting,
                false),
      flag("-l,--list", options->list, "List every setting with its value"),
      flag("--show-origin", options->show_origin, "Say where each value comes from: file and line, or variable"),
      flag("--unset", options->unset, "Remove the setting from the file"),
      flag("--local", options->local, "Use .mlx/config.toml, of this clone (default for writing)"),
      flag("--tracked", options->tracked, "Use mlx.toml, of the project, which git tracks"),
      flag("--global", options->global, "Use ~/.config/mlx/config.toml, of all your projects"),
  };
  command.examples = {"mlx config --list --show-origin", "mlx config core.threads 8",
                      "mlx config --tracked remote.default lab", "mlx config --unset core.threads"};
  command.run = [options](Context& context) { return run_config(*options, context); };
  return command;
}

}  // namespace mlx::cmd
