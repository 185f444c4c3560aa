// mlx help: the overview, one command's help, or a guide, which `man` shows. With --generate it writes man pages and
// completions from the same declarations.
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/fd.h"
#include "base/module.h"
#include "base/path.h"
#include "cmd/cli/help.h"
#include "cmd/cli/invocation.h"
#include "registry/settings/settings.h"

namespace mlx::cmd {
namespace {

struct HelpOptions {
  std::vector<std::string> names;
  std::string generate;
};

void write_where_changed(Context& context, const std::string& path, const std::string& text) {
  if (path_exists(path) && read_text(path) == text) return;
  write_file_atomically(path, text);
  context.say("wrote " + path);
}

std::string prose_of(const std::string& man_folder, const std::string& name) {
  const std::string path = join_path(man_folder, "prose/" + name + ".md");
  return path_exists(path) ? read_text(path) : "";
}

// What mlx-config(1) says of each setting comes from their table.
std::string settings_prose() {
  std::string prose = "\n# SETTINGS\n";
  for (const registry::Setting& setting : registry::all_settings()) {
    const std::string fallback = *setting.fallback ? fmt::format(" The default is `{}`.", setting.fallback) : "";
    const std::string choices =
        setting.choices.empty() ? "" : fmt::format(" One of `{}`.", fmt::join(setting.choices, "`, `"));
    prose += fmt::format("- `{}` (`{}`): {}.{}{}\n", setting.key, setting.environment, setting.help, choices, fallback);
  }
  return prose;
}

// Writes below `root`, the source folder: man/*.1 from the declarations and man/prose, completions/.
void generate(Context& context, const std::string& root) {
  const std::string man = join_path(root, "man"), completions = join_path(root, "completions");
  make_folders(man);
  make_folders(completions);
  for (const Command& command : all_commands()) {
    write_where_changed(
        context, join_path(man, "mlx-" + command.name + ".1"),
        man_page(command, prose_of(man, command.name) + (command.name == "config" ? settings_prose() : "")));
  }
  write_where_changed(context, join_path(man, "mlx-format-graph.5"),
                      format_page("format-graph", "operations of a model's graph, and their attributes",
                                  prose_of(man, "format-graph") + graph_prose()));
  write_where_changed(context, join_path(man, "mlx.1"), man_overview(prose_of(man, "mlx")));
  write_where_changed(context, join_path(completions, "mlx.bash"), bash_completion());
  write_where_changed(context, join_path(completions, "_mlx"), zsh_completion());
  write_where_changed(context, join_path(completions, "mlx.fish"), fish_completion());
}

bool is_guide(const std::string& name) {
  for (const auto& [guide, summary] : guides()) {
    if (guide == name) return true;
  }
  return name.starts_with("format-");
}

// An installation's own pages come first, wherever it lies. An empty place in MANPATH stands for the system's pages.
void find_own_pages(const Environment& environment) {
  const std::string pages = join_path(parent_path(executable_folder()), "share/man");
  if (!is_folder(join_path(pages, "man7"))) return;
  setenv("MANPATH", fmt::format("{}:{}", pages, environment.get("MANPATH").value_or("")).c_str(), 1);
}

// Becomes `man mlx-NAME`; returns only by an error.
[[noreturn]] void show_guide(const std::string& name, const Environment& environment) {
  const std::string page = "mlx-" + name;
  find_own_pages(environment);
  execlp("man", "man", page.c_str(), static_cast<char*>(nullptr));
  throw Error(ErrorKind::kMissing, fmt::format("cannot run man to show {}", page), "install man-db or mandoc");
}

int run_help(const HelpOptions& options, Context& context) {
  if (!options.generate.empty()) {
    generate(context, options.generate);
    return 0;
  }
  if (options.names.size() == 1 && is_guide(options.names[0])) show_guide(options.names[0], context.environment());
  context.start_pager();
  if (options.names.empty()) {
    context.out(overview());
    return 0;
  }
  std::vector<std::string> words = options.names;
  words.push_back("--help");
  const Invocation call = parse_command_line(words);
  context.out(command_help(call.command, call.title));
  return 0;
}

}  // namespace

Command add_help() {
  auto options = std::make_shared<HelpOptions>();
  Command command;
  command.name = "help";
  command.summary = "Show help on a command or a guide, or list all commands";
  command.group = "meta";
  command.json = false;
  command.options = {
      arguments("COMMAND", options->names, "A command and its subcommand, or a guide", Complete::kCommand, false),
      option("--generate", "FOLDER", options->generate, "Write man/*.1 and completions/ below this folder",
             Complete::kFolder),
  };
  command.options.back().hidden = true;
  command.examples = {"mlx help add", "mlx help remote add", "mlx help tutorial"};
  command.run = [options](Context& context) { return run_help(*options, context); };
  return command;
}

}  // namespace mlx::cmd
