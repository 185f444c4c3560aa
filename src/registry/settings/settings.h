// Settings: one table of what can be set, and the value in force for each. From strongest to weakest: the command's own
// option (handled by the command), the environment, .mlx/config.toml (this clone), mlx.toml (tracked by git and so
// shared by the project), the user's own file, the default.
//
// A new setting is one row in settings.cpp; commands read it through Context::settings(). Nothing here reads the
// environment or looks up the user's home: cmd/ passes both in. A wrong key, type or value throws kUsage with file,
// line and a suggestion.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"

namespace mlx::registry {

enum class SettingKind { kText, kChoice, kInteger };

struct Setting {
  const char* key;          // table and name: "core.threads"
  const char* environment;  // "MLX_THREADS"
  SettingKind kind;
  const char* fallback;  // "" if unset means no value
  const char* help;      // one sentence without a full stop
  std::vector<std::string> choices = {};
  std::int64_t min = 0, max = 0;
};
const std::vector<Setting>& all_settings();  // sorted by key
// Throws kUsage with a did-you-mean, kRefused for what looks like a secret.
const Setting& setting_of(const std::string& key);

enum class SettingOrigin { kDefault, kUser, kTracked, kClone, kEnvironment };
const char* origin_name(SettingOrigin origin);  // "default", "global", "tracked", "local", "environment"

struct SettingValue {
  std::string text;  // integers in decimal
  SettingOrigin origin = SettingOrigin::kDefault;
  std::string place;  // "mlx.toml:3", "MLX_THREADS", "" for the default
};

// Where settings come from. An empty variable counts as unset.
struct SettingSources {
  Environment environment;
  std::string root;  // the repository's root; "" outside of one
};
// The file of kUser, kTracked or kClone. Throws kUsage if there is none (outside of a repository, or no home).
std::string settings_file(const SettingSources& sources, SettingOrigin origin);

class Settings {
 public:
  explicit Settings(const SettingSources& sources);  // reads the files; kUsage for any error in them
  // The value in force; nullopt if it is not set and has no default.
  std::optional<SettingValue> find(const std::string& key) const;
  std::string text(const std::string& key) const;  // "" if there is no value
  std::int64_t integer(const std::string& key) const;
  // The value from one source, even if a stronger source overrides it.
  std::optional<SettingValue> find_in(SettingOrigin origin, const std::string& key) const;

 private:
  std::map<SettingOrigin, std::map<std::string, SettingValue>> values_;
};

// Writes one value into the file of `origin`. Edits the text, so nothing else in it changes. Throws kUsage for a wrong
// value, kRefused for what looks like a secret. True if the file changed.
bool write_setting(const SettingSources& sources, SettingOrigin origin, const std::string& key,
                   const std::string& value, bool dry_run);
bool remove_setting(const SettingSources& sources, SettingOrigin origin, const std::string& key, bool dry_run);

// "ssh://user:secret@host": true for a password in a file that others read.
bool holds_password(const std::string& url);

}  // namespace mlx::registry
