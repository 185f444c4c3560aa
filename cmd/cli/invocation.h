// A command line taken apart: which command, its options filled in, and the options that all commands share.
//
// Used by main.cpp, help and completion. Wrong words are Error{kUsage} with a did-you-mean.
#pragma once

#include <string>
#include <vector>

#include "cmd/cli/cli.h"
#include "cmd/commands.h"

namespace mlx::cmd {

struct Common {
  std::string folder;  // -C; "" for the current one
  bool quiet = false, verbose = false, json = false, dry_run = false, help = false, version = false;
  std::string color = "auto";
};

struct Invocation {
  Command command;    // the leaf that runs; name "" for `mlx` alone
  std::string title;  // "mlx remote add"
  unsigned needs = kNothing;
  Common common;
};

// Builds the one command that `args` (without argv[0]) name, and no other. Options before the command's name mean the
// same as after it.
Invocation parse_command_line(const std::vector<std::string>& args);

// What every command takes besides its own, given what it declares (`json`, `dry_run`).
std::vector<Option> common_options(const Command& command, Common& common);

// "mlx remote add" as it begins a message, after "mlx: error: ": "remote add: ", and "" for mlx itself.
std::string message_start(const std::string& title);

bool is_positional(const Option& option);
std::vector<std::string> option_names(const Option& option);  // "-o", "--out"

// cli.cpp: fills in the options of `command` and the common ones from its words.
void parse_options(const Command& command, const std::string& title, std::vector<std::string> words, Common& common);

}  // namespace mlx::cmd
