// Changes to a TOML file as text: the file belongs to the user, so comments, order and spacing stay as they are. Used
// for mlx.toml and config.toml.
//
// Every edit is read back. If the result is not the old document with this one change, the edit is refused (kConflict):
// the file is written in a way that these edits do not know (inline tables, dotted keys).
#pragma once

#include <string>
#include <vector>

namespace mlx {

using TomlPath = std::vector<std::string>;  // {"remotes", "origin"} is the table [remotes.origin]

std::string toml_quoted(const std::string& text);  // as a basic string, with its quotes

// `value` is a TOML literal on one line. Replaces the key's value in place, or adds a line to the table; an
// absent table is made at the end. `file` is for messages.
std::string with_toml_key(const std::string& text, const TomlPath& table, const std::string& key,
                          const std::string& value, const std::string& file);
// Unchanged if there is no such key. A table that is then empty goes too.
std::string without_toml_key(const std::string& text, const TomlPath& table, const std::string& key,
                             const std::string& file);
// Unchanged if there is no such table. Comments right before the next table stay.
std::string without_toml_table(const std::string& text, const TomlPath& table, const std::string& file);

}  // namespace mlx
