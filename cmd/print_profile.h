// A profile as text and as JSON: `mlx train --profile`.
#pragma once

#include "base/json_fwd.h"
#include "cmd/cli/cli.h"
#include "train/loop/profile.h"

namespace mlx::cmd {

void print_profile(Context& context, const train::Profile& profile);
Json profile_json(const train::Profile& profile);

}  // namespace mlx::cmd
