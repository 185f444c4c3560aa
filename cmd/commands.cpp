// The table of commands. To add one:
//
//   1. cmd/NAME.cpp with `Command add_NAME()`: it declares name, summary, group, options, examples and `run`. Options
//   point into
//      a struct that `run` keeps alive (std::make_shared<Options>, captured by the lambda); see cmd/tag.cpp for the
//      shape.
//   2. A declaration and a row below, in the order of `mlx help`.
//   3. man/prose/NAME.md: DESCRIPTION and what else its man page says; then `mlx help --generate all .` in the source
//   folder.
//   4. A test: tests/cli/test_NAME.sh.
//
// Parsing, `--help`, the man page, the completions of three shells and did-you-mean follow from the declaration.
#include "cmd/commands.h"

namespace mlx::cmd {

Command add_completion();
Command add_help();
Command add_version();

const std::vector<CommandRow> kCommands = {
    {"help", add_help, kNothing},
    {"completion", add_completion, kNothing},
    {"version", add_version, kNothing},
};

}  // namespace mlx::cmd
