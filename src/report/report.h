// One self-contained HTML file about a model: curves, confusion matrix, per-class table, lineage, environment, and what
// quantization changed. Inline SVG and CSS, no scripts, no network; light and dark by prefers-color-scheme.
//
// Used by cmd/report.cpp. The same repository state gives the same bytes. Missing parts (no evaluation, no
// quantization) are left out or mentioned.
#pragma once

#include <string>

#include "registry/versions/runs.h"

namespace mlx::report {

// A report on `reference` (a model version), with the model that it was quantized from and the one quantized from it;
// "" for the newest model. kNotFound if there is none, kUsage for a dataset.
std::string html_report(registry::Repository& repository, const std::string& reference);
// The version that html_report describes.
registry::Version report_subject(registry::Repository& repository, const std::string& reference);

}  // namespace mlx::report
