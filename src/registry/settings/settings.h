// Settings: one table of what can be set, and the value in force of each. From strongest to weakest: the command's own
// option (the command's affair), the environment, .mlx/config.toml (this clone), mlx.toml (tracked by git, so that a
// project shares it), the user's own file, the default.
//
// A new setting is one row in settings.cpp; commands ask for it through Context::settings(). Nothing here reads the
// environment or knows where the user's home is: cmd/ passes both in. A wrong key, type or value is kUsage with file,
// line and what was meant.
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
  const char* key;          // "core.threads": table and name
  const char* environment;  // "MLX_THREADS"
  SettingKind kind;
  const char* fallback;  // "" where nothing holds until it is set
  const char* help;      // one sentence without a full stop
  std::vector<std::string> choices = {};
  std::int64_t min = 0, max = 0;
};
const std::vector<Setting>& all_settings();         // sorted by key
const Setting& setting_of(const std::string& key);  // kUsage with a did-you-mean; kRefused for what looks like a secret

enum class SettingOrigin { kDefault, kUser, kTracked, kClone, kEnvironment };
const char* origin_name(SettingOrigin origin);  // "default", "global", "tracked", "local", "environment"

struct SettingValue {
  std::string text;  // integers in decimal
  SettingOrigin origin = SettingOrigin::kDefault;
  std::string place;  // "mlx.toml:3", "MLX_THREADS", "" for the default
};

// Where settings come from. An empty variable is the same as an unset one.
struct SettingSources {
  Environment environment;
  std::string root;  // of the repository; "" outside of one
};
// The file of kUser, kTracked or kClone; kUsage where there is none (outside of a repository, no home).
std::string settings_file(const SettingSources& sources, SettingOrigin origin);

class Settings {
 public:
  explicit Settings(const SettingSources& sources);  // reads the files; kUsage for anything wrong in them
  // The value in force; nullopt where it is not set and there is no default.
  std::optional<SettingValue> find(const std::string& key) const;
  std::string text(const std::string& key) const;  // "" where nothing holds
  std::int64_t integer(const std::string& key) const;
  // What one source says, also where a stronger one hides it.
  std::optional<SettingValue> find_in(SettingOrigin origin, const std::string& key) const;

 private:
  std::map<SettingOrigin, std::map<std::string, SettingValue>> values_;
};

// Writes one value into the file of `origin`, as text: nothing else in it changes. kUsage for a wrong value, kRefused
// for what looks like a secret. True where the file changed.
bool write_setting(const SettingSources& sources, SettingOrigin origin, const std::string& key,
                   const std::string& value, bool dry_run);
bool remove_setting(const SettingSources& sources, SettingOrigin origin, const std::string& key, bool dry_run);

// "ssh://user:secret@host": a password in a file that others read.
bool holds_password(const std::string& url);

}  // namespace mlx::registry
