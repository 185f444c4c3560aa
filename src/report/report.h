// One self-contained HTML file about a model: curves, confusion matrix, per-class table, lineage, environment, and what
// quantization changed. Inline SVG and CSS, no scripts from elsewhere, no network; light and dark by prefers-color-scheme.
#pragma once

#include <string>

#include "registry/runs.h"

namespace mlx::report {

// About `reference` (a model version), with its parent where it was quantized from one; "" for the newest model.
std::string html_report(registry::Repository& repository, const std::string& reference);

}  // namespace mlx::report
