// Help as text, and the man pages and completion scripts that are generated from the same declarations.
#pragma once

#include <string>
#include <vector>

#include "cmd/cli/cli.h"

namespace mlx::cmd {

std::string usage_line(const Command& command, const std::string& title);  // "mlx tag [OPTION]... NAME REF"
std::string command_help(const Command& command, const std::string& title);
std::string overview();  // `mlx help`: every command by group
std::string version_text();

// Every command of the table, built; subcommands inside.
std::vector<Command> all_commands();
// The groups of the overview in their order, with a title each.
const std::vector<std::pair<std::string, std::string>>& command_groups();
// The pages mlx-NAME(7), with a summary each.
const std::vector<std::pair<std::string, std::string>>& guides();

// `prose` is the text of man/prose/NAME.md, "" where there is none: "# SECTION", paragraphs, "- item", four spaces for
// code, `literal`.
std::string man_page(const Command& command, const std::string& prose);  // mlx-NAME(1)
std::string graph_prose();  // what mlx-format-graph(5) says of the operations and attributes
std::string format_page(const std::string& name, const std::string& summary, const std::string& prose);  // mlx-NAME(5)
std::string man_overview(const std::string& prose);                                                      // mlx(1)

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace mlx::cmd
