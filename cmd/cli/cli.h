// The command line's one definition: commands declare their options here; parsing, help, man pages and completions all
// come from it.
//
// cmd/cli/cli.cpp builds CLI11 from these declarations and is the only file that includes it. How to add a command:
// commands.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "base/json_fwd.h"
#include "base/progress.h"

namespace mlx::registry {
class Repository;
class Settings;
struct SettingSources;
}  // namespace mlx::registry
namespace mlx::store {
class Disk;
}
namespace mlx {
class Pool;
}

namespace mlx::cmd {

enum class Complete { kNothing, kFile, kFolder, kReference, kRun, kRemote, kCommand, kSetting, kOperation, kChoice };

struct Option {
  std::string names;  // "-o,--out" or "DATA" for a positional
  std::string value;  // "FILE" in help; "" for a flag
  std::string help;   // one sentence without a full stop
  Complete complete = Complete::kNothing;
  std::vector<std::string> choices;  // closed set, kUsage otherwise
  bool required = false;
  bool many = false;  // positional or option that may repeat
  // Exactly one is set: where the value goes.
  bool* flag = nullptr;
  std::string* text = nullptr;
  std::int64_t* integer = nullptr;
  double* number = nullptr;
  std::vector<std::string>* texts = nullptr;
  bool hidden = false;  // parsed, but in no help, man page or completion
};

// What a command sees of the outside world: results go to out(), everything else to stderr.
class Context {
 public:
  virtual ~Context() = default;
  virtual void out(std::string_view text) = 0;   // stdout, as is
  virtual void line(std::string_view text) = 0;  // stdout with a newline (nothing under --json)
  virtual void say(std::string_view text) = 0;   // stderr with a newline, silent under -q
  virtual void json(const Json& document) = 0;   // the one document of --json; `schema` must be there
  virtual bool wants_json() const = 0;
  virtual bool quiet() const = 0;
  virtual bool verbose() const = 0;  // -v: the result in more detail, and on stderr what is done
  virtual bool dry_run() const = 0;
  virtual bool colour() const = 0;  // of stdout
  virtual std::string bold(std::string_view) const = 0;
  virtual std::string dim(std::string_view) const = 0;
  virtual std::string green(std::string_view) const = 0;
  virtual std::string red(std::string_view) const = 0;
  virtual std::string yellow(std::string_view) const = 0;
  virtual Progress& progress() = 0;
  virtual Pool& pool() = 0;
  virtual const Environment& environment() = 0;
  virtual const std::string& folder() const = 0;   // that of -C or of the shell, absolute
  virtual registry::Repository& repository() = 0;  // opened when first asked for
  virtual bool has_repository() = 0;
  virtual const registry::SettingSources& setting_sources() = 0;
  virtual const registry::Settings& settings() = 0;     // read when first asked for; a command's own option is stronger
  virtual const std::string& command_line() const = 0;  // as typed, for a run's title
  virtual store::Disk& disk() = 0;                      // for commands without a repository yet (init)
  virtual void flush() = 0;                             // stdout is buffered until the end, and until say()
  virtual void start_pager() = 0;                       // stdout goes through $PAGER from here on, if it is a terminal
};

struct Command {
  std::string name;
  std::string summary;          // one line of `mlx help`
  std::string group;            // versions, remotes, data, work, release, govern, meta
  std::vector<Option> options;  // in the order of help; common ones (-C, -q, -v, --json, -h, --color) are added for all
  std::string word_option;      // the option that a word too many is probably the value of: "-c"; "" for none
  std::vector<std::string> examples;  // shell lines for help and man page
  bool json = true;                   // has --json
  bool dry_run = false;               // has -n/--dry-run
  std::string verbose;                // what its result shows besides under -v, one sentence; "" where it is the same
  std::vector<Command> subcommands;   // `mlx remote add`
  std::function<int(Context&)>
      run;  // returns an exit code; throws mlx::Error. Unset where only subcommands do anything
};

inline Option flag(std::string names, bool& to, std::string help) {
  return {.names = std::move(names), .help = std::move(help), .flag = &to};
}
inline Option option(std::string names, std::string value, std::string& to, std::string help,
                     Complete complete = Complete::kNothing) {
  return {
      .names = std::move(names), .value = std::move(value), .help = std::move(help), .complete = complete, .text = &to};
}
inline Option choice(std::string names, std::string value, std::vector<std::string> choices, std::string& to,
                     std::string help) {
  return {.names = std::move(names),
          .value = std::move(value),
          .help = std::move(help),
          .complete = Complete::kChoice,
          .choices = std::move(choices),
          .text = &to};
}
inline Option integer(std::string names, std::string value, std::int64_t& to, std::string help) {
  return {.names = std::move(names), .value = std::move(value), .help = std::move(help), .integer = &to};
}
inline Option number(std::string names, std::string value, double& to, std::string help) {
  return {.names = std::move(names), .value = std::move(value), .help = std::move(help), .number = &to};
}
// Positionals: NAME in capitals. argument() is required, optional_argument() may be left out, arguments() takes the
// rest.
inline Option argument(std::string name, std::string& to, std::string help, Complete complete = Complete::kNothing) {
  return {.names = std::move(name), .help = std::move(help), .complete = complete, .required = true, .text = &to};
}
inline Option optional_argument(std::string name, std::string& to, std::string help,
                                Complete complete = Complete::kNothing) {
  return {.names = std::move(name), .help = std::move(help), .complete = complete, .text = &to};
}
inline Option arguments(std::string name, std::vector<std::string>& to, std::string help,
                        Complete complete = Complete::kNothing, bool required = true) {
  return {.names = std::move(name),
          .help = std::move(help),
          .complete = complete,
          .required = required,
          .many = true,
          .texts = &to};
}

}  // namespace mlx::cmd
