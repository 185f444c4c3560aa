// Weights in groups that are rounded on calibration data (layer_by_layer.h), as wide as a bound needs (widths.h), and
// what that loses on held-out text, which is kept with the new version. Used by quantize.cpp.
#pragma once

#include "base/json_fwd.h"
#include "compress/quantize.h"

namespace mlx::compress {

// options.text is set. `about`: the model's model.json.
QuantizeOutcome quantize_text(registry::Repository& repository, const QuantizeOptions& options,
                              const registry::Version& from, const Json& about, Progress& progress);

}  // namespace mlx::compress
