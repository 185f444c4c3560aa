// mlx completion: prints a shell's script; the scripts ask back with the hidden --words for names that change.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <set>

#include "base/error.h"
#include "cmd/cli/cli.h"
#include "cmd/cli/help.h"
#include "cmd/commands.h"
#include "registry/keys/keys.h"
#include "registry/operations/history.h"
#include "registry/settings/settings.h"
#include "registry/sync/sync.h"
#include "registry/versions/artifacts.h"
#include "registry/versions/references.h"
#include "registry/versions/runs.h"

namespace mlx::cmd {
namespace {

struct CompletionOptions {
  std::string shell, words;
  std::string typed;  // of the word that is completed, without the shell's quotes
};

// Nobody is asked for a passphrase while typing, so encrypted versions complete no paths.
class Nobody final : public registry::Unlocker {
 public:
  std::vector<KeyPair> identities() override { return {}; }
  std::optional<Secret> passphrase(const std::string&) override { return std::nullopt; }
};

// Every way to name a version: NAME, and NAME@ with vN, aliases, tags, latest and, if an alias was moved, previous.
std::set<std::string> reference_words(registry::Repository& repository) {
  std::set<std::string> words;
  for (const registry::Version& version : registry::versions(repository)) {
    words.insert(version.artifact);
    words.insert(version.artifact + "@latest");
    words.insert(version.name());
    for (const std::string& alias : version.aliases) words.insert(version.artifact + "@" + alias);
    for (const std::string& tag : version.tags) words.insert(version.artifact + "@" + tag);
  }
  std::map<std::string, std::set<Digest>> named;  // by artifact and alias
  for (const registry::AliasMove& move : registry::alias_moves(repository)) {
    std::set<Digest>& versions = named[move.artifact + "@" + move.alias];
    versions.insert(move.digest);
    if (versions.size() > 1) words.insert(move.artifact + "@previous");
  }
  return words;
}

// What a version holds in the folder that "NAME@SEL:some/folder/pa" is in, folders with a "/" behind them; names that
// do not fit in a line are left out.
std::set<std::string> path_words(registry::Repository& repository, const std::string& typed) {
  repository.keys().set_unlocker(std::make_shared<Nobody>());
  const std::string name = typed.substr(0, typed.find(':'));
  const std::string path = typed.substr(name.size() + 1), folder = path.substr(0, path.find_last_of('/') + 1);
  std::set<std::string> words;
  for (const store::Entry& entry : repository.store().entries(registry::resolve(repository, name).digest)) {
    if (!entry.path.starts_with(path) || entry.path.find('\n') != std::string::npos) continue;
    const std::size_t slash = entry.path.find('/', folder.size());
    words.insert(name + ":" + (slash == std::string::npos ? entry.path : entry.path.substr(0, slash + 1)));
  }
  return words;
}

std::set<std::string> words_of(const std::string& kind, const std::string& typed, Context& context) {
  std::set<std::string> words;
  if (kind == "command") {
    for (const CommandRow& row : kCommands) words.insert(row.name);
    return words;
  }
  if (kind == "setting") {
    for (const registry::Setting& setting : registry::all_settings()) words.insert(setting.key);
    return words;
  }
  if (!context.has_repository()) return words;
  registry::Repository& repository = context.repository();
  const bool run_as_reference = kind == "reference" && typed.starts_with("run");
  if (kind == "reference" && !typed.starts_with("run:"))
    words = typed.find(':') == std::string::npos ? reference_words(repository) : path_words(repository, typed);
  if (kind == "operation") {
    for (const Digest& id : registry::recorded_operations(repository.db())) words.insert(id.brief());
  }
  if (kind == "run" || run_as_reference) {
    for (const registry::Run& run : registry::runs(repository)) words.insert("run:" + run.id);
  }
  if (kind == "remote") {
    for (const registry::RemoteConfig& remote : registry::remotes(repository.root())) words.insert(remote.name);
  }
  return words;
}

int run_completion(const CompletionOptions& options, Context& context) {
  if (!options.words.empty()) {
    // Nobody reads errors while typing: a broken repository completes nothing.
    try {
      for (const std::string& word : words_of(options.words, options.typed, context)) context.line(word);
    } catch (const Error&) {
    }
    return 0;
  }
  if (options.shell == "bash")
    context.out(bash_completion());
  else if (options.shell == "zsh")
    context.out(zsh_completion());
  else if (options.shell == "fish")
    context.out(fish_completion());
  else
    throw Error(ErrorKind::kUsage, "completion: SHELL is missing", "one of bash, zsh, fish");
  return 0;
}

}  // namespace

Command add_completion() {
  auto options = std::make_shared<CompletionOptions>();
  Command command;
  command.name = "completion";
  command.summary = "Print the completion script of a shell";
  command.group = "meta";
  command.json = false;
  command.options = {
      choice("SHELL", "", {"bash", "zsh", "fish"}, options->shell, "The shell"),
      choice("--words", "KIND", {"reference", "run", "remote", "command", "setting", "operation"}, options->words,
             "Print the words of this kind"),
      option("--typed", "TEXT", options->typed, "The part of the word that was typed"),
  };
  for (Option& one : command.options) one.hidden = one.names.starts_with("--");
  command.examples = {"source <(mlx completion bash)", "mlx completion fish > ~/.config/fish/completions/mlx.fish"};
  command.run = [options](Context& context) { return run_completion(*options, context); };
  return command;
}

}  // namespace mlx::cmd
