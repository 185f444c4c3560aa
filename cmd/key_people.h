// The subcommands of `mlx key` about who signs and whose signatures count: signing, people, trust, distrust; and how
// subcommands of `mlx key` are made.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "cmd/cli/cli.h"

namespace mlx::cmd {

std::vector<Command> people_commands();
Command api_key_command();  // `mlx key api` (key_api.cpp)

// `options` point into `values`, which live as long as the command; `changes`: takes -n.
template <typename Values>
Command subcommand(const char* name, const char* summary, std::vector<Option> options, bool changes,
                   const std::shared_ptr<Values>& values, int (*run)(const Values&, Context&)) {
  Command command;
  command.name = name;
  command.summary = summary;
  command.options = std::move(options);
  command.dry_run = changes;
  command.run = [values, run](Context& context) { return run(*values, context); };
  return command;
}

}  // namespace mlx::cmd
