// The table of settings, strict reading of their files, and which value is in force.
#include "registry/settings/settings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/fd.h"
#include "base/foreign_files.h"
#include "base/path.h"
#include "base/toml.h"
#include "base/toml_edit.h"
#include "registry/settings/own_folder.h"
#include "store/worktree/beneath.h"

namespace mlx::registry {
namespace {

constexpr std::int64_t kMostThreads = 4096;

// Sorted by key. Code reads every setting that has a row.
const std::vector<Setting> kSettings = {
    {"checkout.link",
     "MLX_CHECKOUT_LINK",
     SettingKind::kChoice,
     "copy",
     "How checkout and pull share disk space with a cache of whole files",
     {"copy", "hardlink", "reflink"}},
    {"cache.limit", "MLX_CACHE_LIMIT", SettingKind::kText, "100GiB",
     "Size of the data that this machine keeps for trainings of other hosts, such as 20GiB"},
    {"core.threads", "MLX_THREADS", SettingKind::kInteger, "0", "Threads; 0 for one per core", {}, 0, kMostThreads},
    {"fetch.filter",
     "MLX_FETCH_FILTER",
     SettingKind::kChoice,
     "none",
     "What fetch leaves to be fetched on demand: none, or blobs:none for the content of files",
     {"none", "blobs:none"}},
    {"remote.default", "MLX_REMOTE_DEFAULT", SettingKind::kText, "",
     "The remote of fetch, pull and push; if not set, origin or the only one"},
    {"safe.directory", "MLX_SAFE_DIRECTORY", SettingKind::kText, "",
     "Folders of other users' repositories that may be written to, separated by ':'; * for all"},
    {"user.email", "MLX_USER_EMAIL", SettingKind::kText, "", "Your address; pushed beside user.name"},
    {"user.name", "MLX_USER_NAME", SettingKind::kText, "",
     "Your name in the audit log; without it others see a pseudonymous id"},
    {"user.signingkey", "MLX_SIGNING_KEY", SettingKind::kText, "",
     "The SSH key that signs what you record: a private key's file, or a public key that an ssh-agent signs for"},
};

// Tables of mlx.toml that are not settings; others read them.
constexpr const char* kOtherTables[] = {"people", "remotes"};

constexpr SettingOrigin kFiles[] = {SettingOrigin::kUser, SettingOrigin::kTracked, SettingOrigin::kClone};

TomlPath table_of(const std::string& key) {
  return {key.substr(0, key.find('.'))};
}
std::string name_of(const std::string& key) {
  return key.substr(key.find('.') + 1);
}

// False if this file must not set it; its value there is ignored.
bool counts_in(const Setting& setting, SettingOrigin origin) {
  if (setting.key == std::string_view("safe.directory")) return origin == SettingOrigin::kUser;
  return setting.key != std::string_view("user.signingkey") || origin != SettingOrigin::kTracked;
}

bool looks_secret(std::string key) {
  std::ranges::transform(key, key.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  constexpr const char* kWords[] = {"password", "passphrase", "passwd", "secret", "token", "credential", "private"};
  return std::ranges::any_of(kWords, [&](const char* word) { return key.find(word) != std::string::npos; });
}

[[noreturn]] void refuse_secret(const std::string& key) {
  throw Error(ErrorKind::kRefused, fmt::format("{}: secrets are not kept in settings", key),
              "set it in the environment, or in the file that the remote's own tools read (ssh, AWS profiles)");
}

std::string expected_of(const Setting& setting) {
  if (setting.kind == SettingKind::kChoice) return fmt::format("one of {}", fmt::join(setting.choices, ", "));
  if (setting.kind == SettingKind::kInteger) return fmt::format("an integer from {} to {}", setting.min, setting.max);
  return "text without control characters";
}

// "" if `text` is a valid value, else what was expected.
std::string problem_of(const Setting& setting, const std::string& text) {
  if (setting.kind == SettingKind::kChoice) {
    return std::ranges::find(setting.choices, text) != setting.choices.end() ? "" : expected_of(setting);
  }
  if (setting.kind == SettingKind::kInteger) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    return whole && number >= setting.min && number <= setting.max ? "" : expected_of(setting);
  }
  const bool control =
      std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  return control || !is_utf8(text) ? expected_of(setting) : "";
}

void require_value(const Setting& setting, const std::string& text, const std::string& where) {
  const std::string problem = problem_of(setting, text);
  if (problem.empty()) return;
  const std::string meant = did_you_mean(text, setting.choices);
  throw Error(ErrorKind::kUsage, fmt::format("{}: expected {}, got '{}'", where, problem, text.substr(0, 80)),
              meant.empty() ? std::string(setting.help) : fmt::format("did you mean '{}'?", meant));
}

// The user's own file may be a link, as people keep their configuration elsewhere. No other file is read through a
// link.
std::string read_settings(const std::string& path, SettingOrigin origin) {
  return origin == SettingOrigin::kUser ? read_text(path) : read_project_text(path);
}

using Values = std::map<std::string, SettingValue>;

// The values in one file. Skips the tables of other readers if `shared`.
Values read_file_values(const std::string& path, const std::string& shown, SettingOrigin origin) {
  Values values;
  if (path.empty() || !path_exists(path)) return values;
  const TomlNode tree = parse_toml(read_settings(path, origin), shown);
  for (const auto& [table, node] : tree.members) {
    const bool other = std::ranges::any_of(kOtherTables, [&key = table](const char* name) { return key == name; });
    if (other && origin == SettingOrigin::kTracked) continue;
    TomlReader reader(node, shown, "[" + table + "]");
    for (const std::string& name : reader.keys()) {
      const std::string key = table + "." + name, place = fmt::format("{}:{}", shown, reader.line(name));
      const Setting* setting = nullptr;
      try {
        setting = &setting_of(key);
      } catch (const Error& error) {
        throw Error(error.kind, fmt::format("{}: {}", place, error.message), error.hint);
      }
      const std::string text = setting->kind == SettingKind::kInteger
                                   ? std::to_string(reader.integer(name, setting->min, setting->max))
                                   : reader.string(name);
      require_value(*setting, text, place + ": " + key);
      if (!counts_in(*setting, origin)) continue;
      values[key] = {text, origin, place};
    }
  }
  return values;
}

Values read_environment(const SettingSources& sources) {
  Values values;
  for (const Setting& setting : kSettings) {
    const std::optional<std::string> text = sources.environment.get(setting.environment);
    if (!text) continue;
    require_value(setting, *text, fmt::format("environment variable {}", setting.environment));
    values[setting.key] = {*text, SettingOrigin::kEnvironment, setting.environment};
  }
  return values;
}

// "" without a home.
std::string user_file(const Environment& environment) {
  const std::string folder = environment.get("XDG_CONFIG_HOME").value_or("");
  if (folder.starts_with('/')) return join_path(folder, "mlx/config.toml");
  return environment.home.empty() ? "" : join_path(environment.home, ".config/mlx/config.toml");
}

std::string file_of(const SettingSources& sources, SettingOrigin origin) {
  if (origin == SettingOrigin::kUser) return user_file(sources.environment);
  if (sources.root.empty()) return {};
  return join_path(sources.root, origin == SettingOrigin::kTracked ? "mlx.toml" : ".mlx/config.toml");
}

// The path for messages: relative to the root inside the repository.
std::string shown_file(const SettingSources& sources, SettingOrigin origin) {
  if (origin == SettingOrigin::kTracked) return "mlx.toml";
  return origin == SettingOrigin::kClone ? ".mlx/config.toml" : user_file(sources.environment);
}

// Writes through a link to the file itself: people keep their configuration elsewhere and link to it.
void replace_own_file(const std::string& path, const std::string& text) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  make_folders(parent_path(path));
  write_file_atomically(real ? std::string(real.get()) : path, text);
}

void replace_file(const SettingSources& sources, SettingOrigin origin, const std::string& text) {
  if (origin == SettingOrigin::kUser) return replace_own_file(settings_file(sources, origin), text);
  require_no_stranger(sources.root, sources.environment);
  const store::Beneath worktree(sources.root);
  if (origin == SettingOrigin::kClone) worktree.make_folders(".mlx");
  worktree.replace(shown_file(sources, origin), text);
}

}  // namespace

