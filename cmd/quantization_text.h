// What quantization on calibration data cost a language model, as `mlx quantize` and `mlx show` print it: the record
// that is attached to the new version (mlx-quantize(1)).
#pragma once

#include "base/json_fwd.h"
#include "cmd/cli/cli.h"
#include "registry/versions/artifacts.h"

namespace mlx::cmd {

// With `layers` also a table of them. Throws kCorrupt if `record` is not one.
void print_quantization(Context& context, const Json& record, bool layers);
// Those that are attached to a version and are here, oldest first.
Json quantizations_of(registry::Repository& repository, const registry::Version& version);

}  // namespace mlx::cmd
