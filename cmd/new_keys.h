// Making a repository's keys, for `mlx init --encrypt` and `mlx remote add --encrypt`.
#pragma once

#include <string>

#include "cmd/cli/cli.h"
#include "registry/keys/keys.h"

namespace mlx::cmd {

// The options that both have.
struct NewKeysOptions {
  std::string passphrase_file;
  std::string recipient;  // a public key, or a file with one, instead of a passphrase
};
std::vector<Option> new_keys_options(NewKeysOptions& options);

// False if the repository has keys already.
bool make_keys_where_missing(registry::Keys& keys, const NewKeysOptions& options, Context& context);

// A public key as text, or the path of a file that holds one.
std::string read_public_key(const std::string& text_or_file);

}  // namespace mlx::cmd