const std::vector<Setting>& all_settings() {
  return kSettings;
}

const Setting& setting_of(const std::string& key) {
  std::vector<std::string> known;
  for (const Setting& setting : kSettings) {
    if (key == setting.key) return setting;
    known.emplace_back(setting.key);
  }
  if (looks_secret(key)) refuse_secret(key);
  const std::string meant = did_you_mean(key, known);
  throw Error(ErrorKind::kUsage, fmt::format("no setting is called '{}'", key),
              meant.empty() ? "`mlx config --list` lists them" : fmt::format("did you mean '{}'?", meant));
}

const char* origin_name(SettingOrigin origin) {
  switch (origin) {
    case SettingOrigin::kUser:
      return "global";
    case SettingOrigin::kTracked:
      return "tracked";
    case SettingOrigin::kClone:
      return "local";
    case SettingOrigin::kEnvironment:
      return "environment";
    case SettingOrigin::kDefault:
      break;
  }
  return "default";
}

std::string settings_file(const SettingSources& sources, SettingOrigin origin) {
  std::string path = file_of(sources, origin);
  if (!path.empty()) return path;
  if (origin == SettingOrigin::kUser)
    throw Error(ErrorKind::kUsage, "there is no home folder to keep settings in", "set HOME or XDG_CONFIG_HOME");
  throw Error(ErrorKind::kUsage, "not in an mlx repository: there is no clone to set this for",
              "--global sets it for all of yours");
}

