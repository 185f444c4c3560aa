// How people unlock keys on the command line: an identity's file, a passphrase from a file, a command or a terminal.
// Never from the command line itself, where others see it.
#pragma once

#include <memory>
#include <string>

#include "base/environment.h"
#include "cmd/cli/cli.h"
#include "registry/keys/keys.h"
#include "registry/repository.h"

namespace mlx::cmd {

// `passphrase_file` is the value of --passphrase-file: "" for none, "-" for stdin.
std::shared_ptr<registry::Unlocker> make_unlocker(Context& context, const std::string& passphrase_file = {});
// The repository that `folder` is in, apart from Context::repository(): for commands that make it, mend it, or are run
// elsewhere by git. Its keys are unlocked as everywhere.
std::unique_ptr<registry::Repository> open_repository(const std::string& folder, Context& context);
// The passphrase that keys are made with: given as one that unlocks is, else asked for twice on a terminal. kUsage
// where it is empty or nobody can be asked.
Secret first_passphrase(const Environment& environment, const std::string& passphrase_file, const std::string& what);
// One beside or in place of those that unlock: of its own file, or asked for; never what the environment unlocks with.
Secret another_passphrase(const std::string& passphrase_file, const std::string& what);

std::string identity_path(const Environment& environment);  // MLX_IDENTITY, else ~/.config/mlx/identity
KeyPair read_identity(const Environment& environment);      // kNotFound with a hint, kRefused if others can read it

}  // namespace mlx::cmd
