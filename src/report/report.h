// One self-contained HTML file about a model: curves, confusion matrix, per-class table, lineage, environment, and what
// quantization changed. Inline SVG and CSS, no scripts, no network; light and dark by prefers-color-scheme.
//
// Used by cmd/report.cpp. The same repository state gives the same bytes. What is not known yet (no evaluation, no
// quantization) is left out or said.
#pragma once

#include <string>

#include "registry/versions/runs.h"

namespace mlx::report {

// About `reference` (a model version), with its parent if it was quantized from one, and with what was quantized
// from it; "" for the newest model. kNotFound if there is none, kUsage for a dataset.
std::string html_report(registry::Repository& repository, const std::string& reference);
// The version that html_report is about.
registry::Version report_subject(registry::Repository& repository, const std::string& reference);

}  // namespace mlx::report