Settings::Settings(const SettingSources& sources) {
  for (const SettingOrigin origin : kFiles) {
    values_[origin] = read_file_values(file_of(sources, origin), shown_file(sources, origin), origin);
  }
  values_[SettingOrigin::kEnvironment] = read_environment(sources);
  for (const Setting& setting : kSettings) {
    if (*setting.fallback) values_[SettingOrigin::kDefault][setting.key] = {setting.fallback, {}, {}};
  }
}

std::optional<SettingValue> Settings::find_in(SettingOrigin origin, const std::string& key) const {
  const Values& values = values_.at(origin);
  const auto found = values.find(key);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

std::optional<SettingValue> Settings::find(const std::string& key) const {
  (void)setting_of(key);
  for (const SettingOrigin origin : {SettingOrigin::kEnvironment, SettingOrigin::kClone, SettingOrigin::kTracked,
                                     SettingOrigin::kUser, SettingOrigin::kDefault}) {
    if (auto value = find_in(origin, key)) return value;
  }
  return std::nullopt;
}

std::string Settings::text(const std::string& key) const {
  const std::optional<SettingValue> value = find(key);
  return value ? value->text : std::string();
}

std::int64_t Settings::integer(const std::string& key) const {
  CHECK(setting_of(key).kind == SettingKind::kInteger);
  const std::string value = text(key);
  return value.empty() ? 0 : std::stoll(value);
}

bool write_setting(const SettingSources& sources, SettingOrigin origin, const std::string& key,
                   const std::string& value, bool dry_run) {
  const Setting& setting = setting_of(key);
  require_value(setting, value, key);
  if (holds_password(value)) refuse_secret(key);
  if (!counts_in(setting, origin)) {
    throw Error(ErrorKind::kUsage, fmt::format("{}: has an effect only in your own settings", key),
                "set it with --global");
  }
  const std::string path = settings_file(sources, origin);
  const std::string before = path_exists(path) ? read_settings(path, origin) : std::string();
  const std::string literal =
      setting.kind == SettingKind::kInteger ? std::to_string(std::stoll(value)) : toml_quoted(value);
  const std::string after = with_toml_key(before, table_of(key), name_of(key), literal, shown_file(sources, origin));
  if (after == before) return false;
  if (!dry_run) replace_file(sources, origin, after);
  return true;
}

bool remove_setting(const SettingSources& sources, SettingOrigin origin, const std::string& key, bool dry_run) {
  (void)setting_of(key);
  const std::string path = settings_file(sources, origin);
  const std::string before = path_exists(path) ? read_settings(path, origin) : std::string();
  const std::string after = without_toml_key(before, table_of(key), name_of(key), shown_file(sources, origin));
  if (after == before) return false;
  if (!dry_run) replace_file(sources, origin, after);
  return true;
}

bool holds_password(const std::string& url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string::npos) return false;
  const std::string authority = url.substr(scheme + 3, url.find('/', scheme + 3) - scheme - 3);
  const std::size_t at = authority.rfind('@');
  return at != std::string::npos && authority.substr(0, at).find(':') != std::string::npos;
}

}  // namespace mlx::registry
