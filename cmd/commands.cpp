// The table of commands. To add one:
//
//   1. cmd/NAME.cpp with `Command add_NAME()`: it declares name, summary, group, options, examples and `run`. Options
//      point into a struct that `run` keeps alive (std::make_shared<Options>, captured by the lambda): see cmd/tag.cpp.
//   2. A declaration and a row below, in the order of `mlx help`.
//   3. man/prose/NAME.md: DESCRIPTION and what else its man page says; then `mlx help --generate .` in the source
//   folder.
//   4. A test: tests/cli/test_NAME.sh.
//
// Parsing, `--help`, the man page, the completions of three shells and did-you-mean follow from the declaration.
#include "cmd/commands.h"

namespace mlx::cmd {

Command add_add();
Command add_audit();
Command add_cat();
Command add_check();
Command add_checkout();
Command add_clone();
Command add_commit();
Command add_completion();
Command add_describe();
Command add_diff();
Command add_distill();
Command add_export();
Command add_fetch();
Command add_fsck();
Command add_gc();
Command add_help();
Command add_import();
Command add_init();
Command add_key();
Command add_lineage();
Command add_log();
Command add_ls();
Command add_merge_file();
Command add_promote();
Command add_rollback();
Command add_golden();
Command add_pull();
Command add_push();
Command add_remote();
Command add_rm();
Command add_show();
Command add_status();
Command add_tag();
Command add_config();
Command add_erase();
Command add_eval();
Command add_monitor();
Command add_predict();
Command add_quantize();
Command add_report();
Command add_serve();
Command add_serve_store();
Command add_rank();
Command add_tokenizer();
Command add_train();
Command add_undo();
Command add_version();

// clang-format off
const std::vector<CommandRow> kCommands = {
    {"init", add_init, kNothing},
    {"clone", add_clone, kNothing},
    {"add", add_add, kNeedsRepo},
    {"status", add_status, kNeedsRepo},
    {"diff", add_diff, kNeedsRepo},
    {"commit", add_commit, kNeedsRepo},
    {"log", add_log, kNeedsRepo},
    {"show", add_show, kNeedsRepo},
    {"ls", add_ls, kNeedsRepo},
    {"cat", add_cat, kNeedsRepo},
    {"checkout", add_checkout, kNeedsRepo},
    {"tag", add_tag, kNeedsRepo},
    {"rm", add_rm, kNeedsRepo},
    {"merge-file", add_merge_file, kNothing},
    {"undo", add_undo, kNeedsRepo},
    {"gc", add_gc, kNeedsRepo},
    {"fsck", add_fsck, kNeedsRepo},
    {"remote", add_remote, kNeedsRepo},
    {"fetch", add_fetch, kNeedsRepo},
    {"pull", add_pull, kNothing},
    {"push", add_push, kNothing},
    {"check", add_check, kNothing},
    {"describe", add_describe, kNothing},
    {"tokenizer", add_tokenizer, kNothing},
    {"import", add_import, kNeedsRepo},
    {"export", add_export, kNeedsRepo},
    {"promote", add_promote, kNeedsRepo},
    {"rollback", add_rollback, kNeedsRepo},
    {"golden", add_golden, kNeedsRepo},
    {"audit", add_audit, kNeedsRepo},
    {"key", add_key, kNothing},
    {"erase", add_erase, kNeedsRepo},
    {"lineage", add_lineage, kNeedsRepo},
    {"train", add_train, kNeedsRepo},
    {"eval", add_eval, kNothing},
    {"predict", add_predict, kNothing},
    {"monitor", add_monitor, kNothing},
    {"quantize", add_quantize, kNeedsRepo},
    {"distill", add_distill, kNeedsRepo},
    {"serve", add_serve, kNothing},
    {"help", add_help, kNothing},
    {"completion", add_completion, kNothing},
    {"config", add_config, kNothing},
    {"report", add_report, kNeedsRepo},
    {"version", add_version, kNothing},
    {"serve-store", add_serve_store, kNothing},
    {"rank", add_rank, kNothing},
};
// clang-format on

}  // namespace mlx::cmd
