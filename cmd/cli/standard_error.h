// Writing to stderr, for people. A rank whose launcher listens marks what it writes (dist/rank_lines.h): the launcher
// shows it, and keeps it with the run. All of mlx's own lines go through here. Errors of writing are nobody's to report
// to.
#pragma once

#include <string_view>

namespace mlx::cmd {

// Lines, or pieces of what is drawn on a terminal.
void write_stderr(std::string_view text);

// Whether this process is a rank whose launcher listens. Its stderr is no terminal then.
bool has_launcher();
// Tells such a launcher which run has begun.
void tell_run(std::string_view run);

}  // namespace mlx::cmd
